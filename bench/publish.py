"""How long it takes to publish one build beside 10,000 wheels, in a local folder.

python -m bench.publish out/cpu-avx2 > bench/publish.json

The others are OUT's wheel under other versions, of twelve recipes. Medians. bench/index.py has the
index alone.
"""

import hashlib
import json
import os
import platform
import statistics
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path

from hostwheel.facts.cpuid import Cpu
from hostwheel.publish.bucket import Bucket, check_create_only
from hostwheel.publish.catalog import Catalog, Entry
from hostwheel.publish.entries import items
from hostwheel.publish.evidence import Evidence, read_evidence
from hostwheel.publish.generations import HINT
from hostwheel.publish.publish import add, publish
from hostwheel.publish.store import new_bucket
from hostwheel.trust.sums import SUMS
from tests.stores import Counting

WHEELS, RECIPES, RUNS = 10_000, 12, 5
PAGES = ("simple", "simple-json", "builds", "index.html", SUMS, HINT)


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


def one_more(evidence: Evidence, catalog: Catalog) -> dict[str, object]:
    """Publishing OUT into a bucket that has the others already."""
    taken, processor = [], []
    counted = Counter[tuple[str, str]]()
    for _ in range(RUNS):
        with tempfile.TemporaryDirectory(prefix="bench-", dir="/var/tmp") as folder:
            bucket = Counting(new_bucket(folder))
            check_create_only(bucket)
            add(bucket, Catalog(), catalog.entries)
            bucket.counts.clear()
            before = time.process_time()
            taken.append(seconds(partial(whole_publish, evidence, bucket)))
            processor.append(time.process_time() - before)
            counted = bucket.counts
    channels = {entry.recipe for entry in catalog.entries} | {evidence.plan["recipe"]}
    beside = {
        f"{what} {where}": number
        for (what, where), number in counted.items()
        if where != "objects" and not (what == "put" and where in (*PAGES, *channels))
    }
    return {
        "seconds": round(statistics.median(taken), 2),
        "seconds of one processor": round(statistics.median(processor), 2),
        "requests beside objects, evidence and the PUTs of pages": sum(beside.values()),
        "of these": beside,
        "all requests": sum(counted.values()),
    }


def whole_publish(evidence: Evidence, bucket: Bucket) -> None:
    check_create_only(bucket)
    publish(evidence, bucket, lambda name, done, total: None)


def measured(out: Path) -> dict[str, object]:
    evidence = read_evidence(out)
    return {
        "command": f"python -m bench.publish {out}",
        "cpu": Cpu().brand,
        "cores": len(os.sched_getaffinity(0)),
        "system": platform.platform(),
        "load before": round(os.getloadavg()[0], 1),
        "wheels": WHEELS,
        "recipes": RECIPES,
        "runs": RUNS,
        "one more": one_more(evidence, Catalog().next(many(evidence))),
    }


if __name__ == "__main__":
    print(json.dumps(measured(Path(sys.argv[1])), indent=1))
