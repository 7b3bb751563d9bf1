"""What of ninja's output people see while it runs: one bar on a terminal, plain lines elsewhere."""

import os
import re
import statistics
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Protocol

from rich.console import Console
from rich.progress import (
    BarColumn,
    Progress,
    ProgressColumn,
    Task,
    TaskID,
    TextColumn,
    TimeElapsedColumn,
)
from rich.table import Column
from rich.text import Text

from hostwheel.keeper import descendants
from hostwheel.run import show_line

STATUS = re.compile(r"\[(\d+)/(\d+)\] (.*\S)")
FAILED, STOPPED = "FAILED: ", "ninja: build stopped"
FAILED_LINES, TAIL_LINES = 60, 40


@dataclass(kw_only=True, slots=True)
class Failures:
    """ninja's `FAILED:` blocks: command and output of each step that failed; and the last lines."""

    blocks: list[list[str]] = field(default_factory=list)
    tail: list[str] = field(default_factory=list)
    inside: bool = False

    def take(self, line: str) -> bool:
        """Whether the line belongs to a failed step."""
        self.tail = [*self.tail[1 - TAIL_LINES :], line]
        if line.startswith(FAILED):
            self.inside = True
            self.blocks.append([])
        elif STATUS.match(line) or line.startswith(STOPPED):
            self.inside = False
        if self.inside:
            self.blocks[-1].append(line)
        return self.inside

    def text(self) -> str:
        return "".join(part for block in self.blocks for part in shortened(block))

    def reason(self) -> str:
        """The failed steps; if there is none, how the output ended."""
        return self.text() or "".join(self.tail)


class Watcher(Protocol):
    """Takes a line of the build's output at a time."""

    @property
    def failures(self) -> Failures: ...

    def show(self, line: str) -> None: ...

    def unseen(self) -> str:
        """What a failed build said that `show` has kept back."""


def shortened(block: list[str]) -> Iterator[str]:
    """A compiler's first error explains the others."""
    yield from block[:FAILED_LINES]
    if len(block) > FAILED_LINES:
        yield f"… and {len(block) - FAILED_LINES} more lines in the log\n"


@dataclass(frozen=True, kw_only=True, slots=True)
class Lines:
    """For a log: everything as it comes, but what failed at the end, where people look."""

    failures: Failures = field(default_factory=Failures)

    def show(self, line: str) -> None:
        if not self.failures.take(line):
            show_line(line)

    def unseen(self) -> str:
        return self.failures.text()


@dataclass(kw_only=True, slots=True)
class Work:
    """How much of ninja's work is done, by what each step took last time."""

    costs: Mapping[str, float]
    done: float = 0
    left: float = 0
    seen: set[str] = field(default_factory=set)

    def finished(self, output: str, number: int, total: int) -> None:
        """Step `number` of `total`. The unknown rest is costed from what is still to be seen."""
        typical = statistics.median(self.costs.values()) if self.costs else 1.0
        self.done += self.costs.get(output, typical)
        self.seen.add(output)
        known = [cost for name, cost in self.costs.items() if name not in self.seen]
        missing = total - number - len(known)
        if missing >= 0:
            self.left = sum(known) + missing * typical
        else:  # not all is built again, and ninja does not say what
            self.left = (total - number) * statistics.fmean(known)

    def seconds_left(self, elapsed: float) -> float:
        return elapsed * self.left / self.done if self.done else 0.0


class LeftColumn(ProgressColumn):
    """Counts down to the `until` of the task (of `time.monotonic`) between two steps."""

    def render(self, task: Task) -> Text:
        until = task.fields["until"]
        left = "" if until is None else f"about {clock(max(0, until - time.monotonic()))} left"
        return Text(left, style="cyan")


class FilesColumn(ProgressColumn):
    """The files that are being compiled, else what the task says."""

    max_refresh = 1.0  # it looks at every process

    def __init__(self) -> None:
        super().__init__(table_column=Column(no_wrap=True, overflow="ellipsis", ratio=1))

    def render(self, task: Task) -> Text:
        return Text(", ".join(sorted(compiling(os.getpid()))) or task.description)


def compiling(ancestor: int) -> set[str]:
    """The sources that descendants compile: ninja says what it finished, not what it is at."""
    found = set()
    for pid in descendants(ancestor):
        try:
            command = Path(f"/proc/{pid}/cmdline").read_text(errors="replace").split("\0")
        except (FileNotFoundError, ProcessLookupError):  # it has just ended
            continue
        output = dict(pairwise(command)).get("-o", "")
        if output.endswith(".o") and not output.startswith("/"):  # absolute: sccache's or nvcc's
            found.add(Path(output).stem)
    return found


def clock(seconds: float) -> str:
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"


@dataclass(kw_only=True, slots=True)
class Bar:
    """For a terminal: `[n/m]`, the file that was finished last, elapsed and estimated time."""

    progress: Progress
    work: Work
    failures: Failures = field(default_factory=Failures)
    began: float = field(default_factory=time.monotonic)

    def __post_init__(self) -> None:
        self.progress.add_task("", total=None, count="", until=None)

    def show(self, line: str) -> None:
        if self.failures.take(line):
            return
        if status := STATUS.match(line):
            self.finished(int(status[1]), int(status[2]), status[3])
        elif line.startswith("*"):  # scikit-build-core and build say what they are at
            self.began = time.monotonic()
            self.progress.update(self.task, description=line.strip("*. \n"))

    @property
    def task(self) -> TaskID:
        return self.progress.tasks[0].id

    def finished(self, number: int, total: int, what: str) -> None:
        output = what.rpartition(" ")[2]
        self.work.finished(output, number, total)
        now = time.monotonic()
        self.progress.update(
            self.task,
            description=output.rpartition("/")[2],
            count=f"[{number}/{total}]",
            completed=self.work.done,
            total=self.work.done + self.work.left,
            until=now + self.work.seconds_left(now - self.began),
        )

    def unseen(self) -> str:
        return self.failures.reason()


@contextmanager
def watching(costs: Mapping[str, float]) -> Iterator[Watcher]:
    """`costs`: seconds by output of an earlier build."""
    console = Console(stderr=True)
    if not (sys.stderr.isatty() and console.is_interactive):
        yield Lines()
        return
    with Progress(
        TextColumn("{task.fields[count]}", markup=False),
        BarColumn(),
        TimeElapsedColumn(),
        LeftColumn(),
        FilesColumn(),
        console=console,
        transient=True,
        expand=True,
    ) as progress:
        yield Bar(progress=progress, work=Work(costs=costs))
