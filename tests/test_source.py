import gzip
import io
import os
import tarfile
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from hostwheel.build.source import prepare, unpack
from hostwheel.errors import BadInput
from hostwheel.plan.patches import Patch

TIME = 1_600_000_000
Member = tuple[str, bytes | tarfile.TarInfo]
HEALTHY: list[Member] = [
    ("p-1/CMakeLists.txt", b"project(p)\n"),
    ("p-1/a/one.c", b"int one;\n"),
    ("p-1/.git/HEAD", b"ref\n"),
    ("p-1/vendor/x/.git", b"gitdir: ../..\n"),
    ("p-1/vendor/x/.gitignore", b"*.o\n"),
]
ADD = "--- a/a/one.c\n+++ b/a/one.c\n@@ -1 +1 @@\n-int one;\n+int two;\n"


def info(name: str, kind: bytes, link: str = "") -> Member:
    made = tarfile.TarInfo(name)
    made.type, made.linkname = kind, link
    return name, made


def make(path: Path, members: Sequence[Member]) -> Path:
    with tarfile.open(path, "w:gz") as tar:
        for name, content in members:
            if isinstance(content, tarfile.TarInfo):
                tar.addfile(content)
                continue
            member = tarfile.TarInfo(name)
            member.size, member.mtime, member.mode = len(content), TIME, 0o644
            tar.addfile(member, io.BytesIO(content))
    return path


def contents(folder: Path) -> dict[str, bytes]:
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in folder.rglob("*")
        if path.is_file()
    }


@pytest.fixture
def archive(tmp_path: Path) -> Path:
    return make(tmp_path / "p-1.tar.gz", HEALTHY)


def patch(text: str, sha256: str = "1") -> Patch:
    return Patch(name="0001-a.patch", text=text, sha256=sha256)


def test_a_healthy_archive_is_unpacked_without_top_folder_and_git(
    archive: Path, tmp_path: Path
) -> None:
    unpack(archive, tmp_path / "into" / "src")
    src = tmp_path / "into" / "src"
    assert contents(src) == {
        "CMakeLists.txt": b"project(p)\n",
        "a/one.c": b"int one;\n",
        "vendor/x/.gitignore": b"*.o\n",
    }
    assert (src / "a" / "one.c").stat().st_mtime == TIME
    assert [path.name for path in (tmp_path / "into").iterdir()] == ["src"]


def test_listed_folders_are_fine(tmp_path: Path) -> None:
    members = [info("p-1", tarfile.DIRTYPE), info("p-1/a", tarfile.DIRTYPE), *HEALTHY]
    unpack(make(tmp_path / "p.tar.gz", members), tmp_path / "src")
    assert (tmp_path / "src" / "a" / "one.c").is_file()


@pytest.mark.parametrize(
    ("member", "why"),
    [
        (("p-1/../../evil", b""), "may leave"),
        (("/p-1/evil", b""), "may leave"),
        (("p-1//evil", b""), "may leave"),
        (("other/file", b""), "one top-level folder"),
        (("P-1/file", b""), "one top-level folder"),
        (("file", b""), "one top-level folder"),
        (info("p-1/l", tarfile.SYMTYPE, "a/one.c"), "links are refused"),
        (info("p-1/l", tarfile.SYMTYPE, "/etc/passwd"), "links are refused"),
        (info("p-1/l", tarfile.LNKTYPE, "p-1/a/one.c"), "links are refused"),
        (info("p-1/dev", tarfile.CHRTYPE), "neither a file nor a folder"),
        (info("p-1/fifo", tarfile.FIFOTYPE), "neither a file nor a folder"),
        (("p-1/a/one.c", b"again"), "twice"),
        (("p-1/a/One.c", b"again"), "differ by case"),
        (("p-1/./a/one.c", b"again"), "twice"),
        (("p-1/A/two.c", b""), "clash of names with 'p-1/a'"),
        (("p-1/a/one.c/below", b""), "clash of names with 'p-1/a/one.c'"),
        (("p-1/a", b""), "clash of names with 'p-1/a'"),
    ],
    ids=lambda value: value[0] if isinstance(value, tuple) else None,
)
def test_a_member_that_could_do_harm_is_refused(member: Member, why: str, tmp_path: Path) -> None:
    bad = make(tmp_path / "bad.tar.gz", [*HEALTHY, member])
    with pytest.raises(BadInput) as refused:
        unpack(bad, tmp_path / "src")
    assert why in str(refused.value)
    assert str(bad) in str(refused.value)
    assert list(tmp_path.iterdir()) == [bad]


def test_a_bomb_is_refused_before_it_is_written(tmp_path: Path) -> None:
    bomb = make(tmp_path / "bomb.tar.gz", [*HEALTHY, ("p-1/zeros", bytes(1 << 20))])
    with pytest.raises(BadInput, match="unpacks to more than 1000000 bytes"):
        unpack(bomb, tmp_path / "src", limit_bytes=1_000_000)
    assert list(tmp_path.iterdir()) == [bomb]
    unpack(bomb, tmp_path / "src", limit_bytes=1_100_000)


