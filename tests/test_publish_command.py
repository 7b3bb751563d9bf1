"""`hostwheel publish` and its relatives as a user has them: what is printed, and exit status."""

import io
import json
import os
import re
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest

from hostwheel.__main__ import main
from hostwheel.artifact.contents import sha256
from hostwheel.publish import command
from hostwheel.publish.bucket import Bucket
from hostwheel.publish.catalog import Entry
from tests.plans import plan_for
from tests.proved import proved
from tests.stores import Memory, Overwriting, aws_environment, folder, s3_bucket

PLAN = plan_for("cpu-avx2")


@pytest.fixture
def out(tmp_path: Path) -> Path:
    return proved(tmp_path)


@pytest.fixture
def where(tmp_path: Path) -> Path:
    return tmp_path / "dist" / "bucket"


def said(capsys: pytest.CaptureFixture[str], *argv: object) -> tuple[int, str, str]:
    """Exit status, stdout and stderr."""
    capsys.readouterr()
    code = main([*map(str, argv)])
    printed = capsys.readouterr()
    return code, printed.out, printed.err


def files(path: Path) -> set[str]:
    return {str(each.relative_to(path)) for each in path.rglob("*") if each.is_file()}


def contents(folder: Path) -> dict[str, bytes]:
    return {name: (folder / name).read_bytes() for name in files(folder)}


