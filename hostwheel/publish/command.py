"""`hostwheel publish`, `yank`, `unyank`, `prune` and `fsck` on the command line."""

import argparse
import json
import re
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import TextIO

from rich.console import Console
from rich.filesize import decimal
from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn

from hostwheel.audit.markup import several
from hostwheel.publish.address import check_outside
from hostwheel.publish.bucket import PROBE, Bucket, check_create_only
from hostwheel.publish.catalog import Catalog
from hostwheel.publish.evidence import read_evidence
from hostwheel.publish.fsck import Fault, Looked, fsck
from hostwheel.publish.generations import FOLDER, generation_key
from hostwheel.publish.objects import Advance
from hostwheel.publish.prune import OBJECTS, prune
from hostwheel.publish.publish import Published, publish
from hostwheel.publish.readback import read_back
from hostwheel.publish.repair import is_useless, repair
from hostwheel.publish.store import new_bucket, open_bucket, would_be_bucket
from hostwheel.publish.through import Dry, LooksFirst, Telling
from hostwheel.publish.yank import yank
from hostwheel.trust.ssh import check_can_sign

HASH = re.compile(r"([0-9a-f]{12})[0-9a-f]{52}")
DEFAULT = "dist/bucket"
URL = "a folder, or file://, s3://BUCKET/PREFIX, az://… or gs://… (gs is not tested)"


def add_publish_arguments(made: argparse.ArgumentParser) -> None:
    out_help = "the out/RECIPE folder of a build, with audit.json and smoke.json"
    made.add_argument("out", type=Path, metavar="OUT", help=out_help)
    made.add_argument("--to", metavar="URL", default=DEFAULT, help=f"{URL}; default: {DEFAULT}")
    key_help = "sign with this SSH key: statements of provenance, and SHA256SUMS"
    made.add_argument("--key", type=Path, metavar="FILE", help=key_help)
    add_writing(made)
    made.add_argument("--dry-run", action="store_true", help="only print what would be written")
    back_help = "the bucket's public address: real pip and uv then install from there, by hash"
    made.add_argument("--read-back", metavar="URL", help=back_help)
    made.set_defaults(run=run_publish)


def add_yank_arguments(made: argparse.ArgumentParser) -> None:
    add_url(made)
    made.add_argument("filename", metavar="FILENAME", help="as the catalog has it")
    made.add_argument("--reason", required=True, help="what pip and uv tell who has it locked")
    add_writing(made)
    made.set_defaults(run=run_yank, dry_run=False)


def add_unyank_arguments(made: argparse.ArgumentParser) -> None:
    add_url(made)
    made.add_argument("filename", metavar="FILENAME", help="as the catalog has it")
    add_writing(made)
    made.set_defaults(run=run_yank, dry_run=False, reason=None)


def add_prune_arguments(made: argparse.ArgumentParser) -> None:
    add_url(made)
    keep_help = "generations to keep; those of the last day are always kept"
    made.add_argument("--keep", type=int, required=True, metavar="N", help=keep_help)
    add_writing(made)
    made.add_argument("--dry-run", action="store_true", help="only print what would be removed")
    made.set_defaults(run=run_prune)


def add_fsck_arguments(made: argparse.ArgumentParser) -> None:
    add_url(made)
    repair_help = "derive the index anew, and all else that can be; remove damaged objects"
    made.add_argument("--repair", action="store_true", help=repair_help)
    add_endpoint(made)
    made.set_defaults(run=run_fsck)


def add_url(made: argparse.ArgumentParser) -> None:
    made.add_argument("url", metavar="URL", help=URL)


def add_writing(made: argparse.ArgumentParser) -> None:
    made.add_argument(
        "--sole-publisher",
        action="store_true",
        help="nobody else publishes here: do without a store that refuses to create a key twice",
    )
    add_endpoint(made)


