"""Which CPU features x86-64 machine code uses, function by function. Facts, no verdicts.

Code is decoded function by function, where symbols or unwind tables tell the functions, so that
decoding finds its feet again at each of them; all that they hold counts. What lies between them
is padding, functions that nobody describes (hand-written assembly, leaf functions of Windows), or
tables. There, a stretch of instructions counts only if it leaves like code does, by a return or
a jump, without anything in it that no program contains: bytes that decode to nothing,
instructions of the kernel. Tables of random bytes hold such a thing about every tenth instruction.
"""

import mmap
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import compress, islice
from operator import attrgetter
from pathlib import Path

from iced_x86 import Code, Decoder, Formatter, FormatterSyntax, Instruction

from hostwheel.artifact.codes import QUESTIONS, code_kinds
from hostwheel.artifact.layout import Piece

CODE = attrgetter("code")
# Instructions, of what is nobody's: a table among them makes no more of them suspect.
BATCH = 1024

# Address, iced-x86's code.
Noted = tuple[int, int]


@dataclass(frozen=True, kw_only=True, slots=True)
class Chunk:
    """Part of a file's executable bytes, to be decoded alone.

    `pieces` are those of functions, by address; what lies between them is nobody's. They are not
    `exact` where only the functions' beginnings are known, and tables may lie behind one.
    """

    path: Path
    offset: int
    address: int
    size: int
    pieces: tuple[Piece, ...]
    exact: bool


@dataclass(frozen=True, kw_only=True, slots=True)
class Hit:
    """A feature used `count` times by `owner` (a function's address), first at `address`."""

    feature: str
    owner: int | None
    count: int
    address: int
    text: str


@dataclass(frozen=True, kw_only=True, slots=True)
class Decoded:
    """What one chunk holds. `questions` counts cpuid and xgetbv, `invalid` bytes of no meaning."""

    instructions: int
    invalid: int
    questions: int
    hits: tuple[Hit, ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class Stretch:
    """Bytes of one owner. `noted` are (address, code) of what is worth a second look."""

    owner: int | None
    instructions: int
    invalid: int
    noted: tuple[Noted, ...]


def decode(chunk: Chunk) -> Decoded:
    """Decode every byte of a chunk. About 5 million instructions a second."""
    code = content(chunk)
    found = tuple(stretches(chunk, code))
    return Decoded(
        instructions=sum(each.instructions for each in found),
        invalid=sum(each.invalid for each in found),
        questions=sum(number in QUESTIONS for each in found for _, number in each.noted),
        hits=tuple(hit for each in found for hit in hits(each, chunk.address, code)),
    )


def content(chunk: Chunk) -> bytes:
    with (
        chunk.path.open("rb") as file,
        mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as whole,
    ):
        return whole[chunk.offset : chunk.offset + chunk.size]


def stretches(chunk: Chunk, code: bytes) -> Iterator[Stretch]:
    """What each function holds, and what lies between them; those without anything noted too."""
    at, base = chunk.address, chunk.address
    for start, end, owner in chunk.pieces:
        if at < start:
            yield nobodys(code[at - base : start - base], at)
        yield function(code[start - base : end - base], start, owner, exact=chunk.exact)
        at = end
    if at < base + chunk.size:
        yield nobodys(code[at - base :], at)


def function(code: bytes, address: int, owner: int, *, exact: bool) -> Stretch:
    codes = list(map(CODE, Decoder(64, code, ip=address)))
    kinds = code_kinds()
    noted: tuple[Noted, ...] = ()
    invalid = 0
    if Code.INVALID in codes:
        dirty = tuple(resynced(code, address))
        invalid = sum(each == Code.INVALID for _, each in dirty)
        noted = tuple(each for each in dirty if each[1] in kinds.noted)
        noted = noted if exact else tuple(like_code(dirty))
    elif not kinds.noted.isdisjoint(codes):
        noted = tuple(picked(Decoder(64, code, ip=address), codes))
    return Stretch(owner=owner, instructions=len(codes), invalid=invalid, noted=noted)


def nobodys(code: bytes, address: int) -> Stretch:
    """What stands between functions: nearly always a few bytes of padding."""
    kinds = code_kinds()
    decoder = Decoder(64, code, ip=address)
    instructions, invalid = 0, 0
    noted: list[Noted] = []
    while decoder.can_decode:
        start = decoder.position
        batch = list(islice(decoder, BATCH))
        codes = list(map(CODE, batch))
        instructions += len(codes)
        if kinds.implausible.isdisjoint(codes):
            noted += picked(batch, codes)
            continue
        dirty = tuple(resynced(code[start : decoder.position], address + start))
        noted += like_code(dirty)
        invalid += sum(each == Code.INVALID for _, each in dirty)
    return Stretch(owner=None, instructions=instructions, invalid=invalid, noted=tuple(noted))


def picked(instructions: Iterable[Instruction], codes: Sequence[int]) -> Iterator[Noted]:
    """Those worth a second look; `codes` are theirs."""
    wanted = map(code_kinds().noted.__contains__, codes)
    return ((each.ip, each.code) for each in compress(instructions, wanted))


def like_code(instructions: Iterable[Noted]) -> Iterator[Noted]:
    """Of what is noted, that in stretches which leave like code does."""
    kinds = code_kinds()
    waiting: list[Noted] = []
    for at, code in instructions:
        if code in kinds.implausible:
            waiting.clear()
        elif code in kinds.noted:
            waiting.append((at, code))
        elif code in kinds.leaving:
            yield from waiting
            waiting.clear()


def resynced(code: bytes, address: int) -> Iterator[Noted]:
    """Each instruction; after one that is none it goes on at the next byte."""
    decoder = Decoder(64, code, ip=address)
    for instruction in decoder:
        yield instruction.ip, instruction.code
        if instruction.code == Code.INVALID:
            # It takes a second byte along, which may begin a real instruction.
            decoder.ip = instruction.ip + 1
            decoder.position = decoder.ip - address


def hits(stretch: Stretch, base: int, code: bytes) -> Iterator[Hit]:
    features = code_kinds().features
    counts: Counter[str] = Counter()
    first: dict[str, int] = {}
    for address, number in stretch.noted:
        for feature in features.get(number, ()):
            counts[feature] += 1
            first.setdefault(feature, address)
    for feature, count in counts.items():
        yield Hit(
            feature=feature,
            owner=stretch.owner,
            count=count,
            address=first[feature],
            text=text_at(first[feature], base, code),
        )


def text_at(address: int, base: int, code: bytes) -> str:
    decoder = Decoder(64, code, ip=base)
    decoder.ip, decoder.position = address, address - base
    return Formatter(FormatterSyntax.INTEL).format(decoder.decode())
