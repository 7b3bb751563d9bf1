"""docker and podman: which of them really starts a container here, and as whom it runs."""

import io
import os
import re
import resource
import struct
import subprocess
import tarfile
from dataclasses import dataclass

from hostwheel.errors import MachineLacks

NAMES = ("docker", "podman")
CHOICES = ("auto", *NAMES, "local")
PROVED = 42  # the exit status of the program that the probe runs
PATIENCE = 120  # seconds; a daemon that hangs is no engine

# What engines say, by who has to act.
NO_DAEMON = re.compile(r"Cannot connect to the Docker daemon|Is the docker daemon running")
NO_PERMISSION = re.compile(r"permission denied", re.IGNORECASE)
NO_LIMITS = re.compile(r"setting rlimit")


@dataclass(frozen=True, kw_only=True, slots=True)
class ContainerEngine:
    """An engine that has started a container. `own_user`: its root is the calling user.

    `limits` are options that it needs where it may not raise its limits.
    """

    name: str
    version: str
    own_user: bool
    limits: tuple[str, ...] = ()

    def run_as_caller(self, uid: int, gid: int) -> tuple[str, ...]:
        """Options with which what a container writes into a mounted folder is the caller's."""
        if self.name == "podman" and self.own_user:
            return ("--userns=keep-id",)
        return () if self.own_user or uid == 0 else (f"--user={uid}:{gid}",)


@dataclass(frozen=True, kw_only=True, slots=True)
class Choice:
    """What builds, and why; `engine` is None for the local one."""

    engine: ContainerEngine | None
    why: str


class Broken(Exception):
    """An engine does not work; the text says why and what to do."""


def choose(wanted: str) -> Choice:
    """The engine of a `--engine` option. MachineLacks when the one that was named does not work."""
    if wanted == "local":
        return Choice(engine=None, why="local: this machine's compiler, as asked")
    tried = []
    for name in NAMES if wanted == "auto" else (wanted,):
        try:
            engine = working(name)
        except Broken as problem:
            tried.append(f"{name}: {problem}")
        else:
            why = "as asked" if wanted == name else "the first that starts a container"
            after = f" ({'; '.join(tried)})" if tried else ""
            return Choice(engine=engine, why=f"{name} {engine.version}: {why}{after}")
    if wanted == "auto":
        return Choice(
            engine=None, why=f"local, for want of a container engine ({'; '.join(tried)})"
        )
    raise MachineLacks(f"no container can be started with {tried[0]}; or take --engine local")


def working(name: str) -> ContainerEngine:
    """The engine, after it has run a program in a container; Broken says why it cannot."""
    version = said(name, "version", "--format", "{{.Client.Version}}").strip()
    own_user = is_rootless(name)
    limits = tried_limits(name)
    return ContainerEngine(name=name, version=version, own_user=own_user, limits=limits)


def is_rootless(name: str) -> bool:
    asked = {"docker": "{{json .SecurityOptions}}", "podman": "{{.Host.Security.Rootless}}"}[name]
    answer = said(name, "info", "--format", asked)
    return "name=rootless" in answer or answer.strip() == "true"


def tried_limits(name: str) -> tuple[str, ...]:
    """Run the probe; once more with our own limits where the engine may not raise its own."""
    image = said(name, "import", "-", given=probe_archive()).strip().splitlines()[-1]
    try:
        problem = start_failure(name, image, ())
        if problem is None:
            return ()
        if NO_LIMITS.search(problem) and start_failure(name, image, our_limits()) is None:
            return our_limits()
        raise Broken(f"it does not start a container: {last_line(problem)}")
    finally:
        subprocess.run((name, "rmi", "--force", image), capture_output=True, timeout=PATIENCE)


def our_limits() -> tuple[str, ...]:
    """Enough for a compile, and no more than we have. podman asks for a million of each."""
    wanted = {
        "nofile": (20_000, resource.getrlimit(resource.RLIMIT_NOFILE)[1]),
        "nproc": (4_096, resource.getrlimit(resource.RLIMIT_NPROC)[1]),
    }
    allowed = {
        name: enough if hard == resource.RLIM_INFINITY else min(enough, hard)
        for name, (enough, hard) in wanted.items()
    }
    return tuple(f"--ulimit={name}={number}:{number}" for name, number in allowed.items())


def start_failure(name: str, image: str, options: tuple[str, ...]) -> str | None:
    """What the engine said instead of running the probe; None when it ran."""
    argv = (name, "run", "--rm", "--network=none", *options, image, "/probe")
    try:
        done = subprocess.run(argv, capture_output=True, text=True, timeout=PATIENCE)
    except subprocess.TimeoutExpired:
        return f"no answer in {PATIENCE} seconds"
    return None if done.returncode == PROVED else done.stdout + done.stderr


def said(name: str, *arguments: str, given: bytes = b"") -> str:
    """The engine's answer; Broken with what to do when there is none."""
    try:
        done = subprocess.run(
            (name, *arguments), input=given, capture_output=True, timeout=PATIENCE
        )
    except FileNotFoundError:
        package = {"docker": "docker.io", "podman": "podman"}[name]
        raise Broken(f"not installed (apt-get install {package})") from None
    except subprocess.TimeoutExpired:
        raise Broken(f"no answer in {PATIENCE} seconds; restart it") from None
    except OSError as error:
        raise Broken(f"cannot be run ({error.strerror})") from None
    if done.returncode != 0:
        raise Broken(explained(done.stderr.decode(errors="replace")))
    return done.stdout.decode(errors="replace")


def explained(stderr: str) -> str:
    if NO_PERMISSION.search(stderr):
        return "no permission for its socket (as root: usermod -aG docker USER, and log in anew)"
    if NO_DAEMON.search(stderr):
        return "its daemon is not running (as root: systemctl start docker)"
    return last_line(stderr)


def last_line(text: str) -> str:
    return (text.strip().splitlines() or ["no reason given"])[-1]


def probe_archive() -> bytes:
    """A tar of one program, `/probe`: an image can be made of it where none can be pulled."""
    program = probe_program()
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as tar:
        member = tarfile.TarInfo("probe")
        member.size, member.mode = len(program), 0o755
        tar.addfile(member, io.BytesIO(program))
    return buffer.getvalue()


def probe_program() -> bytes:
    """An x86-64 ELF file without libc whose only act is exit(PROVED)."""
    code = bytes((0xBF, PROVED, 0, 0, 0, 0xB8, 60, 0, 0, 0, 0x0F, 0x05))  # edi, eax, syscall
    base, headers = 0x400000, 64 + 56
    size = headers + len(code)
    ident = b"\x7fELF" + bytes((2, 1, 1)) + bytes(9)
    header = struct.pack(
        "<16sHHIQQQIHHHHHH", ident, 2, 62, 1, base + headers, 64, 0, 0, 64, 56, 1, 0, 0, 0
    )
    segment = struct.pack("<IIQQQQQQ", 1, 5, 0, base, base, size, size, 0x1000)
    return header + segment + code


def caller() -> tuple[int, int]:
    return os.getuid(), os.getgid()
