"""Everything that a machine without network and compiler needs, in one zip file or one folder."""

import re
import shutil
import zipfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from hostwheel.artifact.contents import sha256
from hostwheel.errors import BadInput, Refused
from hostwheel.plan.files import check_file, output_file
from hostwheel.trust.ssh import BUNDLE_NAMESPACE, sign
from hostwheel.trust.sums import SIGNATURE, SUMS, sums
from hostwheel.user import bundle_texts as texts
from hostwheel.user.bundle_fetch import fetch, fetch_file
from hostwheel.user.bundle_pack import beside, check_into, write_folder, write_zip, writing
from hostwheel.user.bundle_programs import programs
from hostwheel.user.bundle_source import Build, Wish, find_build
from hostwheel.user.bundle_texts import Facts, glibc_floor
from hostwheel.user.bundle_wheels import OURS, Wheel, check_ours, read_wheels
from hostwheel.user.prune import unneeded
from hostwheel.user.resolve import Target, download, resolved, target
from hostwheel.user.verify_bundle import EVIDENCE

GGUF = b"GGUF"
LICENCE_NAMES = ("license", "licence", "eula", "notice", "copying")


@dataclass(frozen=True, kw_only=True, slots=True)
class Request:
    """What the user asked for. One of `output` (a zip file) and `into` (a folder) is given.

    `licences` are further texts for licenses/; `max_size` is in bytes; `key` is an SSH key to sign
    with.
    """

    source: str
    wish: Wish
    python: str
    output: Path | None = None
    into: Path | None = None
    requirements: tuple[Path, ...] = ()
    models: tuple[Path, ...] = ()
    licences: tuple[Path, ...] = ()
    prune: bool = False
    max_size: int | None = None
    key: Path | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class Bundle:
    """What was written, and where. `parts` is title → names of its files, `sizes` in bytes."""

    place: Path
    facts: Facts
    parts: Mapping[str, Sequence[str]]
    sizes: Mapping[str, int]

    @property
    def size(self) -> int:
        return sum(self.sizes.values())


def bundle(request: Request) -> Bundle:
    """Choose, resolve, fetch, write. Where it raises, nothing was written."""
    check(request)
    build = find_build(request.source, request.wish)
    place = request.output or request.into or Path()
    with writing(place), beside(place) as work:
        facts = gathered(build, request, work)
        files = {**content(facts, request, work)}
        files |= listed(files, request.key, work)
        made = Bundle(
            place=place,
            facts=facts,
            parts=parts(facts, files),
            sizes={name: path.stat().st_size for name, path in files.items()},
        )
        check_size(made, request.max_size)
        if request.into:
            return replace(made, place=write_folder(files, work, request.into))
        write_zip(files, work, place)
    return made


def check(request: Request) -> None:
    """What can be refused before anything is fetched."""
    for path in (*request.requirements, *request.licences, *request.models):
        check_file(path)
    for path in request.models:
        with path.open("rb") as file:
            if file.read(len(GGUF)) != GGUF:
                raise BadInput(f"{path}: no GGUF file; is the download complete?")
    names = [path.name for path in (*request.models, *request.licences)]
    if odd := next((name for name in names if not name.isprintable() or "\\" in name), None):
        raise BadInput(
            f"{odd!r} has characters that a list of sums or a terminal reads otherwise: rename it"
        )
    if doubles := {name for name in names if names.count(name) > 1}:
        raise BadInput(f"two files are named {doubles.pop()!r}: rename one")
    if request.into:
        check_into(request.into)
    if request.output and request.output.is_dir():
        raise BadInput(f"{request.output} is a folder: give the name of a zip file, or --into")
    if request.output:
        output_file(request.output)


def gathered(build: Build, request: Request, work: Path) -> Facts:
    """Fetch our wheel with its evidence, and what it and the user require, resolved together."""
    wheels = work / "wheels"
    wheels.mkdir()
    ours = fetch_file(build.filename, build.wheel, wheels)
    check_ours(ours)
    fetch(build.evidence, work / "evidence")
    floor = request.wish.host.glibc if request.wish.host else build.needs.glibc
    aim = target(request.python, floor)
    wanted = written(work / "wanted.in", wanted_text(ours, request.requirements))
    fetch_packages(wanted, aim, wheels, work / "tools")
    found = read_wheels(wheels)
    left_out = unneeded(found, work) if request.prune else ()
    gone = [each.wheel for each in left_out]
    kept = tuple(each for each in found if each not in gone)
    return Facts(
        build=build,
        aim=replace(aim, glibc=glibc_floor(kept, floor)),
        wheels=kept,
        models=tuple(path.name for path in request.models),
        left_out=left_out,
    )


