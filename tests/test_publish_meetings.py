"""Publishers that meet at any request, of two versions of hostwheel, some of them stopped there.

What the next ones write is right, whatever those left behind.
"""

import random
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from datetime import timedelta

import pytest

from hostwheel.errors import MachineLacks
from hostwheel.publish import index, settle
from hostwheel.publish.bucket import Bucket, Stored
from hostwheel.publish.catalog import Catalog, Entry
from hostwheel.publish.generations import newest
from hostwheel.publish.page import HTML, Page, Part
from hostwheel.publish.publish import add
from hostwheel.publish.settle import GRACE, derived
from hostwheel.publish.settle import settle as mend
from hostwheel.publish.through import Through
from hostwheel.publish.yank import yank
from tests.published import listed_build
from tests.stores import Before, Crashed, Crashing, Memory

MANY = 800  # meetings of each kind
OLD = GRACE + timedelta(hours=1)


def publish(bucket: Bucket, *entries: Entry) -> Catalog:
    return add(bucket, newest(bucket), entries).catalog


def stale(bucket: Bucket) -> list[str]:
    return [
        page.key for page in derived(bucket, newest(bucket)) if bucket.read(page.key) != page.body
    ]


def form() -> bytes:
    """Of the hostwheel that this thread runs; the tests' own is the newer."""
    name = threading.current_thread().name
    return b"older" if name == "older" else b"newer"


def small_parts(catalog: Catalog) -> Iterator[Part]:
    """Three pages, of which one more file changes two: a hundred would take the test long."""
    for recipe in ("one", "two"):
        some = [each for each in catalog.entries if each.recipe == recipe]
        yield small_part(f"simple/{recipe}.html", some)
    yield small_part("simple/index.html", catalog.entries)


def small_part(key: str, entries: Sequence[Entry]) -> Part:
    said = " ".join(f"{each.filename} {each.yanked}" for each in entries)
    body = b"%s: %s" % (settle.form(), said.encode())
    page = Page(key=key, body=body, content_type=HTML, cache_control="")
    return Part(name=key, made_of=entries, pages=lambda: (page,))


@pytest.fixture
def bucket(monkeypatch: pytest.MonkeyPatch) -> Memory:
    monkeypatch.setattr(index, "parts", small_parts)
    monkeypatch.setattr(settle, "form", form)
    monkeypatch.setattr(settle, "READERS", 1)
    return filled()


def filled() -> Memory:
    bucket = Memory()
    publish(bucket, listed_build(0), listed_build(1, "two"))
    return bucket


class Stepping(Through):
    """Each request waits for its turn; a process that was killed makes no more."""

    def __init__(self, bucket: Bucket, work: Callable[[Bucket], object], form: str) -> None:
        super().__init__(bucket)
        self.turn, self.idle = threading.Semaphore(0), threading.Semaphore(0)
        self.killed = self.done = False
        self.next = ""
        threading.Thread(target=self.live, args=(work,), daemon=True, name=form).start()
        self.idle.acquire()

    def live(self, work: Callable[[Bucket], object]) -> None:
        try:
            work(self)
        except Crashed:
            pass
        finally:
            self.done = True
            self.idle.release()

    def go_on(self, *, killed: bool = False) -> None:
        self.killed = killed
        self.turn.release()
        self.idle.acquire()

    def go_to(self, what: str) -> None:
        """Up to before its next such request; to its end for one that it never makes."""
        while not self.done and self.next != what:
            self.go_on()

    def wait(self, what: str) -> None:
        self.next = what
        if not self.killed:
            self.idle.release()
            self.turn.acquire()
        if self.killed:
            raise Crashed

    def create(self, page: Page) -> bool:
        self.wait(f"create {page.key}")
        return super().create(page)

    def put(self, page: Page) -> None:
        self.wait(f"put {page.key}")
        super().put(page)

    def read(self, key: str) -> bytes | None:
        self.wait(f"read {key}")
        return super().read(key)

    def exists(self, key: str) -> bool:
        self.wait(f"exists {key}")
        return super().exists(key)

    def list(self, prefix: str) -> Iterator[Stored]:
        self.wait(f"list {prefix}")
        return super().list(prefix)

    def delete(self, key: str) -> None:
        self.wait(f"delete {key}")
        super().delete(key)


# at random


def anyone(chance: random.Random, number: int) -> Callable[[Bucket], object]:
    kind = chance.choice(("publish", "publish", "publish", "again", "yank", "mend"))
    if kind == "mend":
        return lambda through: mend(through, newest(through))
    if kind == "yank":
        return lambda through: yank(through, listed_build(1, "two").filename, f"reason {number}")
    build = listed_build(1 if kind == "again" else number, chance.choice(("one", "two")))
    build = listed_build(1, "two") if kind == "again" else build
    return lambda through: publish(through, build)


