"""The table of checks: each a small function with an ID, a title and a reason."""

import inspect
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from hostwheel.artifact.facts import Artifact
from hostwheel.audit.cuda import has_code_for_the_card, speaks_of_one_cuda
from hostwheel.audit.elf import (
    asks_for_no_newer_libc,
    everything_it_needs_is_there,
    finds_its_libraries_from_where_it_lies,
)
from hostwheel.audit.isa import needs_only_what_the_host_has, uses_what_was_planned
from hostwheel.audit.result import Finding
from hostwheel.audit.target import Target
from hostwheel.audit.wheel import holds_each_thing_once, says_one_thing
from hostwheel.errors import BadInput
from hostwheel.plan.table import near


@dataclass(frozen=True, kw_only=True, slots=True)
class Check:
    """`run` yields a finding for each fault; its docstring is title and reason."""

    id: str
    run: Callable[[Artifact, Target], Iterator[Finding]]

    @property
    def title(self) -> str:
        return (inspect.getdoc(self.run) or "").partition("\n")[0]

    @property
    def reason(self) -> str:
        """Why it matters, and what to do."""
        return (inspect.getdoc(self.run) or "").partition("\n")[2].strip()


CHECKS: tuple[Check, ...] = (
    Check(id="ISA001", run=needs_only_what_the_host_has),
    Check(id="ISA002", run=uses_what_was_planned),
    Check(id="CUDA001", run=has_code_for_the_card),
    Check(id="CUDA002", run=speaks_of_one_cuda),
    Check(id="ELF001", run=finds_its_libraries_from_where_it_lies),
    Check(id="ELF002", run=asks_for_no_newer_libc),
    Check(id="ELF003", run=everything_it_needs_is_there),
    Check(id="WHL001", run=says_one_thing),
    Check(id="WHL002", run=holds_each_thing_once),
)


def find_check(wanted: str) -> Check:
    known = {check.id: check for check in CHECKS}
    if wanted.upper() not in known:
        raise BadInput(f"no check {wanted!r}; {near(wanted.upper(), known)}")
    return known[wanted.upper()]
