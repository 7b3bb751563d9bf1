"""Opening what users give: everything good comes out, nothing bad gets out."""

import bz2
import gzip
import io
import lzma
import random
import tarfile
import time
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest

from hostwheel.artifact.contents import open_artifact
from hostwheel.artifact.safely import Limits
from hostwheel.errors import BadInput
from tests.audits import plain_wheel

SMALL = Limits(bytes=1 << 20, members=50, ratio=100, free=1 << 16)


@pytest.fixture
def into(tmp_path: Path) -> Path:
    folder = tmp_path / "into"
    folder.mkdir()
    return folder


def zipped(path: Path, *names: str, content: bytes = b"x") -> Path:
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name in names:
            archive.writestr(name, content)
    return path


PACKERS: dict[str, Callable[[bytes], bytes]] = {
    "": bytes,
    "gz": gzip.compress,
    "bz2": bz2.compress,
    "xz": lzma.compress,
}


def tarred(path: Path, *members: tarfile.TarInfo, packer: str = "gz") -> Path:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as archive:
        for member in members:
            archive.addfile(member, io.BytesIO(b"x" * member.size))
    path.write_bytes(PACKERS[packer](buffer.getvalue()))
    return path


def entry(name: str, size: int = 1, **fields: object) -> tarfile.TarInfo:
    made = tarfile.TarInfo(name)
    made.size = size
    for field, value in fields.items():
        setattr(made, field, value)
    return made


def refusal(path: Path, into: Path, limits: Limits = SMALL) -> str:
    with pytest.raises(BadInput) as caught:
        open_artifact(path, into, limits)
    assert str(path) in str(caught.value)
    return str(caught.value)


# what is good


def test_a_wheel(tmp_path: Path, into: Path) -> None:
    contents = open_artifact(plain_wheel(tmp_path, {"pkg/data": b"1234"}), into)
    data = next(member for member in contents.members if member.name == "pkg/data")
    assert contents.kind == "wheel"
    assert (data.size, data.path.read_bytes()) == (4, b"1234")
    assert contents.size == contents.path.stat().st_size
    assert contents.wheel is not None
    assert (contents.wheel.name, contents.wheel.version) == ("pkg", "1.0")
    assert (contents.wheel.problems, contents.wheel.record) == ((), ())


@pytest.mark.parametrize("packer", PACKERS)
def test_a_tar_archive_by_its_content(tmp_path: Path, into: Path, packer: str) -> None:
    link = entry("bin/tool", 0, type=tarfile.SYMTYPE, linkname="../lib/tool")
    path = tarred(tmp_path / "download", entry("lib/tool", 700), link, packer=packer)
    contents = open_artifact(path, into)
    assert (contents.kind, contents.links) == ("archive", {"bin/tool": "../lib/tool"})
    assert [(member.name, member.size) for member in contents.members] == [("lib/tool", 700)]


def test_a_hard_link_is_a_link(tmp_path: Path, into: Path) -> None:
    twin = entry("lib/a.so.1", 0, type=tarfile.LNKTYPE, linkname="lib/a.so")
    contents = open_artifact(tarred(tmp_path / "x.tar.gz", entry("lib/a.so"), twin), into)
    assert contents.links == {"lib/a.so.1": "a.so"}


def test_a_zip_archive_with_a_link(tmp_path: Path, into: Path) -> None:
    link = zipfile.ZipInfo("lib/a.so.1")
    link.external_attr = 0o120777 << 16
    path = zipped(tmp_path / "x.zip", "lib/a.so")
    with zipfile.ZipFile(path, "a") as archive:
        archive.writestr(link, "a.so")
    contents = open_artifact(path, into)
    assert (contents.kind, contents.links) == ("archive", {"lib/a.so.1": "a.so"})


def test_a_folder_and_a_file_stay_where_they_are(tmp_path: Path, into: Path) -> None:
    folder = tmp_path / "folder"
    (folder / "sub").mkdir(parents=True)
    file = folder / "sub" / "libx.so"
    file.write_bytes(b"x")
    (folder / "libx.so.1").symlink_to("sub/libx.so")
    of_folder, of_file = open_artifact(folder, into), open_artifact(file, into)
    assert [member.path for member in of_folder.members] == [file]
    assert (of_folder.links, of_folder.sha256) == ({"libx.so.1": "sub/libx.so"}, None)
    assert (of_file.kind, of_file.members[0].name) == ("file", "libx.so")
    assert list(into.iterdir()) == []


# what is not


NAMES = ["../x", "a/../../x", "/etc/x", "a//x", "C:/x", "a\\x", "n" * 300]


