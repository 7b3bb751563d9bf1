"""What tests ask of a bucket that has one published build."""

from hostwheel.publish.catalog import Entry
from hostwheel.publish.fsck import fsck
from hostwheel.publish.generations import (
    newest,
)
from tests.stores import Memory


def no_progress(name: str, done: int, total: int) -> None:
    pass


def of_kind(bucket: Memory, kind: str) -> Entry:
    (found,) = [each for each in newest(bucket).entries if each.kind == kind]
    return found


def faults(bucket: Memory) -> set[tuple[str, str]]:
    return {(fault.kind, fault.key) for fault in fsck(bucket).faults}


def evidence_key(bucket: Memory, name: str) -> str:
    entry = of_kind(bucket, "wheel")
    return f"objects/{entry.evidence[name][:2]}/{entry.evidence[name]}/{name}"
