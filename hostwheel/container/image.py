"""The image that a plan is built in: a base that is looked at, and the locked tools on top."""

import hashlib
import os
import re
import shutil
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from hostwheel.artifact.binary import read_binary
from hostwheel.build.folders import writing
from hostwheel.build.toolchain import NVCC_SAYS, PROBE, Compiler
from hostwheel.container.bases import Base
from hostwheel.container.engines import ContainerEngine, caller, last_line
from hostwheel.errors import MachineLacks, StepFailed
from hostwheel.facts.host import Host
from hostwheel.facts.versions import numeric
from hostwheel.plan.files import read_file
from hostwheel.run import capture, live

PYTHON = "/opt/python/cp311-cp311/bin/python"
UTILITY_PYTHON = "/opt/python/cp39-cp39/bin/python"  # what cibuildwheel itself runs in there
CONTAINER_TOOLS = "container-tools"
LOST = re.compile(r"no such host|timeout|refused|unreachable|TLS|x509|proxy|EOF", re.IGNORECASE)
FULL = re.compile(r"no space left on device", re.IGNORECASE)

# Says what is missing and where the compiler is; PATH is the image's own (gcc-toolset's folder).
LOOK = f"""
for file in {PYTHON} {UTILITY_PYTHON} /bin/bash; do
    [ -x $file ] || echo lacks $file
done
[ -x {PYTHON.removesuffix("python")}pip ] || echo lacks {PYTHON.removesuffix("python")}pip
for program in gcc g++ tar which install; do
    command -v $program >/dev/null || echo lacks $program
done
echo gcc $(command -v gcc) $(gcc -dumpfullversion -dumpversion)
echo g++ $(command -v g++)
echo path $PATH
"""


@dataclass(frozen=True, kw_only=True, slots=True)
class Looked:
    """What is in a base: its identity, its compiler, its PATH; `nvcc` is the version of its own."""

    identity: str
    compiler: Compiler
    path: str
    nvcc: str | None


def identity(engine: ContainerEngine, image: str) -> str | None:
    """The engine's id of an image; None when it has none of that name."""
    try:
        said = capture((engine.name, "image", "inspect", "--format", "{{.Id}}", image))
    except StepFailed:
        return None
    return said.strip().removeprefix("sha256:")


def have_base(engine: ContainerEngine, base: Base) -> str:
    """The base's id, pulled if it is not here yet; MachineLacks when it cannot be."""
    if found := identity(engine, base.image):
        return found
    try:
        capture((engine.name, "pull", base.image))
    except StepFailed as error:
        raise no_base(engine, base, str(error)) from None
    return identity(engine, base.image) or base.image


def no_base(engine: ContainerEngine, base: Base, said: str) -> MachineLacks:
    if FULL.search(said):
        return MachineLacks(f"no room on the disk for the image {base.image}; make some\n{said}")
    why = "its registry cannot be reached" if LOST.search(said) else "it cannot be pulled"
    local = "hostwheel-base:bookworm"
    return MachineLacks(
        f"{engine.name} has no image {base.image}, and {why}: {last_line(said)}\n"
        "without network, make a base from a Debian mirror:\n"
        f"    docker/local-base {engine.name} {local} && "
        f"hostwheel build … --engine {engine.name} --base {local}"
    )


def look(engine: ContainerEngine, base: Base) -> Looked:
    """Start the base and see what is in it. MachineLacks names everything that it lacks."""
    found = have_base(engine, base)
    argv = (engine.name, "run", "--rm", "--network=none", *engine.limits, base.image)
    try:
        said = capture((*argv, "sh", "-c", LOOK))
    except StepFailed as error:
        raise MachineLacks(
            f"the image {base.image} does not start a shell: {last_line(str(error))}"
        ) from None
    lacks = re.findall(r"^lacks (.+)$", said, re.MULTILINE)
    if lacks:
        raise MachineLacks(
            f"the image {base.image} lacks {', '.join(lacks)}: cibuildwheel needs an image like "
            "manylinux_2_28, or one made by docker/local-base"
        )
    nvcc = own_nvcc(argv, base) if base.cuda else None
    return Looked(identity=found, compiler=compiler_of(said), path=said_path(said), nvcc=nvcc)


def own_nvcc(run: tuple[str, ...], base: Base) -> str:
    """The version of the base's nvcc ("12.9.86"); MachineLacks unless it is of the release."""
    nvcc = f"{base.cuda_root}/bin/nvcc"
    try:
        said = capture((*run, nvcc, "--version"))
    except StepFailed:
        raise MachineLacks(f"the image {base.image} lacks {nvcc} of CUDA {base.cuda}") from None
    found = NVCC_SAYS.search(said)
    if found is None or found[1] != base.cuda:
        has = found[1] if found else "no release that it says"
        raise MachineLacks(f"{nvcc} of the image {base.image} is {has}, planned is {base.cuda}")
    return found[2]