@pytest.mark.parametrize("name", NAMES)
def test_a_name_that_leaves_the_folder_is_refused(tmp_path: Path, into: Path, name: str) -> None:
    assert "has a name" in refusal(zipped(tmp_path / "x.zip", name), into)
    assert "has a name" in refusal(tarred(tmp_path / "x.tar.gz", entry(name)), into)
    assert list(into.iterdir()) == []


def test_a_name_cut_at_a_nul_is_refused(tmp_path: Path, into: Path) -> None:
    path = zipped(tmp_path / "x.zip", "libx.so_evil")
    path.write_bytes(path.read_bytes().replace(b"libx.so_evil", b"libx.so\0evil"))
    refusal(path, into)


@pytest.mark.parametrize("target", ["/etc/passwd", "../../x", "sub/../../../x"])
def test_a_link_out_of_it_is_refused(tmp_path: Path, into: Path, target: str) -> None:
    link = entry("lib/x", 0, type=tarfile.SYMTYPE, linkname=target)
    assert "link out of it" in refusal(tarred(tmp_path / "x.tar.gz", link), into)


def test_writing_through_a_link_is_refused(tmp_path: Path, into: Path) -> None:
    link = entry("lib", 0, type=tarfile.SYMTYPE, linkname="elsewhere")
    path = tarred(tmp_path / "x.tar.gz", link, entry("lib/x"))
    assert "below a name that is a file" in refusal(path, into)


@pytest.mark.parametrize("kind", [tarfile.CHRTYPE, tarfile.BLKTYPE, tarfile.FIFOTYPE])
def test_a_device_is_refused(tmp_path: Path, into: Path, kind: bytes) -> None:
    assert "device" in refusal(tarred(tmp_path / "x.tar.gz", entry("x", 0, type=kind)), into)


@pytest.mark.filterwarnings("ignore:Duplicate name")
def test_a_name_there_twice_is_refused(tmp_path: Path, into: Path) -> None:
    assert "twice" in refusal(zipped(tmp_path / "x.zip", "a", "a"), into)
    (into / "a").unlink()
    assert "twice" in refusal(tarred(tmp_path / "x.tar.gz", entry("a"), entry("a")), into)


@pytest.mark.parametrize("name", ["dist/x-1.0-py3-none-any.whl", "x.tar.gz", "x.ZIP", "x.conda"])
def test_an_archive_inside_is_refused(tmp_path: Path, into: Path, name: str) -> None:
    assert "audit it by itself" in refusal(
        zipped(tmp_path / "pkg-1.0-py3-none-any.whl", name), into
    )
    folder = tmp_path / "folder"
    (folder / name).parent.mkdir(parents=True)
    (folder / name).write_bytes(b"x")
    assert "audit it by itself" in refusal(folder, into)


@pytest.mark.parametrize("name", ["x.whl", "x.zip", "x.tar.gz"])
def test_an_empty_file_is_no_archive(tmp_path: Path, into: Path, name: str) -> None:
    """numpy 1.26.4 for Windows has one."""
    contents = open_artifact(zipped(tmp_path / "a.zip", name, content=b""), into)
    assert [member.size for member in contents.members] == [0]
    assert contents.nested == ()


ELF = b"\x7fELF" + bytes(60)


def zip_of(name: str, content: bytes) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        archive.writestr(name, content)
    return buffer.getvalue()


def tar_of(content: bytes) -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as archive:
        archive.addfile(entry("x", len(content)), io.BytesIO(content))
    return buffer.getvalue()


@pytest.mark.parametrize(
    "content",
    [
        zip_of("libx.so", ELF),
        zip_of("x.dll", b"MZ" + bytes(60)),
        zip_of("libx.dylib", b"\xcf\xfa\xed\xfe" + bytes(60)),
        zip_of("inner", zip_of("libx.so", ELF)),
        zip_of("libx.so", ELF)[:-30],
        tar_of(b"x"),
        *(packer(tar_of(b"x")) for packer in (gzip.compress, bz2.compress, lzma.compress)),
        gzip.compress(ELF),
        b"\x28\xb5\x2f\xfd rest",
        b"7z\xbc\xaf\x27\x1c rest",
    ],
)
def test_an_archive_under_another_name_is_told(tmp_path: Path, into: Path, content: bytes) -> None:
    """With other data beside it, packed and as a folder."""
    path = tmp_path / "hid.zip"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("data/blob.bin", content)
        archive.writestr("data/other.bin", b"x")
    assert open_artifact(path, into).nested == ("data/blob.bin",)
    assert open_artifact(into, tmp_path).nested == ("data/blob.bin",)


