"""Mend what `fsck` found, from what is in the bucket. What has to come from a build is named."""

import hashlib
import re
from pathlib import Path
from tempfile import TemporaryDirectory

from hostwheel.errors import Refused
from hostwheel.publish.bucket import Bucket
from hostwheel.publish.catalog import Catalog, Entry
from hostwheel.publish.entries import read_metadata
from hostwheel.publish.fsck import Fault, Looked, fsck
from hostwheel.publish.generations import HINT, generation_page
from hostwheel.publish.generations import copied as copy_of
from hostwheel.publish.objects import Upload, upload
from hostwheel.publish.page import Page
from hostwheel.publish.prune import OBJECTS, needed_keys
from hostwheel.publish.settle import settle
from hostwheel.publish.variants import variant_of
from hostwheel.publish.yank import is_copy

INDEX_PAGE = re.compile(r"([\w.-]+/)?simple(-json)?/.*")


def repair(bucket: Bucket, looked: Looked) -> Looked:
    """Mend what can be; return what `fsck` says then, with what could not be.

    Objects with other bytes than their hash says are of no use to anyone, and keep the right ones
    out: they are removed, and made again where they can be derived.
    """
    catalog = intact(bucket, looked.catalog)
    restore(bucket, generation_page(catalog))
    for key in {fault.key: None for fault in looked.faults if is_useless(fault)}:
        bucket.delete(key)  # once, however many faults it has
    for entry in catalog.entries:
        if any(fault.key.startswith(entry.key) for fault in looked.faults):
            derive(bucket, catalog, entry)
    settle(bucket, catalog)
    return fsck(bucket)


def intact(bucket: Bucket, catalog: Catalog) -> Catalog:
    """The newest generation; its copy, where that lists the same files and only it has them all."""
    copy = copy_of(bucket.read(HINT))
    if copy is None or copy.generation != catalog.generation or is_whole(bucket, catalog):
        return catalog
    same = {each.filename for each in copy.entries} == {each.filename for each in catalog.entries}
    return copy if same and is_whole(bucket, copy) else catalog


def is_whole(bucket: Bucket, catalog: Catalog) -> bool:
    return all(bucket.exists(key) for key in needed_keys(catalog.entries))


def restore(bucket: Bucket, newest: Page) -> None:
    """The newest generation as it was, without a moment in which another could take its number."""
    found = bucket.read(newest.key)
    if found is None and not bucket.create(newest):
        raise Refused(f"{bucket.url}/{newest.key}: another published meanwhile: run it again")
    if found not in (None, newest.body):
        bucket.put(newest)


def is_useless(fault: Fault) -> bool:
    """A damaged object, or a page of a recipe or project that is gone."""
    if fault.kind == "damaged":
        return fault.key.startswith(OBJECTS)
    return fault.kind == "orphan" and INDEX_PAGE.fullmatch(fault.key) is not None


def derive(bucket: Bucket, catalog: Catalog, entry: Entry) -> None:
    """A copy from its wheel, and METADATA from either, where they are missing."""
    with TemporaryDirectory(prefix="hostwheel-repair-") as folder:
        file = fetched(bucket, entry, Path(folder))
        if file is None and entry.kind == "variant":
            file = copied(bucket, catalog, entry, Path(folder))
        if file and entry.metadata:
            text = read_metadata(file)
            if hashlib.sha256(text).hexdigest() == entry.metadata:
                key = f"{entry.key}.metadata"
                upload(bucket, Upload(key=key, source=text, sha256=entry.metadata))


def fetched(bucket: Bucket, entry: Entry, folder: Path) -> Path | None:
    """The file in `folder`, with its name, if the bucket has it."""
    content = bucket.read(entry.key)
    if content is None or hashlib.sha256(content).hexdigest() != entry.sha256:
        return None
    file = folder / entry.filename
    file.write_bytes(content)
    return file


def copied(bucket: Bucket, catalog: Catalog, entry: Entry, folder: Path) -> Path | None:
    """The variant copy made anew and put up; None where its wheel does not give those bytes."""
    for wheel in catalog.entries:
        if wheel.kind == "wheel" and is_copy(entry, wheel):
            source = fetched(bucket, wheel, folder)
            made = source and variant_of(source, wheel.needs, folder).file
            if made and hashlib.sha256(made.read_bytes()).hexdigest() == entry.sha256:
                upload(bucket, Upload(key=entry.key, source=made, sha256=entry.sha256))
                return made
    return None
