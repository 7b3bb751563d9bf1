"""A bundle's files into one zip file, or into a folder of a submission: whole or not at all."""

import fcntl
import os
import shutil
import tempfile
import zipfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path

from hostwheel.artifact.safely import NO_ROOM
from hostwheel.errors import BadInput, MachineLacks
from hostwheel.plan.files import output_file
from hostwheel.trust.sums import SIGNATURE
from hostwheel.user.bundle_programs import STARTED
from hostwheel.user.carried.sums import SAID, SUMS, read_sums

CHUNK = 1 << 20
DATE = (1980, 1, 1, 0, 0, 0)  # where zip's time begins: the same inputs give the same bytes
FOLDER = "hostwheel-bundle"
WORK, LOCK = ".hostwheel-bundle-", "lock"


@contextmanager
def writing(path: Path) -> Iterator[None]:
    """Turn the disk's errors into MachineLacks."""
    try:
        yield
    except OSError as error:
        full = "the disk is full: make room" if error.errno in NO_ROOM else str(error.strerror)
        raise MachineLacks(f"{path} was not written: {error.filename or path}: {full}") from None


@contextmanager
def beside(place: Path) -> Iterator[Path]:
    """A folder on the disk of `place`, so that the last step is a rename."""
    parent = Path(os.path.realpath(place)).parent
    if not parent.is_dir():
        raise BadInput(f"{parent} is no folder: make it first")
    remove_killed(parent)
    with tempfile.TemporaryDirectory(prefix=WORK, dir=parent) as folder:
        lock = Path(folder) / "lock.new"
        with lock.open("x") as held:
            with suppress(OSError):  # a disk without locks: then nobody removes it
                fcntl.flock(held, fcntl.LOCK_EX)
                lock.rename(Path(folder) / LOCK)  # never seen without its holder
            yield Path(folder)


def remove_killed(parent: Path) -> None:
    """Folders of runs that were killed: nobody holds their locks."""
    for folder in parent.glob(f"{WORK}*"):
        with suppress(OSError), (folder / LOCK).open("r+") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            shutil.rmtree(folder)


def mode_of(name: str) -> int:
    return 0o755 if name in STARTED else 0o644


def member(name: str) -> zipfile.ZipInfo:
    """Stored, not packed: wheels and models are packed already."""
    info = zipfile.ZipInfo(name, DATE)
    info.create_system = 3  # Unix: the mode counts
    info.external_attr = (0o100000 | mode_of(name)) << 16
    return info


def write_zip(files: Mapping[str, Path], work: Path, output: Path) -> None:
    """`work` is on the same disk. The form is one for all Pythons, and `verify` holds to it."""
    part = work / "bundle.zip"
    with zipfile.ZipFile(part, "w") as archive:
        for name in sorted(files):
            large = files[name].stat().st_size > zipfile.ZIP64_LIMIT
            with (
                files[name].open("rb") as source,
                archive.open(member(name), "w", force_zip64=large) as target,
            ):
                shutil.copyfileobj(source, target, CHUNK)
    part.replace(output_file(output))


def check_into(into: Path) -> None:
    """Nothing of the user's is removed: only a bundle gives way to a bundle."""
    if not into.is_dir():
        raise BadInput(f"{into} is no folder: give that of the submission, or -o FILE.zip")
    place = into / FOLDER
    if place.exists() and not (place / SAID).is_file():
        raise BadInput(f"{place} is there, and no bundle: move it away")
    if added := next(not_bundled(place), None) if place.exists() else None:
        raise BadInput(f"{place} holds {added}, which is not of the bundle: move it away")


def not_bundled(bundle: Path) -> Iterator[str]:
    """Files that its SHA256SUMS does not name; what Python caches apart."""
    known = {SUMS, SIGNATURE, *read_sums(bundle)}
    for path in sorted(bundle.rglob("*")):
        name = path.relative_to(bundle).as_posix()
        is_file = path.is_symlink() or not path.is_dir()
        if is_file and path.parent.name != "__pycache__" and name not in known:
            yield name


def write_folder(files: Mapping[str, Path], work: Path, into: Path) -> Path:
    """FOLDER in the submission `into`, in place of an earlier one. `work` is on the same disk."""
    fresh, place, old = work / FOLDER, into / FOLDER, work / "old"
    for name, source in files.items():
        (fresh / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(source, fresh / name)
        (fresh / name).chmod(mode_of(name))
    if place.exists():
        place.replace(old)
    fresh.replace(place)
    return place