def test_publish_says_what_it_did(
    out: Path, where: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code, text, lines = said(capsys, "publish", out, "--to", where)
    assert code == 0
    assert re.search(rf"^new +[\d.]+ kB  {re.escape(PLAN.wheel)}$", text, re.MULTILINE)
    assert f"generation 1 of {where.as_uri()}: 11 objects and 11 pages written" in text
    assert "smoke tests that could not be run where it was built: 1" in text
    assert "created catalog/00000001.json (" in lines
    assert lines.index("created objects/") < lines.index("wrote simple/")
    code, text, lines = said(capsys, "publish", out, "--to", where)
    assert (code, lines) == (0, "")
    assert "0 objects and 0 pages written" in text
    assert text.count("was there") == 3


def test_publish_goes_to_dist_bucket(
    out: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(["publish", str(out)]) == 0
    assert (tmp_path / "dist" / "bucket" / "simple" / "index.html").is_file()


def test_publish_for_machines(out: Path, where: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, text, _ = said(capsys, "publish", out, "--to", where, "--json")
    done: dict[str, Any] = json.loads(text)
    assert code == 0
    assert (done["generation"], done["not_run"], done["dry_run"]) == (1, 1, False)
    assert PLAN.wheel in done["changed"]
    assert {each["kind"] for each in done["files"]} == {"wheel", "archive", "variant"}
    assert {each["key"] for each in done["written"]} == files(where)


def test_a_dry_run_says_what_would_be_written_and_writes_nothing(
    out: Path, where: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code, text, lines = said(capsys, "publish", out, "--to", where, "--dry-run")
    assert code == 0
    assert "would write 11 objects and 11 pages" in text
    would = {line.split()[3] for line in lines.splitlines()}
    assert not where.parent.exists()
    main(["publish", str(out), "--to", str(where)])
    assert files(where) == would
    assert len(list(where.glob("objects/*/*/*"))) == 11
    assert said(capsys, "publish", out, "--to", where, "--dry-run")[2] == ""


def test_what_was_built_is_read_back_from_the_public_address(
    out: Path, where: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By pip and uv: tests/test_readback.py has them."""
    asked = []

    def read_back(url: str, entry: Entry, local: Path) -> None:
        asked.append((url, entry.filename, sha256(local) == entry.sha256))

    monkeypatch.setattr(command, "read_back", read_back)
    argv = ["publish", str(out), "--to", str(where), "--read-back", "https://wheels.example/llama"]
    assert main([*argv, "--dry-run"]) == 0
    assert asked == []
    assert main(argv) == 0
    names = (PLAN.archive, PLAN.wheel)
    assert asked == [("https://wheels.example/llama/", name, True) for name in names]


def test_what_is_refused_writes_nothing_not_even_the_folder(
    out: Path, where: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (out / "smoke.json").unlink()
    code, text, lines = said(capsys, "publish", out, "--to", where)
    assert (code, text) == (1, "")
    assert f"run `hostwheel smoke cpu-avx2 --out {out.parent}`" in lines
    assert not where.exists()


def test_what_is_no_build_and_what_is_no_bucket_are_wrong_input(
    out: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert said(capsys, "publish", tmp_path)[0] == 2
    assert said(capsys, "publish", out, "--to", "ftp://x")[0] == 2
    assert said(capsys, "fsck", tmp_path / "none")[0] == 2
    assert said(capsys, "prune", "ftp://x", "--keep", 1)[0] == 2


@pytest.mark.parametrize("dry", [(), ("--dry-run",)])
def test_a_file_is_no_bucket(
    dry: tuple[str, ...], out: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "file"
    file.write_bytes(b"mine")
    for argv in (("fsck", file), ("publish", out, "--to", file, *dry)):
        code, _, lines = said(capsys, *argv)
        assert (code, lines.startswith(f"hostwheel: {file}: is no folder; ")) == (2, True)
    assert file.read_bytes() == b"mine"


@pytest.mark.parametrize("inside", ["", "dist", "bucket/deep"])
def test_a_build_is_not_published_into_itself(
    out: Path, inside: str, capsys: pytest.CaptureFixture[str]
) -> None:
    before = files(out)
    code, _, lines = said(capsys, "publish", out, "--to", out / inside)
    assert code == 2
    assert "the build to publish; give --to another folder" in lines
    assert files(out) == before
    assert not (out / "bucket").exists()


def test_a_store_that_overwrites_is_refused_unless_told_otherwise(
    out: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    memory = Memory()

    def opened(where: str, endpoint: str | None) -> Bucket:
        return Overwriting(memory)

    monkeypatch.setattr(command, "new_bucket", opened)
    monkeypatch.setattr(command, "open_bucket", opened)
    code, _, lines = said(capsys, "publish", out, "--to", "s3://rclone")
    assert code == 1
    assert "take a store that honours If-None-Match" in lines
    assert [*memory.held] == ["probe/create-only"]
    assert said(capsys, "publish", out, "--to", "s3://rclone", "--sole-publisher")[0] == 0
    before = memory.state()
    assert said(capsys, "publish", out, "--to", "s3://rclone", "--sole-publisher")[0] == 0
    assert memory.state() == before
    assert said(capsys, "yank", "s3://rclone", PLAN.wheel, "--reason", "x")[0] == 1
    assert said(capsys, "fsck", "s3://rclone")[0] == 0


def test_publish_to_s3_as_aws_is_set_up(
    out: Path, s3_server: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    aws_environment(s3_server, monkeypatch)
    bucket = s3_bucket("command")
    code, text, _ = said(capsys, "publish", out, "--to", "s3://command/llama")
    assert code == 0
    assert "generation 1 of s3://command/llama: 11 objects and 19 pages written" in text
    assert bucket.exists("llama/catalog/00000001.json")
    monkeypatch.setenv("AWS_ENDPOINT_URL_S3", "http://127.0.0.1:1")
    argv = ("fsck", "s3://command/llama", "--endpoint-url", s3_server)
    assert said(capsys, *argv)[0] == 0


def test_yank_and_back(out: Path, where: Path, capsys: pytest.CaptureFixture[str]) -> None:
    main(["publish", str(out), "--to", str(where)])
    reason = "wrong <rope> scaling"
    code, text, _ = said(capsys, "yank", where, PLAN.wheel, "--reason", reason, "--json")
    assert code == 0
    assert json.loads(text)["yanked"][PLAN.wheel] == reason
    page = (where / "simple" / "llama-cpp-python" / "index.html").read_text()
    assert 'data-yanked="wrong &lt;rope&gt; scaling"' in page
    code, text, _ = said(capsys, "unyank", where, PLAN.wheel)
    assert (code, text) == (0, f"generation 3 of {where.as_uri()}\n")
    assert "yanked" not in (where / "simple" / "llama-cpp-python" / "index.html").read_text()
    assert said(capsys, "yank", where, "other.whl", "--reason", "x")[0] == 2


def test_fsck_says_what_is_wrong_and_mends_it(
    out: Path, where: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    main(["publish", str(out), "--to", str(where)])
    code, text, _ = said(capsys, "fsck", where)
    assert (code, text) == (0, f"{where.as_uri()}: generation 1, 3 files, 25 keys: all well\n")
    page = where / "simple" / "index.html"
    page.write_text("mine")
    code, text, _ = said(capsys, "fsck", where)
    assert code == 1
    assert "stale: simple/index.html: is not what the catalog gives" in text
    assert "--repair mends what can be made" in text
    code, text, _ = said(capsys, "fsck", where, "--json")
    (fault,) = json.loads(text)["faults"]
    assert (code, fault["kind"], fault["key"]) == (1, "stale", "simple/index.html")
    code, text, lines = said(capsys, "fsck", where, "--repair")
    assert code == 0
    assert "all well" in text
    assert [line.split()[1] for line in lines.splitlines()] == [
        "catalog/00000002.json",  # the same files once more: who writes pages has a generation
        "simple/index.html",
        "catalog.json",
        "catalog/00000002.settled",
    ]


def test_on_a_terminal_hashes_are_shortened() -> None:
    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    key = f"objects/00/{'0' * 64}/x.whl"
    assert command.shown(key, Terminal()) == "objects/00/000000000000…/x.whl"
    assert command.shown(key, io.StringIO()) == key


def test_fsck_names_what_it_cannot_mend(
    out: Path, where: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    main(["publish", str(out), "--to", str(where)])
    (wheel,) = where.glob(f"objects/*/*/{PLAN.wheel}")
    wheel.write_bytes(wheel.read_bytes()[:-1])
    code, text, lines = said(capsys, "fsck", where, "--repair")
    assert code == 1
    assert "publish cpu-avx2's out/ folder of 0.3.36+cpu.avx2 again" in text
    assert f"removed objects/{wheel.parent.parent.name}" in lines
    assert said(capsys, "publish", out, "--to", where)[0] == 0
    assert said(capsys, "fsck", where)[0] == 0


@pytest.mark.parametrize(
    ("spoilt", "how", "mends"),
    [
        ("simple/index.html", "changed", True),
        ("simple/index.html", "gone", True),
        ("catalog/00000003.json", "gone", True),
        ("catalog/00000003.json", "changed", True),
        (f"objects/*/*/{PLAN.wheel}.metadata", "gone", True),
        ("objects/*/*/*+variants-*.whl", "gone", True),
        (f"objects/*/*/{PLAN.wheel}", "changed", True),
        ("other/simple/index.html", "new", True),
        (f"objects/*/*/{PLAN.wheel}", "gone", False),
        ("objects/*/*/audit.json", "gone", False),
        ("catalog/00000002.json", "gone", False),
        ("catalog/00000001.json", "changed", False),
        ("objects/ab/cdef/left.whl", "new", False),
        ("notes.txt", "new", False),
    ],
)
def test_fsck_names_repair_only_where_it_does_something(
    spoilt: str, how: str, mends: bool, out: Path, where: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    main(["publish", str(out), "--to", str(where)])
    main(["yank", str(where), PLAN.wheel, "--reason", "x"])
    main(["unyank", str(where), PLAN.wheel])
    file = where / spoilt if how == "new" else next(where.glob(spoilt))
    file.parent.mkdir(parents=True, exist_ok=True)
    file.unlink() if how == "gone" else file.write_text("mine")
    before = contents(where)
    code, text, _ = said(capsys, "fsck", where)
    assert code == 1
    assert ("--repair" in text) is mends
    assert mends or re.search(r"; (publish|put it back|delete|`hostwheel prune) ?", text)
    said(capsys, "fsck", where, "--repair")
    assert (contents(where) != before) is mends


def test_prune(out: Path, where: Path, capsys: pytest.CaptureFixture[str]) -> None:
    main(["publish", str(out), "--to", str(where)])
    main(["yank", str(where), PLAN.wheel, "--reason", "x"])
    assert said(capsys, "prune", where, "--keep", 1)[:2] == (0, "0 keys removed\n")
    first = where / "catalog" / "00000001.json"
    long_ago = datetime(2026, 1, 1).timestamp()
    os.utime(first, (long_ago, long_ago))
    code, text, lines = said(capsys, "prune", where, "--keep", 1, "--dry-run")
    assert (code, text) == (0, "2 keys would be removed\n")
    assert first.exists()
    assert "removed catalog/00000001.json" in lines
    code, text, _ = said(capsys, "prune", where, "--keep", 1, "--json")
    assert json.loads(text)["removed"] == ["catalog/00000001.settled", "catalog/00000001.json"]
    assert not first.exists()
    assert said(capsys, "fsck", where)[0] == 0
    assert said(capsys, "prune", where, "--keep", 0)[0] == 2


def test_a_folder_is_left_as_it_was_when_it_was_only_looked_at(out: Path, where: Path) -> None:
    main(["publish", str(out), "--to", str(where)])
    before = files(where)
    main(["fsck", str(where)])
    assert files(where) == before
    assert list(folder(where).list("")) != []
