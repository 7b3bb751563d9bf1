"""`hostwheel bump` from an index to a pin, on made-up versions; and on the real ones."""

import hashlib
import json
import shutil
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest

from hostwheel.__main__ import main
from tests.plans import ROOT
from tests.served import files_below, serving
from tests.upstreams import COMMIT, EPOCH, FORWARDS, GGML, archive

HEAD = "Why: a test\nUpstream: not sent\nDrop when: never\n\n"
PIN = """\
# What is pinned.
default = "1.0"

[source."1.0"]  # the first
url = "file://{path}"
sha256 = "{sha256}"
llama_cpp_commit = "0123456789ab"
epoch = 1600000000  # an hour
"""


def sha256(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


@pytest.fixture
def recipes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """This checkout's recipes, with a made-up 1.0 pinned and one patch beside them."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    recipes = tmp_path / "checkout" / "recipes"
    shutil.copytree(ROOT / "recipes", recipes)
    pinned = archive(tmp_path, "1.0")
    (recipes / "upstream.toml").write_text(PIN.format(path=pinned, sha256=sha256(pinned)))
    patches = tmp_path / "checkout" / "patches"
    patches.mkdir()
    (patches / "0001-driver.patch").write_text(
        f"{HEAD}--- /dev/null\n+++ b/driver.cpp\n@@ -0,0 +1 @@\n{FORWARDS}"
    )
    return recipes


@pytest.fixture
def index(tmp_path: Path) -> Iterator[str]:
    """A registry that has whatever `offer` gave it."""
    (tmp_path / "web" / "llama-cpp-python").mkdir(parents=True)
    with serving(files_below(tmp_path / "web")) as address:
        yield address


def offer(folder: Path, path: Path, **more: object) -> None:
    """Put an archive into the registry, beside a wheel that nobody asked for."""
    web = folder / "web" / "llama-cpp-python"
    shutil.copy(path, web)
    file = {"filename": path.name, "url": path.name, "hashes": {"sha256": sha256(path)}, **more}
    wheel = {"filename": "llama_cpp_python-2.0-py3-none-any.whl", "url": "x", "hashes": {}}
    (web / "index.html").write_text(json.dumps({"files": [wheel, file]}))


def test_a_version_is_found_compared_and_pinned(
    recipes: Path, index: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    new = archive(tmp_path, "1.1")
    offer(tmp_path, new)
    before = (recipes / "upstream.toml").read_text()
    argv = ["bump", "1.1", "--recipes", str(recipes), "--index", index]
    assert main([*argv, "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert (found["base"], found["version"], found["unplanned"]) == ("1.0", "1.1", 0)
    assert found["archive_sha256"] == sha256(new)
    assert (recipes / "upstream.toml").read_text() == before

    assert main([*argv, "--write"]) == 0
    assert "Nothing unplanned changed." in capsys.readouterr().out
    after = (recipes / "upstream.toml").read_text()
    assert after.startswith(before)
    assert tomllib.loads(after)["source"]["1.1"] == {
        "url": f"{index}/llama-cpp-python/{new.name}",
        "sha256": sha256(new),
        "llama_cpp_commit": COMMIT[:12],
        "epoch": EPOCH,
    }
    assert main([*argv, "--write"]) == 2
    assert "pins 1.1 already" in capsys.readouterr().err
    assert main(["bump", "v1.1", *argv[2:], "--write"]) == 2
    assert "pins 1.1 already" in capsys.readouterr().err


def test_an_unplanned_change_is_exit_1_but_may_be_pinned(
    recipes: Path, index: str, tmp_path: Path
) -> None:
    more = ("set(GGML_NATIVE_DEFAULT ON)\n", "set(GGML_NATIVE_DEFAULT ON)\noption(GGML_X x ON)\n")
    offer(tmp_path, archive(tmp_path, "1.1", {GGML: more}))
    assert main(["bump", "1.1", "--recipes", str(recipes), "--index", index, "--write"]) == 1
    assert "1.1" in tomllib.loads((recipes / "upstream.toml").read_text())["source"]


def test_nothing_is_pinned_while_a_patch_does_not_apply(
    recipes: Path, index: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    offer(tmp_path, archive(tmp_path, "1.1"))
    before = (recipes / "upstream.toml").read_text()
    patch = recipes.parent / "patches" / "0002-version.patch"
    diff = "--- a/llama_cpp/__init__.py\n+++ b/llama_cpp/__init__.py\n@@ -3 +3 @@\n"
    diff += '-__version__ = "1.0"\n+__version__ = "1.0+x"\n'
    argv = ["bump", "1.1", "--recipes", str(recipes), "--index", index, "--write"]
    patch.write_text(HEAD + diff)
    assert main(argv) == 1
    said = capsys.readouterr()
    assert "1.1 was not pinned: these do not apply: 0002-version.patch" in said.err
    assert "! 0002-version.patch does not apply" in said.out
    assert (recipes / "upstream.toml").read_text() == before
    patch.write_text(f"Versions: ==1.0\n{HEAD}{diff}")
    assert main(argv) == 0


def test_an_archive_without_its_commit_is_not_pinned(
    recipes: Path, index: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    offer(tmp_path, archive(tmp_path, "1.1", git={}))
    argv = ["bump", "1.1", "--recipes", str(recipes), "--index", index]
    assert main(argv) == 0
    assert main([*argv, "--write"]) == 2
    assert "does not say which llama.cpp commit it has" in capsys.readouterr().err


def test_two_given_archives_need_no_network(recipes: Path, tmp_path: Path) -> None:
    (recipes / "upstream.toml").write_text(PIN.format(path="/nowhere.tar.gz", sha256="0" * 64))
    new, old = archive(tmp_path, "1.1"), archive(tmp_path, "0.9")
    argv = ["bump", "1.1", "--recipes", str(recipes), "--index", "http://127.0.0.1:9"]
    assert main([*argv, "--archive", str(new), "--from-archive", str(old)]) == 0
    assert main([*argv, "--from-archive", str(old)]) == 3


@pytest.mark.parametrize(
    ("argv", "said"),
    [
        (["1.2"], "has no source archive of 1.2; its newest are: 1.1"),
        (["new"], "'new' is no version of llama-cpp-python"),
        (["1.1", "--from", "0.9"], "--from: source is '0.9', which"),
        (["1.1", "--index", "{index}/none"], "/none/llama-cpp-python/: 404 File not found; give"),
        (["1.1", "--index", "foo"], "--index: no index at 'foo/llama-cpp-python/'; expected a URL"),
        (["1.1", "--index", "http://h:x"], "--index: 'http://h:x/llama-cpp-python/' is not a URL"),
        (["1.1", "--archive", "/nope"], "/nope: cannot be read: No such file"),
        (["1.1", "--archive", "/"], "/: cannot be read: it is a folder"),
        (["1.1", "--from-archive", "/nope"], "/nope: cannot be read: No such file"),
        (["1.1rc1", "--write"], "1.1rc1 is no release like 0.3.36, and only those are pinned"),
    ],
)
def test_what_cannot_be_found_is_named(
    argv: list[str],
    said: str,
    recipes: Path,
    index: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    offer(tmp_path, archive(tmp_path, "1.1"))
    asked = [part.replace("{index}", index) for part in argv]
    assert main(["bump", "--index", index, "--recipes", str(recipes), *asked]) == 2
    assert said in capsys.readouterr().err


@pytest.mark.parametrize(
    ("more", "said"),
    [
        ({"yanked": "broken"}, "1.1 was yanked (broken)"),
        ({"hashes": {}}, "has no sha256, so it cannot be pinned"),
        ({"hashes": {"sha256": "0" * 64}}, "is not the pinned one"),
    ],
)
def test_a_release_that_cannot_be_trusted_is_refused(
    more: dict[str, object],
    said: str,
    recipes: Path,
    index: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    offer(tmp_path, archive(tmp_path, "1.1"), **more)
    assert main(["bump", "1.1", "--recipes", str(recipes), "--index", index]) == 2
    assert said in capsys.readouterr().err


def test_an_index_in_html_is_refused(
    recipes: Path, index: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "web" / "llama-cpp-python" / "index.html").write_text("<a href=x>x</a>")
    assert main(["bump", "1.1", "--recipes", str(recipes), "--index", index]) == 2
    assert "is no index in JSON (PEP 691)" in capsys.readouterr().err


@pytest.mark.parametrize("files", [[1], [{}], [{"filename": "x", "url": 1}], {"a": 1}, 1])
def test_an_index_of_something_else_is_refused(
    files: object, recipes: Path, index: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    page = tmp_path / "web" / "llama-cpp-python" / "index.html"
    page.write_text(json.dumps({"files": files}))
    assert main(["bump", "1.1", "--recipes", str(recipes), "--index", index]) == 2
    assert "is no index in JSON (PEP 691)" in capsys.readouterr().err


@pytest.mark.network
@pytest.mark.timeout(600)
def test_the_real_0_3_36_against_0_3_35(capsys: pytest.CaptureFixture[str]) -> None:
    """What the two archives really differ in; the older one lacks an option that we plan."""
    data = ["--recipes", str(ROOT / "recipes"), "--json"]
    assert main(["bump", "0.3.35", "--from", "0.3.36", *data]) == 1
    back = json.loads(capsys.readouterr().out)
    assert (back["base"], back["dated"]["commit"]) == ("0.3.36", "4df29be4f4c3")
    assert back["dated"]["source"] == "the commit"
    assert back["defines"]["GGML_CUDA_FA_QUANTS"] == "gone"
    unplanned = {one["name"] for one in back["findings"] if one["unplanned"]}
    assert unplanned == {"GGML_CUDA_FA_QUANTS", "GGML_CUDA_PEER_MAX_BATCH_SIZE"}
    assert main(["bump", "0.3.36", "--from", "0.3.36", *data]) == 0
    same = json.loads(capsys.readouterr().out)
    pinned = tomllib.loads((ROOT / "recipes" / "upstream.toml").read_text())["source"]["0.3.36"]
    assert same["findings"] == []
    assert same["dated"]["commit"] == pinned["llama_cpp_commit"]
    assert (same["dated"]["epoch"], same["archive_sha256"]) == (pinned["epoch"], pinned["sha256"])
