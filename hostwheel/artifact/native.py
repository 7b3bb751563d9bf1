"""All facts of native files: the headers by format, the code chunk by chunk on every core."""

import os
import threading
import warnings
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from multiprocessing import get_all_start_methods, get_context
from pathlib import Path
from typing import Any

from hostwheel.artifact.chunks import chunks
from hostwheel.artifact.disasm import Decoded, decode
from hostwheel.artifact.elf import read_elf
from hostwheel.artifact.facts import Code, File, Member
from hostwheel.artifact.layout import Layout
from hostwheel.artifact.macho import read_macho
from hostwheel.artifact.magic import is_elf, is_macho
from hostwheel.artifact.pe import is_pe, read_pe
from hostwheel.artifact.uses import code
from hostwheel.errors import BadInput

# Bytes of a file. Below the first it is read in one go; below the second, all are read here:
# starting other processes takes longer.
WHOLE = 8 << 20
FEW = 2 << 20

# Bytes read, bytes to read.
Progress = Callable[[int, int], None]
Finish = Callable[[], tuple[File, ...]]


def no_progress(done: int, total: int) -> None:
    """For callers with nobody who waits."""


def read_file(member: Member, symbols: Path | None) -> tuple[File, ...]:
    """The facts of one file; none when it is not native code, one for each architecture.

    `symbols` is the folder of saved symbol maps. BadInput when it is truncated or damaged.
    """
    return tuple(
        file(member, layout, tuple(map(decode, chunks(member.path, layout))))
        for layout in layouts(member.path, symbols)
    )


def read_code(path: Path, symbols: Path | None) -> Code:
    """What the x86-64 code of one ELF file uses; BadInput when there is none."""
    layout = read_elf(path, symbols)
    if layout.regions is None:
        raise BadInput(f"{path}: machine {layout.native.machine}, expected x86-64")
    return code(layout, tuple(map(decode, chunks(path, layout))))


def read_files(
    members: Sequence[Member], symbols: Path | None, progress: Progress = no_progress
) -> tuple[File, ...]:
    """The facts of all native files, in their order, read on all cores."""
    native = tuple(each for each in members if is_native(each.path))
    total = sum(each.size for each in native)

    def advance(done: int) -> None:
        progress(done, total)

    if total < FEW:
        return alone(native, symbols, advance)
    pool = ProcessPoolExecutor(max_workers=os.cpu_count(), mp_context=get_context(start_method()))
    try:
        return together(pool, native, symbols, advance)
    except BrokenProcessPool as error:
        raise BadInput(
            "a file is so damaged that the program reading it was killed; audit its files singly"
        ) from error
    finally:
        pool.shutdown(cancel_futures=True)


def start_method() -> str:
    """fork, which takes no time, where no other thread can hold a lock at that moment."""
    forks = "fork" in get_all_start_methods() and threading.active_count() == 1
    return "fork" if forks else "spawn"


def alone(
    members: Sequence[Member], symbols: Path | None, advance: Callable[[int], None]
) -> tuple[File, ...]:
    found: list[File] = []
    done = 0
    for member in members:
        found += read_file(member, symbols)
        done += member.size
        advance(done)
    return tuple(found)


def together(
    pool: ProcessPoolExecutor,
    members: Sequence[Member],
    symbols: Path | None,
    advance: Callable[[int], None],
) -> tuple[File, ...]:
    """Small files go to the pool whole, and then large ones chunk by chunk."""
    weights: dict[Future[Any], int] = {}
    finish: dict[str, Finish] = {}
    for member in sorted(members, key=lambda each: each.size):
        if member.size < WHOLE:
            whole = pool.submit(read_file, member, symbols)
            weights[whole] = member.size
            finish[member.name] = whole.result
        else:
            finish[member.name] = split(pool, member, symbols, weights)
    done = sum(each.size for each in members) - sum(weights.values())
    for future in as_completed(weights):
        future.result()
        done += weights[future]
        advance(done)
    return tuple(found for member in members for found in finish[member.name]())


def split(
    pool: ProcessPoolExecutor,
    member: Member,
    symbols: Path | None,
    weights: dict[Future[Any], int],
) -> Finish:
    """Hand a large file's chunks to the pool and note their sizes; what is left to do at the end.

    Its headers are read here, while the pool is at work.
    """
    parts: list[tuple[Layout, tuple[Future[Decoded], ...]]] = []
    for layout in layouts(member.path, symbols):
        started = {pool.submit(decode, each): each.size for each in chunks(member.path, layout)}
        weights.update(started)
        parts.append((layout, tuple(started)))

    def joined() -> tuple[File, ...]:
        return tuple(
            file(member, layout, tuple(each.result() for each in futures))
            for layout, futures in parts
        )

    return joined


def file(member: Member, layout: Layout, decoded: tuple[Decoded, ...]) -> File:
    return File(
        member=member,
        native=layout.native,
        code=code(layout, decoded) if layout.regions is not None else None,
        images=layout.images,
    )


def layouts(path: Path, symbols: Path | None) -> tuple[Layout, ...]:
    if not is_native(path):
        return ()
    with warnings.catch_warnings():
        warnings.simplefilter(
            "ignore", RuntimeWarning
        )  # LIEF's, of numbers that it has no name for
        if is_elf(path):
            return (read_elf(path, symbols),)
        return (read_pe(path),) if is_pe(path) else read_macho(path)


def is_native(path: Path) -> bool:
    """Whether it begins like an ELF, PE or Mach-O file."""
    return path.is_file() and (is_elf(path) or is_pe(path) or is_macho(path))