def wanted_text(ours: Path, requirements: Sequence[Path]) -> str:
    """Our wheel by its path: no index can bring another one of this name."""
    theirs = "".join(f"-r {path.absolute()}\n" for path in requirements)
    return f"{OURS} @ {ours.absolute().as_uri()}\n{theirs}"


def fetch_packages(wanted: Path, aim: Target, wheels: Path, tools: Path) -> None:
    """All but our own into `wheels`; into `tools` the pip that installs, theirs where they ask."""
    theirs = resolved(wanted, (OURS,), aim)
    asked = re.search(r"^pip==", theirs, re.MULTILINE) is not None
    pip = "" if asked else resolved(written(wanted.with_name("tools.in"), "pip\n"), (), aim)
    download(written(wanted.with_suffix(".txt"), theirs + pip), wheels, aim)
    tools.mkdir()
    for path in wheels.glob("pip-*.whl"):
        shutil.copy(path, tools)
        if not asked:
            path.unlink()


def written(path: Path, text: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8", newline="\n")
    return path


def content(facts: Facts, request: Request, work: Path) -> Mapping[str, Path]:
    """Every file but SHA256SUMS: its name in the bundle, and where its bytes lie now."""
    made = work / "texts"
    return {
        "README.txt": written(made / "README.txt", texts.readme(facts)),
        "bundle.json": written(made / "bundle.json", texts.said(facts)),
        "requirements.txt": written(made / "requirements.txt", texts.requirements(facts)),
        "pylock.toml": written(made / "pylock.toml", texts.pylock(facts)),
        **programs(),
        **{f"tools/{path.name}": path for path in (work / "tools").glob("*.whl")},
        **{f"wheels/{each.path.name}": each.path for each in facts.wheels},
        **{f"{EVIDENCE}{name}": work / "evidence" / name for name in facts.build.evidence},
        **{f"models/{path.name}": path for path in request.models},
        **{f"licenses/{path.name}": path for path in request.licences},
        **dict(nvidia_licences(facts.wheels, work / "licenses")),
    }


def listed(files: Mapping[str, Path], key: Path | None, work: Path) -> Mapping[str, Path]:
    """SHA256SUMS of these files, and its signature where there is a key."""
    text = sums({name: sha256(path) for name, path in files.items()})
    (work / SUMS).write_bytes(text)
    if key is None:
        return {SUMS: work / SUMS}
    (work / SIGNATURE).write_bytes(sign(text, key, BUNDLE_NAMESPACE))
    return {SUMS: work / SUMS, SIGNATURE: work / SIGNATURE}


def nvidia_licences(wheels: Sequence[Wheel], folder: Path) -> Iterator[tuple[str, Path]]:
    """The licence texts that lie in NVIDIA's wheels, where people find them."""
    for wheel in (each for each in wheels if each.is_nvidia):
        with zipfile.ZipFile(wheel.path) as archive:
            for name in archive.namelist():
                last = name.rpartition("/")[2]
                if ".dist-info/" in name and last.lower().startswith(LICENCE_NAMES):
                    text = folder / wheel.name / last
                    text.parent.mkdir(parents=True, exist_ok=True)
                    text.write_bytes(archive.read(name))
                    yield f"licenses/{wheel.name}/{last}", text


def parts(facts: Facts, files: Mapping[str, Path]) -> Mapping[str, Sequence[str]]:
    """The names of the files, by what they are for."""
    kinds = {f"wheels/{each.path.name}": each for each in facts.wheels}
    titles: dict[str, list[str]] = {
        "llama_cpp and llama-server": [],
        "CUDA's libraries": [],
        "other packages": [],
        "models": [],
        "evidence": [],
        "installer and lists": [],
    }
    for name in sorted(files):
        titles[title_of(name, kinds)].append(name)
    return {title: names for title, names in titles.items() if names}


def title_of(name: str, wheels: Mapping[str, Wheel]) -> str:
    if name in wheels:
        if wheels[name].is_nvidia:
            return "CUDA's libraries"
        return "llama_cpp and llama-server" if wheels[name].name == OURS else "other packages"
    folder = name.partition("/")[0]
    return folder if folder in ("models", "evidence") else "installer and lists"


def check_size(made: Bundle, limit: int | None) -> None:
    if limit is None or made.size <= limit:
        return
    largest = sorted(made.sizes, key=lambda name: -made.sizes[name])[:5]
    raise Refused(
        f"the bundle would have {made.size / 1e6:.1f} MB, --max-size allows {limit / 1e6:.1f} MB;"
        " nothing was written. The largest:"
        + "".join(f"\n    {made.sizes[name] / 1e6:8.1f} MB  {name}" for name in largest)
        + "\nCUDA's libraries: --prune; models: a stronger quantization"
    )