def add_endpoint(made: argparse.ArgumentParser) -> None:
    endpoint_help = "of S3; else AWS_ENDPOINT_URL_S3, AWS_ENDPOINT_URL or the AWS profile says it"
    made.add_argument("--endpoint-url", metavar="URL", help=endpoint_help)
    made.add_argument("--json", action="store_true", help="for machines")


def run_publish(arguments: argparse.Namespace) -> int:
    evidence = read_evidence(arguments.out)  # before anything is made or opened
    signing = check_can_sign(arguments.key) if arguments.key else None
    check_outside(arguments.to, arguments.out)
    opened = would_be_bucket if arguments.dry_run else new_bucket
    bucket = opened(arguments.to, arguments.endpoint_url)
    with telling(bucket, arguments) as (told, journal), shown_progress() as advance:
        done = publish(evidence, told, advance, arguments.key)
    if arguments.json:
        how = {"dry_run": arguments.dry_run, "key": signing and signing.fingerprint}
        print(json.dumps({**published_json(done, bucket, journal), **how}, indent=1))
    else:
        print("\n".join(published_text(done, bucket, journal, arguments.dry_run)))
        would = "would be " if arguments.dry_run else ""
        print(f"{would}signed with {signing}" if signing else "not signed: --key FILE signs it")
    if arguments.read_back and not arguments.dry_run:
        read_all_back(arguments.read_back, done, arguments.out / "dist")
    return 0


def read_all_back(url: str, done: Published, dist: Path) -> None:
    """What was built; the copies of wheels lie nowhere here."""
    for entry in done.entries:
        if entry.kind != "variant":
            read_back(url.rstrip("/") + "/", entry, dist / entry.filename)
            print(f"read back {entry.filename}", file=sys.stderr, flush=True)


def run_yank(arguments: argparse.Namespace) -> int:
    bucket = open_bucket(arguments.url, arguments.endpoint_url)
    with telling(bucket, arguments) as (told, _):
        catalog = yank(told, arguments.filename, arguments.reason)
    if arguments.json:
        yanked = {each.filename: each.yanked for each in catalog.entries if each.yanked is not None}
        print(json.dumps({"generation": catalog.generation, "yanked": yanked}, indent=1))
    else:
        print(f"generation {catalog.generation} of {bucket.url}")
    return 0


def run_prune(arguments: argparse.Namespace) -> int:
    bucket = open_bucket(arguments.url, arguments.endpoint_url)
    with telling(bucket, arguments) as (told, _):
        removed = prune(told, arguments.keep)
    if arguments.json:
        print(json.dumps({"dry_run": arguments.dry_run, "removed": removed}, indent=1))
    else:
        verb = "would be removed" if arguments.dry_run else "removed"
        print(f"{len(removed)} {'key' if len(removed) == 1 else 'keys'} {verb}")
    return 0


def run_fsck(arguments: argparse.Namespace) -> int:
    """1 where anything but orphans is left."""
    bucket = open_bucket(arguments.url, arguments.endpoint_url)
    looked = fsck(bucket)
    if arguments.repair:
        looked = repair(Telling(bucket, tell_line), looked)
    if arguments.json:
        faults = [asdict(fault) for fault in looked.faults]
        generation = looked.catalog.generation
        said = {"generation": generation, "keys": looked.keys, "faults": faults}
        print(json.dumps(said, indent=1))
    else:
        print("\n".join(looked_text(looked, bucket, arguments.repair)))
    return 1 if looked.faults else 0


@contextmanager
def telling(
    bucket: Bucket, arguments: argparse.Namespace
) -> Iterator[tuple[Bucket, list[tuple[str, str, int]]]]:
    """The bucket to work with, and what was done to it. A line of each write goes to stderr."""
    journal: list[tuple[str, str, int]] = []

    def tell(verb: str, key: str, size: int) -> None:
        journal.append((verb, key, size))
        tell_line(f"not really {verb}" if arguments.dry_run else verb, key, size)

    safe = LooksFirst(bucket) if arguments.sole_publisher else bucket
    told = Telling(Dry(safe) if arguments.dry_run else safe, tell)
    if not arguments.sole_publisher:
        check_create_only(told)
    yield told, journal


