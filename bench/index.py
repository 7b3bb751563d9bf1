"""How long an index takes, and beside dumb-pypi and simple503 on the same wheels.

python -m bench.index 10000 > bench/index.json
python -m bench.index 2000 PEERS > bench/index_peers.json

PEERS is a folder of programs, `bin` of an environment with dumb-pypi==1.15.0 and
simple503==0.4.0. All write files from nothing; ours are the bucket's index and one for each of 12
recipes, in HTML and JSON. Medians of runs that take turns. The wheels are empty but for METADATA;
simple503 opens and copies each, the others are told what is in them.
"""

import json
import os
import platform
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from hostwheel.facts.cpuid import Cpu
from hostwheel.publish.catalog import Catalog, Entry, read_catalog
from hostwheel.publish.index import render
from tests.buckets import entry_of, tiny_wheel

RUNS = 5
LABELS = (
    *("cpu.any", "cpu.sse42", "cpu.avx", "cpu.avx2", "cpu.avx512", "cu130.sm75.avx512.vnni"),
    *("cu130.sm80.avx512.vnni", "cu130.sm86.avx2", "cu129.sm86.avx2", "cu130.sm89.avx2"),
    *("cu130.sm90.avx2", "cu130.sm120a.avx2"),
)


def published(folder: Path, count: int) -> Catalog:
    """`count` wheels in `folder`, and the catalog that lists them."""
    versions = ((n // len(LABELS), LABELS[n % len(LABELS)]) for n in range(count))
    made = (
        entry_of(tiny_wheel(folder, f"0.3.{version}+{label}"), label.replace(".", "-"))
        for version, label in versions
    )
    return Catalog().next(made)


def with_copies(catalog: Catalog) -> Catalog:
    """As many variants besides."""
    return catalog.next([copied(each) for each in catalog.entries])


def copied(entry: Entry) -> Entry:
    public, _, label = entry.version.partition("+")
    plain = entry.filename.replace(entry.version, f"{public}+variants").removesuffix(".whl")
    return replace(
        entry,
        kind="variant",
        version=f"{public}+variants",
        filename=f"{plain}-{label}.whl",
        sha256=entry.sha256[::-1],
        variant=label,
        properties=("x86_64 :: level :: v3",),
    )


def write_index(catalog: Path, folder: Path) -> None:
    for page in render(read_catalog(catalog.read_bytes(), str(catalog))):
        if not page.key.endswith("/"):
            file = folder / page.key
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_bytes(page.body)


def package_list(catalog: Catalog) -> str:
    """What dumb-pypi is told, as much of it as it takes."""
    return "".join(
        json.dumps(
            {
                "filename": each.filename,
                "hash": f"sha256={each.sha256}",
                "requires_python": each.requires_python,
                "core_metadata": f"sha256={each.metadata}",
            }
        )
        + "\n"
        for each in catalog.entries
    )


def medians(
    works: Mapping[str, Callable[[Path], object]], folder: Path
) -> dict[str, dict[str, float]]:
    """Seconds of each, run in turn, each into an empty folder; and of processors, all together."""
    times: dict[str, list[tuple[float, float]]] = {name: [] for name in works}
    for _ in range(RUNS):
        for name, work in works.items():
            target = folder / "target"
            target.mkdir()
            started, used = time.perf_counter(), processor_s()
            work(target)
            times[name].append((time.perf_counter() - started, processor_s() - used))
            shutil.rmtree(target)
    return {
        name: {
            "wall": round(statistics.median(wall for wall, _ in taken), 2),
            "processor": round(statistics.median(used for _, used in taken), 2),
        }
        for name, taken in times.items()
    }


def processor_s() -> float:
    """Of this process and of those that it waited for."""
    return sum(os.times()[:4])


def quietly(argv: Sequence[str | Path]) -> None:
    subprocess.run(argv, check=True, stdout=subprocess.DEVNULL)


def with_peers(peers: Path, folder: Path, catalog: Catalog) -> dict[str, Callable[[Path], object]]:
    told = folder / "packages.json"
    told.write_text(package_list(catalog))
    dumb = (
        *(peers / "dumb-pypi", "--no-per-release-json", "--packages-url", "../../files"),
        *("--package-list-json", told),
    )
    simple = (peers / "simple503", "--copy", folder / "wheels")
    return {
        "dumb-pypi": lambda into: quietly((*dumb, "--output-dir", into)),
        "simple503": lambda into: quietly((*simple, into)),
    }


def measured(count: int, peers: Path | None) -> dict[str, object]:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        catalog = published(folder / "wheels", count)
        twice = with_copies(catalog)
        listed = folder / "catalog.json"
        listed.write_text(catalog.json())
        ours: dict[str, Callable[[Path], object]] = {
            "render": lambda _: render(catalog),
            "render, with as many variants": lambda _: render(twice),
            "read catalog.json, render, write": lambda into: write_index(listed, into),
        }
        theirs = with_peers(peers, folder, catalog) if peers else {}
        seconds = medians({**ours, **theirs}, folder)
        pages = render(catalog)
    return {
        "command": f"python -m bench.index {count}" + (" PEERS" if peers else ""),
        "cpu": Cpu().brand,
        "cores": len(os.sched_getaffinity(0)),
        "system": platform.platform(),
        "load when it ended, 1 minute": round(os.getloadavg()[0], 1),
        "wheels": count,
        "pages": len(pages),
        "bytes": sum(len(page.body) for page in pages),
        "seconds": seconds,
    }


if __name__ == "__main__":
    peers = Path(sys.argv[2]) if len(sys.argv) > 2 else None
    print(json.dumps(measured(int(sys.argv[1]), peers), indent=1))