@pytest.mark.parametrize(
    "content",
    [
        zip_of("array.npy", b"\x93NUMPY"),
        zip_of("A.class", b"\xca\xfe\xba\xbe\0\0\0\x34"),
        gzip.compress(b"1,2,3"),
        b"BZh and no more",
        ELF,
        b"",
    ],
)
def test_data_that_is_packed_is_data(tmp_path: Path, into: Path, content: bytes) -> None:
    (into / "blob.bin").write_bytes(content)
    assert open_artifact(into, tmp_path).nested == ()


def test_a_bomb_is_refused_before_it_fills_the_disk(tmp_path: Path, into: Path) -> None:
    zeros = bytes(900_000)
    assert "bomb" in refusal(zipped(tmp_path / "x.zip", "a", content=zeros), into)
    assert "bomb" in refusal(tarred(tmp_path / "x.tar.gz", entry("a", 900_000)), into)
    many = zipped(tmp_path / "many.zip", *map(str, range(60)))
    assert "more than 50 members" in refusal(many, into)
    assert sum(file.stat().st_size for file in into.rglob("*")) < 1 << 16


def test_a_bomb_that_says_it_is_small_is_refused(tmp_path: Path, into: Path) -> None:
    """The sizes of the central directory are changed, not what is packed."""
    path = zipped(tmp_path / "x.zip", "a", content=bytes(900_000))
    path.write_bytes(path.read_bytes().replace((900_000).to_bytes(4, "little"), b"\x0a\0\0\0"))
    refusal(path, into)
    assert sum(file.stat().st_size for file in into.rglob("*")) < 1 << 16


def test_a_header_that_fills_the_memory_is_refused(tmp_path: Path, into: Path) -> None:
    header = entry("x", 64 << 20, type=tarfile.XHDTYPE)
    path = tmp_path / "x.tar"
    path.write_bytes(header.tobuf() + bytes(1024))
    assert "header of" in refusal(path, into, Limits())


def test_other_packers_are_named(tmp_path: Path, into: Path) -> None:
    path = tmp_path / "x.tar.zst"
    path.write_bytes(b"\x28\xb5\x2f\xfd rest")
    assert "zstd is not read here; unpack it" in refusal(path, into)


def test_what_is_not_there_or_empty_is_refused(tmp_path: Path, into: Path) -> None:
    refusal(tmp_path / "nowhere.whl", into)
    (tmp_path / "empty").mkdir()
    assert "empty folder" in refusal(tmp_path / "empty", into)
    assert "holds no file" in refusal(zipped(tmp_path / "x.zip"), into)


MAKERS: list[Callable[[Path], Path]] = [
    lambda folder: plain_wheel(folder, {"pkg/a.bin": bytes(range(256)) * 20}),
    lambda folder: tarred(folder / "x.tar.gz", entry("a", 3000), entry("b/c", 3000)),
    lambda folder: tarred(folder / "x.tar.xz", entry("a", 3000), entry("b/c"), packer="xz"),
    lambda folder: tarred(folder / "x.tar", entry("a", 3000), entry("b/c"), packer=""),
]


@pytest.mark.parametrize("make", MAKERS)
def test_cut_short_anywhere_is_refused(tmp_path: Path, make: Callable[[Path], Path]) -> None:
    path = make(tmp_path)
    whole = path.read_bytes()
    blocks_at_the_end = 10_240 if path.suffix == ".tar" else 1
    for number, size in enumerate(range(0, len(whole) - blocks_at_the_end, len(whole) // 25)):
        path.write_bytes(whole[:size])
        into = tmp_path / f"into{number}"
        into.mkdir()
        refusal(path, into)


@pytest.mark.parametrize("make", MAKERS)
def test_changed_bytes_are_refused_or_read(tmp_path: Path, make: Callable[[Path], Path]) -> None:
    """Whatever is in it: BadInput or contents, inside the folder, in bounded time."""
    path = make(tmp_path)
    whole = path.read_bytes()
    chance, started, refused = random.Random(4), time.monotonic(), 0
    for number in range(150):
        damaged = bytearray(whole)
        for _ in range(chance.choice((1, 3, 40))):
            damaged[chance.randrange(len(whole))] = chance.randrange(256)
        path.write_bytes(damaged)
        into = tmp_path / f"into{number}"
        into.mkdir()
        try:
            contents = open_artifact(path, into, SMALL)
        except BadInput:
            refused += 1
        else:
            assert all(
                into in member.path.parents or member.path == path for member in contents.members
            )
    assert refused > 20
    assert time.monotonic() - started < 60
