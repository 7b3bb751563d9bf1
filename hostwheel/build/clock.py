"""What each step of a build cost."""

import resource
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field


@dataclass(frozen=True, kw_only=True, slots=True)
class Step:
    """Seconds on the clock, and of CPU in this process and all that it started."""

    name: str
    wall: float
    cpu: float


@dataclass(frozen=True, kw_only=True, slots=True)
class Clock:
    """Collects what each step cost."""

    steps: list[Step] = field(default_factory=list)

    @contextmanager
    def step(self, name: str) -> Iterator[None]:
        print(f"== {name}", file=sys.stderr, flush=True)
        wall, cpu = time.monotonic(), cpu_seconds()
        yield
        took = Step(name=name, wall=time.monotonic() - wall, cpu=cpu_seconds() - cpu)
        self.steps.append(took)
        cost = f"{took.wall:.1f} s ({took.cpu:.1f} s of CPU)"
        print(f"== {name}: {cost}", file=sys.stderr, flush=True)


def cpu_seconds() -> float:
    usages = (resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    return sum(usage.ru_utime + usage.ru_stime for usage in usages)