def compiler_of(said: str) -> Compiler:
    gcc = re.search(r"^gcc (\S+) (\d+(?:\.\d+)*)$", said, re.MULTILINE)
    gxx = re.search(r"^g\+\+ (\S+)$", said, re.MULTILINE)
    if gcc is None or gxx is None:
        raise MachineLacks(f"the image's gcc does not say its version: {said}")
    version = tuple(int(part) for part in gcc[2].split("."))
    return Compiler(gcc=Path(gcc[1]), gxx=Path(gxx[1]), version=version, version_text=gcc[2])


def said_path(said: str) -> str:
    found = re.search(r"^path (\S+)$", said, re.MULTILINE)
    return found[1] if found else "/usr/bin:/bin"


def newer_than_host(engine: ContainerEngine, base: Base, host: Host) -> Iterator[str]:
    """What a small C++ program of this base needs that the host lacks, one line each."""
    temporary = Path(tempfile.gettempdir())
    with writing(temporary), tempfile.TemporaryDirectory(prefix="hostwheel-") as folder:
        Path(folder, "probe.cpp").write_text(PROBE)
        mount = (f"--volume={folder}:/probe", "--security-opt=label=disable", "--workdir=/probe")
        user = engine.run_as_caller(*caller())
        argv = (engine.name, "run", "--rm", "--network=none", *engine.limits, *user, *mount)
        capture((*argv, base.image, "g++", "-std=c++17", "probe.cpp", "-o", "program"))
        asked = read_binary(Path(folder, "program")).versions
    for name, floor in (("GLIBC", host.glibc), ("GLIBCXX", host.glibcxx)):
        if numeric(asked.get(name, "0")) > numeric(floor):
            yield f"a program built on it needs {name}_{asked[name]}, host {host.name} has {floor}"


def image_name(looked: Looked, dockerfile: Path, locks: tuple[Path, ...]) -> str:
    """The name of an image is a hash of what it is made from: an equal one is not made again."""
    inputs = hashlib.sha256(looked.identity.encode())
    for file in (dockerfile, *locks):
        inputs.update(hashlib.sha256(read_file(file)).digest())
    return f"hostwheel:{inputs.hexdigest()[:16]}"


def make_image(
    engine: ContainerEngine, base: Base, name: str, dockerfile: Path, folders: tuple[Path, ...]
) -> None:
    """Have the image `name`: `base` with `folders` at the root of builds. No network is used."""
    if identity(engine, name):
        return
    temporary = Path(tempfile.gettempdir())
    with writing(temporary), tempfile.TemporaryDirectory(prefix="hostwheel-image-") as context:
        for folder in folders:
            copy_tools(folder, Path(context, folder.name))
        log = Path(context).with_suffix(".log")
        argv = (
            *(engine.name, "build", "--network=none", *build_limits(engine)),
            *("--build-arg", f"BASE={base.image}", "--build-arg", f"INPUTS={name}"),
            *("--file", str(dockerfile), "--tag", name, context),
        )
        try:
            live(argv, log=log, env=dict(os.environ))
        except StepFailed as error:
            said = log.read_text(errors="replace")
            if FULL.search(said):
                raise MachineLacks(f"no room on the disk for the image {name}") from None
            raise error
        finally:
            log.unlink(missing_ok=True)


def build_limits(engine: ContainerEngine) -> tuple[str, ...]:
    return engine.limits if engine.name == "podman" else ()


def copy_tools(folder: Path, into: Path) -> None:
    """Copy installed tools: readable by any user, their scripts for the container's Python."""
    shutil.copytree(folder, into, symlinks=True, copy_function=linked_or_copied)
    for path in (into, *into.rglob("*")):
        if path.is_dir() and not path.is_symlink():
            path.chmod(0o755)
    for script in (into / "bin").glob("*"):
        if script.is_file():
            make_portable(script)


def linked_or_copied(source: str, target: str) -> str:
    """A toolkit is large and the builder copies it anyway: a link where the disk allows one."""
    if Path(source).parent.name == "bin" or not Path(source).stat().st_mode & 0o004:
        shutil.copy(source, target)
        Path(target).chmod(Path(target).stat().st_mode | 0o444)
        return target
    try:
        Path(target).hardlink_to(source)
    except OSError:
        shutil.copy(source, target)
    return target


def make_portable(script: Path) -> None:
    """pip writes the path of its own Python into the first line."""
    with script.open("rb") as file:
        if not re.match(rb"#!.*/python[0-9.]*$", file.readline().rstrip()):
            return
        rest = file.read()
    script.write_bytes(f"#!{PYTHON}\n".encode() + rest)