def meet(bucket: Memory, chance: random.Random) -> bool:
    """Four of them, in any order of requests; return whether one was killed, or is older."""
    forms = chance.choice((["newer"], ["newer", "older"]))
    alive = [
        Stepping(bucket, anyone(chance, number), chance.choice(forms)) for number in range(2, 6)
    ]
    deadly = chance.choice((0.0, 0.05))
    killed = False
    while alive:
        # One goes on for a while, so that a whole publish fits between two requests of another.
        one = chance.choice(alive)
        for _ in range(chance.choice((1, 3, 40))):
            one.go_on(killed=chance.random() < deadly)
            if one.done:
                alive.remove(one)
                killed = killed or one.killed
                break
    return killed or len(forms) > 1


@pytest.mark.parametrize("age", [timedelta(), OLD])
@pytest.mark.parametrize("edited", [False, True])
def test_whoever_meets_and_is_stopped_the_next_leave_nothing_stale(
    bucket: Memory, age: timedelta, edited: bool
) -> None:
    for seed in range(MANY):
        bucket = filled()
        if edited:
            bucket.edit("simple/two.html", b"edited by hand")
        bucket.age(age)
        lasting = meet(bucket, random.Random(seed))
        two = bucket.read("simple/two.html")
        if not lasting:
            assert stale(bucket) in ([], ["simple/two.html"] if edited else []), seed
        for number in (6, 7):
            publish(bucket, listed_build(number, "one"))
            wrong = stale(bucket)
            # Only those who compare see what was edited by hand; it is no page of ours.
            assert wrong == [] or (two, wrong) == (b"edited by hand", ["simple/two.html"]), seed


# on purpose


@pytest.mark.parametrize("age", [timedelta(), OLD])
def test_one_who_mends_is_overtaken_and_stopped(bucket: Memory, age: timedelta) -> None:
    """Between two requests another publishes, and would have known of nothing to look at."""
    bucket.edit("simple/two.html", b"edited by hand")
    bucket.age(age)
    other = Before(
        Crashing(bucket, 2),  # a generation, and a page
        "simple/two.html",
        lambda: publish(bucket, listed_build(2, "two")),
    )
    with pytest.raises(Crashed):
        mend(other, newest(bucket))
    assert stale(bucket) == ["simple/two.html"]
    bucket.age(age)
    publish(bucket, listed_build(3, "one"))
    assert stale(bucket) == []


def test_one_who_publishes_the_same_as_another_at_once_is_overtaken_and_stopped(
    bucket: Memory,
) -> None:
    """A job was retried while the first was at it."""
    build = listed_build(2, "two")
    first = Stepping(bucket, lambda through: publish(through, build), "newer")
    first.go_to("put simple/two.html")
    again = Stepping(bucket, lambda through: publish(through, build), "newer")
    again.go_to("put simple/two.html")
    first.go_to("nothing")
    publish(bucket, listed_build(3, "two"))
    again.go_on()
    again.go_on(killed=True)
    for number in (4, 5):
        publish(bucket, listed_build(number, "one"))
        bucket.age(OLD)
        assert stale(bucket) == []


def test_an_older_hostwheel_finishes_while_a_newer_writes(bucket: Memory) -> None:
    """What it wrote last has its form: the newer has not seen it finished when it began."""
    older = Stepping(bucket, lambda through: publish(through, listed_build(2, "one")), "older")
    older.go_to("put simple/one.html")
    newer = Stepping(bucket, lambda through: publish(through, listed_build(3, "one")), "newer")
    newer.go_to("put catalog.json")  # the last of its pages
    older.go_to("nothing")
    newer.go_to("nothing")
    publish(bucket, listed_build(4, "one"))
    assert stale(bucket) == []


def test_one_who_has_slept_for_a_day_writes_nothing_more(
    bucket: Memory, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Others no longer reckon with it."""
    morning = time.time() + GRACE.total_seconds()

    def sleep() -> None:
        monkeypatch.setattr("hostwheel.publish.settle.time.time", lambda: morning)

    before = bucket.read("simple/index.html")
    sleeper = Before(bucket, "simple/two.html", sleep)
    with pytest.raises(MachineLacks, match="run it again"):
        publish(sleeper, listed_build(2, "two"))
    assert bucket.read("simple/index.html") == before
    publish(bucket, listed_build(3, "one"))
    assert stale(bucket) == []
