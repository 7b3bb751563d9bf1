"""What a catalog may not say: entry and field are named, and nothing is made of it."""

import json
from pathlib import Path
from typing import Any

import pytest

from hostwheel.__main__ import main
from hostwheel.errors import BadInput
from hostwheel.publish.catalog import read_catalog
from tests.users import RECIPES, catalog, entry

NAME = entry("cpu-avx2").filename
EVIL = "llama_cpp_python-1\x1b[2J.whl"


def changed(field: str, value: object) -> str:
    """A catalog of one entry, with another value in `field`, which may be one of its needs."""
    content = json.loads(catalog(entry("cpu-avx2")).json())
    made: dict[str, Any] = content["entries"][0]
    part = made["needs"] if field in made["needs"] else made
    part[field] = value
    return json.dumps(content)


@pytest.mark.parametrize(
    ("field", "value"),
    [
        *(("size", "big"), ("size", -1), ("size", True), ("version", "no version")),
        *(("glibc", "x.y"), ("glibc", None), ("glibcxx", "3.4.x"), ("driver", "580.x")),
        *(("cuda", "thirteen"), ("architecture", "sm"), ("features", "avx2"), ("features", [1])),
        *(("filename", "../../../evil.whl"), ("filename", "evil.whl"), ("filename", EVIL)),
        *(("filename", 5), ("sha256", "../../x"), ("sha256", "0" * 63), ("metadata", "../x")),
        *(("kind", "other"), ("recipe", 5), ("title", None), ("requires", "abc")),
        *(("yanked", 1), ("uploaded", 5), ("requires_python", None), ("platform_tag", [])),
    ],
)
def test_a_field_that_is_none_is_named(field: str, value: object, tmp_path: Path) -> None:
    named = value if field == "filename" else NAME
    with pytest.raises(BadInput) as caught:
        read_catalog(changed(field, value), "the catalog")
    assert str(caught.value).startswith(
        f"the catalog: entry {named!r}: {field} is {value!r}, expected "
    )


@pytest.mark.parametrize("evidence", [{"../x": "0" * 64}, {"build.json": "../x"}, {"a": 5}])
def test_evidence_elsewhere_is_refused(evidence: dict[str, object]) -> None:
    with pytest.raises(BadInput, match=r"evidence '.*' is .*, expected a plain name and its"):
        read_catalog(changed("evidence", evidence), "the catalog")


@pytest.mark.parametrize(("field", "value"), [("evidence", []), ("needs", 5), ("needs", {})])
def test_what_has_another_shape_is_no_catalog(field: str, value: object) -> None:
    with pytest.raises(BadInput, match="the catalog: no catalog"):
        read_catalog(changed(field, value), "the catalog")


def test_what_hostwheel_writes_is_read() -> None:
    """Archives, whose names are of another form, and builds for the GPU among them."""
    archive = entry("a10g", kind="archive", filename="llama-server-1+a.tar.gz", metadata="")
    made = catalog(archive, *map(entry, RECIPES))
    assert read_catalog(made.json(), "the catalog") == made


def test_pick_says_it_without_a_traceback(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "catalog.json").write_text(changed("filename", EVIL))
    assert main(["pick", str(tmp_path), "--host", "aws-g5"]) == 2
    said = capsys.readouterr()
    assert r"entry 'llama_cpp_python-1\x1b[2J.whl': filename is" in said.err
    assert (said.out, "\x1b" in said.err) == ("", False)