def tell_line(verb: str, key: str, size: int) -> None:
    line = f"{verb} {key}" + (f" ({decimal(size)})" if size else "")
    print(shown(line, sys.stderr), file=sys.stderr, flush=True)


def shown(text: str, stream: TextIO) -> str:
    """On a terminal a hash is shortened; a pipe or file gets every key whole."""
    return HASH.sub(r"\1…", text) if stream.isatty() else text


@contextmanager
def shown_progress() -> Iterator[Advance]:
    """A bar of the bytes that go up, on a terminal; elsewhere the lines do."""
    console = Console(stderr=True)
    if not console.is_terminal:
        yield lambda name, done, total: None
        return
    columns = (TextColumn("{task.description}", markup=False), BarColumn(), DownloadColumn())
    with Progress(*columns, console=console, transient=True) as bar:
        task = bar.add_task("", total=None)
        yield lambda name, done, total: bar.update(
            task, description=name, completed=done, total=total
        )


def published_json(
    done: Published, bucket: Bucket, journal: Iterable[tuple[str, str, int]]
) -> dict[str, object]:
    return {
        "url": bucket.url,
        "generation": done.catalog.generation,
        "files": [asdict(each) for each in done.entries],
        "changed": done.changed,
        "not_run": done.not_run,
        "written": [{"key": key, "how": verb, "bytes": size} for verb, key, size in journal],
    }


def published_text(
    done: Published, bucket: Bucket, journal: Iterable[tuple[str, str, int]], dry: bool
) -> Iterator[str]:
    for each in done.entries:
        state = "new" if each.filename in done.changed else "was there"
        yield f"{state:9}{decimal(each.size):>9}  {each.filename}"
    written = counted(key for verb, key, _ in journal if verb != "removed")
    if dry:
        yield f"would write {written} into {bucket.url}: generation {done.catalog.generation}"
    else:
        yield f"generation {done.catalog.generation} of {bucket.url}: {written} written"
    if done.not_run:
        yield f"smoke tests that could not be run where it was built: {done.not_run} (smoke.json)"


def counted(keys: Iterable[str]) -> str:
    """Neither are the catalog's generations with their marks, and what is written as a probe."""
    kinds = Counter(key.partition("/")[0] for key in set(keys))
    objects = kinds.pop(OBJECTS.rstrip("/"), 0)
    pages = kinds.total() - kinds[FOLDER.rstrip("/")] - kinds[PROBE.partition("/")[0]]
    return f"{several(objects, 'object')} and {several(pages, 'page')}"


def looked_text(looked: Looked, bucket: Bucket, repaired: bool) -> Iterator[str]:
    mended = () if repaired else tuple(filter(mendable(looked.catalog), looked.faults))
    for fault in looked.faults:
        remedy = f"; {fault.remedy}" if fault.remedy and fault not in mended else ""
        yield shown(f"{fault.kind}: {fault.key}: {fault.message}{remedy}", sys.stdout)
    files = len(looked.catalog.entries)
    yield (
        f"{bucket.url}: generation {looked.catalog.generation}, {files} files, {looked.keys} keys: "
        + (f"faults: {len(looked.faults)}" if looked.faults else "all well")
    )
    if mended:
        yield "--repair mends what can be made from the rest, and removes what is of no use"


def mendable(catalog: Catalog) -> Callable[[Fault], bool]:
    """Whether `--repair` does something about a fault. Links that dangle follow from others."""
    newest = generation_key(catalog.generation)
    copies = {each.key for each in catalog.entries if each.kind == "variant"}
    metadata = {f"{each.key}.metadata" for each in catalog.entries if each.metadata}

    def may_mend(fault: Fault) -> bool:
        made_anew = not fault.remedy and fault.kind != "dangling"
        restored = fault.kind == "damaged" and fault.key == newest
        return made_anew or restored or fault.key in copies | metadata or is_useless(fault)

    return may_mend
