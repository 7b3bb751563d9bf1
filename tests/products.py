"""Wheels of stand-ins, held against the plan."""

from collections.abc import Mapping
from pathlib import Path

from hostwheel.build.evidence import write_symbols
from hostwheel.build.product import Product, check_product, unpack_wheel
from hostwheel.build.project import build_info
from hostwheel.errors import Refused
from hostwheel.facts.inside import BUILD_INFO
from hostwheel.plan.plan import Plan
from tests.plans import BILL, COMPILERS, LIB, link, plan_for, write_wheel

PLAN = plan_for("cpu-avx2")
CUDA = plan_for("a10g")


def problems(
    folder: Path, files: Mapping[str, bytes], plan: Plan = PLAN, name: str | None = None
) -> list[str]:
    """What is found in a wheel of these files; nothing when it passes."""
    product = unpacked(write_wheel(folder / (name or plan.wheel), files), folder)
    try:
        check_product(plan, product)
    except Refused as refused:
        return [line.strip() for line in str(refused).splitlines()[1:]]
    return []


def unpacked(wheel: Path, folder: Path) -> Product:
    """With symbol maps: these files are not stripped, so each is its own twin."""
    product = unpack_wheel(wheel, folder / "unpacked", folder / "symbols")
    write_symbols(product, product.root / LIB)
    return product


def changed(files: Mapping[str, bytes], member: str, old: str, new: str) -> dict[str, bytes]:
    content = files[member].replace(old.encode(), new.encode())
    assert content != files[member]
    return {**files, member: content}


def speaking_of(plan: Plan, files: Mapping[str, bytes]) -> dict[str, bytes]:
    """The same files, built as it were for another plan."""
    return {**files, BUILD_INFO: build_info(plan, COMPILERS, BILL)}


def built(folder: Path, name: str, code: str = "", *flags: str, **how: str) -> dict[str, bytes]:
    """One library of the wheel, compiled anew with a fault."""
    library = link(folder / "fault" / name, code, *flags, **{"runpath": "$ORIGIN", **how})
    return {f"{LIB}/{name}": library.read_bytes()}
