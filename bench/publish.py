"""How long an index of 10,000 wheels takes, and one more wheel beside them, in a local folder.

python bench/publish.py out/cpu-avx2 > bench/publish.json

The wheels are OUT's under other versions, of twelve recipes. dumb-pypi and simple503 index the
same file names, once, in HTML: the first from a list, the second from files, which are small
here, and which it also copies.
"""

import hashlib
import json
import os
import platform
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from zipfile import ZipFile

from hostwheel.facts.cpuid import Cpu
from hostwheel.publish.bucket import Bucket, check_create_only
from hostwheel.publish.catalog import Catalog, Entry
from hostwheel.publish.entries import items
from hostwheel.publish.evidence import Evidence, read_evidence
from hostwheel.publish.generations import generation_page, settle
from hostwheel.publish.index import render
from hostwheel.publish.page import Page
from hostwheel.publish.publish import publish
from hostwheel.publish.store import new_bucket
from hostwheel.publish.through import Through

WHEELS, RECIPES, RUNS = 10_000, 12, 5
OTHERS = {"dumb-pypi": "dumb-pypi==1.15.0", "simple503": "simple503==0.4.0"}
DERIVED = ("objects", "simple", "simple-json")


class Counting(Through):
    """Counts requests, by kind and the first part of the key."""

    def __init__(self, bucket: Bucket) -> None:
        super().__init__(bucket)
        self.counts: Counter[tuple[str, str]] = Counter()
        self.lock = threading.Lock()

    def count(self, what: str, key: str) -> None:
        with self.lock:
            self.counts[what, key.split("/")[0]] += 1

    def create(self, page: Page) -> bool:
        self.count("create", page.key)
        return super().create(page)

    def put(self, page: Page) -> None:
        self.count("put", page.key)
        super().put(page)

    def read(self, key: str) -> bytes | None:
        self.count("read", key)
        return super().read(key)

    def exists(self, key: str) -> bool:
        self.count("exists", key)
        return super().exists(key)


def many(evidence: Evidence) -> Iterator[Entry]:
    (wheel,) = [
        each.entry for each in items(evidence, "2026-11-30T12:00:00Z") if each.entry.kind == "wheel"
    ]
    for number in range(WHEELS):
        version = f"0.2.{number // RECIPES}+cu130.sm{number % RECIPES}.avx2"
        yield replace(
            wheel,
            recipe=f"recipe{number % RECIPES}",
            version=version,
            filename=f"llama_cpp_python-{version}-py3-none-manylinux_2_35_x86_64.whl",
            sha256=hashlib.sha256(version.encode()).hexdigest(),
        )


def seconds(work: Callable[[], object]) -> float:
    started = time.perf_counter()
    work()
    return time.perf_counter() - started


def median(work: Callable[[], object]) -> float:
    return round(statistics.median(seconds(work) for _ in range(RUNS)), 2)


def one_more(evidence: Evidence, catalog: Catalog) -> dict[str, object]:
    """Publishing OUT into a bucket that has the others already."""
    taken, counted = [], Counter[tuple[str, str]]()
    for _ in range(RUNS):
        with tempfile.TemporaryDirectory(prefix="bench-", dir="/var/tmp") as folder:
            bucket = Counting(new_bucket(folder))
            check_create_only(bucket)
            bucket.create(generation_page(catalog))
            settle(bucket, catalog)
            bucket.counts.clear()
            taken.append(seconds(partial(whole_publish, evidence, bucket)))
            counted = bucket.counts
    channels = {entry.recipe for entry in catalog.entries} | {evidence.plan["recipe"]}
    beside = {
        f"{what} {where}": number
        for (what, where), number in counted.items()
        if where not in (*DERIVED, *channels)
    }
    return {
        "seconds": round(statistics.median(taken), 2),
        "requests beside objects, evidence and pages": sum(beside.values()),
        "of these": beside,
        "all requests": sum(counted.values()),
    }


def whole_publish(evidence: Evidence, bucket: Bucket) -> None:
    check_create_only(bucket)
    publish(evidence, bucket, lambda name, done, total: None)


def dumb_pypi(entries: Sequence[Entry], folder: Path) -> Callable[[], object]:
    said = folder / "packages.json"
    lines = (
        json.dumps({"filename": each.filename, "hash": f"sha256={each.sha256}"}) for each in entries
    )
    said.write_text("\n".join(lines) + "\n")
    where = ("--packages-url", "../../objects", "--output-dir", str(folder / "dumb"))
    argv = (*uvx("dumb-pypi"), "--package-list-json", str(said), *where, "--no-per-release-json")
    return lambda: run(*argv)


def simple503(entries: Sequence[Entry], folder: Path) -> Callable[[], object]:
    wheels = folder / "wheels"
    wheels.mkdir()
    for each in entries:
        info = f"llama_cpp_python-{each.version}.dist-info"
        head = f"Metadata-Version: 2.1\nName: llama_cpp_python\nVersion: {each.version}\n"
        with ZipFile(wheels / each.filename, "w") as wheel:
            wheel.writestr(f"{info}/METADATA", head)
            wheel.writestr(f"{info}/WHEEL", "Wheel-Version: 1.0\nTag: py3-none-any\n")
            wheel.writestr(f"{info}/RECORD", "")
    return lambda: run(*uvx("simple503"), "--copy", "--sort", str(wheels), str(folder / "503"))


def uvx(name: str) -> tuple[str, ...]:
    return ("uvx", "--quiet", "--from", OTHERS[name], name)


def run(*argv: str) -> None:
    subprocess.run(argv, check=True, stdout=subprocess.DEVNULL)


def measured(out: Path) -> dict[str, object]:
    evidence = read_evidence(out)
    catalog = Catalog().next(many(evidence))
    pages = render(catalog)
    with tempfile.TemporaryDirectory(prefix="bench-", dir="/var/tmp") as name:
        folder = Path(name)
        return {
            "command": f"python bench/publish.py {out}",
            "cpu": Cpu().brand,
            "cores": len(os.sched_getaffinity(0)),
            "system": platform.platform(),
            "wheels": WHEELS,
            "recipes": RECIPES,
            "runs": RUNS,
            "index of all": {
                "seconds": median(lambda: render(catalog)),
                "pages": len(pages),
                "MB": round(sum(len(page.body) for page in pages) / 1e6, 1),
            },
            "one more": one_more(evidence, catalog),
            "others, seconds": {
                OTHERS["dumb-pypi"]: median(dumb_pypi(catalog.entries, folder)),
                OTHERS["simple503"]: median(simple503(catalog.entries, folder)),
            },
        }


if __name__ == "__main__":
    print(json.dumps(measured(Path(sys.argv[1])), indent=1))