def test_a_tail_of_zeros_is_a_bomb_too(archive: Path, tmp_path: Path) -> None:
    with gzip.open(archive, "ab") as tail:
        tail.write(bytes(1 << 20))
    with pytest.raises(BadInput, match="unpacks to more"):
        unpack(archive, tmp_path / "src", limit_bytes=1_000_000)
    unpack(archive, tmp_path / "src")


def damaged(whole: bytes) -> Iterator[bytes]:
    yield b""
    yield b"PK\3\4 not gzip"
    yield whole[: len(whole) // 2]
    yield whole[:-4]
    yield whole[:-8] + bytes(8)
    tar = bytearray(gzip.decompress(whole))
    tar[1024] ^= 0xFF  # the second header
    yield gzip.compress(bytes(tar))
    yield gzip.compress(gzip.decompress(whole)[:700])
    yield gzip.compress(b"")
    yield gzip.compress(bytes(10240))


def test_a_damaged_archive_is_refused(archive: Path, tmp_path: Path) -> None:
    whole = archive.read_bytes()
    for number, broken in enumerate(damaged(whole)):
        archive.write_bytes(broken)
        with pytest.raises(BadInput, match=r"damaged|holds no file"):
            unpack(archive, tmp_path / "src")
        assert list(tmp_path.iterdir()) == [archive], number
    archive.write_bytes(whole)
    unpack(archive, tmp_path / "src")


def test_a_missing_archive_is_named(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match=r"none\.tar\.gz"):
        prepare(tmp_path / "none.tar.gz", (), tmp_path / "tree", upstream="1")


def state(tree: Path) -> dict[str, int]:
    return {str(path): path.stat().st_mtime_ns for path in tree.rglob("*")}


def test_an_intact_tree_is_reused_untouched(archive: Path, tmp_path: Path) -> None:
    tree = tmp_path / "tree"
    first = prepare(archive, (patch(ADD),), tree, upstream="1")
    (tree / "src" / "left-by-a-build.so").write_bytes(b"x")
    (tree / "build").mkdir()
    before = state(tree)
    second = prepare(archive, (patch(ADD),), tree, upstream="1")
    assert (first.reused, second.reused) == (False, True)
    assert second.src == tree / "src"
    assert (tree / "src" / "a" / "one.c").read_text() == "int two;\n"
    assert state(tree) == before
    assert sorted(path.name for path in tmp_path.iterdir()) == ["p-1.tar.gz", "tree"]


@pytest.mark.parametrize("what", ["patch", "archive", "missing", "resized", "no stamp", "stamp"])
def test_anything_else_is_made_anew_with_its_builds(
    what: str, archive: Path, tmp_path: Path
) -> None:
    tree = tmp_path / "tree"
    prepare(archive, (patch(ADD),), tree, upstream="1")
    (tree / "build").mkdir()
    patches = [patch(ADD)]
    match what:
        case "patch":
            patches = [patch(ADD.replace("two", "three"), sha256="2")]
        case "archive":
            archive = make(tmp_path / "q.tar.gz", [*HEALTHY, ("p-1/new", b"")])
        case "missing":
            (tree / "src" / "CMakeLists.txt").unlink()
        case "resized":
            (tree / "src" / "CMakeLists.txt").write_text("")
        case "no stamp":
            (tree / "source.json").unlink()
        case _:
            (tree / "source.json").write_text('{"inputs": 1, "files": []}')
    assert not prepare(archive, patches, tree, upstream="1").reused
    assert not (tree / "build").exists()
    assert (tree / "src" / "CMakeLists.txt").read_bytes() == b"project(p)\n"
    assert prepare(archive, patches, tree, upstream="1").reused


def test_a_failure_leaves_the_old_tree(archive: Path, tmp_path: Path) -> None:
    tree = tmp_path / "tree"
    prepare(archive, (), tree, upstream="1")
    before = state(tree)
    with pytest.raises(BadInput, match="does not apply to p 1"):
        prepare(archive, (patch(ADD.replace("-int one", "-int none")),), tree, upstream="p 1")
    assert state(tree) == before
    assert sorted(path.name for path in tmp_path.iterdir()) == ["p-1.tar.gz", "tree"]


def test_what_a_killed_run_left_is_no_hindrance(archive: Path, tmp_path: Path) -> None:
    for name in (".tree.new", ".tree.old", ".src.unpacking"):
        (tmp_path / name / "src").mkdir(parents=True)
    prepare(archive, (), tmp_path / "tree", upstream="1")
    unpack(archive, tmp_path / "src")
    left = sorted(path.name for path in tmp_path.iterdir())
    assert left == ["p-1.tar.gz", "src", "tree"]


def test_modes_are_usable_by_others(archive: Path, tmp_path: Path) -> None:
    before = os.umask(0o022)
    try:
        prepared = prepare(archive, (), tmp_path / "tree", upstream="1")
    finally:
        os.umask(before)
    assert prepared.src.stat().st_mode & 0o777 == 0o755
    assert (prepared.src / "a" / "one.c").stat().st_mode & 0o777 == 0o644
