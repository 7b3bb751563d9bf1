"""When a run of the smoke suite is a proof. `hostwheel smoke` and `hostwheel publish` ask here."""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Any

# Files of the suite. Of each, something has to have passed.
GROUPS = (
    *("archive", "cpu", "generation", "install", "numbers", "server", "server_ends"),
    "tokenizers",
)


@dataclass(frozen=True, kw_only=True, slots=True)
class Excuse:
    """Checks by a pattern of their ids, which a proof may do without where the plan says `when`."""

    checks: str
    when: Callable[[Mapping[str, Any]], bool]


def always(plan: Mapping[str, Any]) -> bool:
    """It hangs on the machine that tests, not on the build."""
    return True


EXCUSES = (
    Excuse(checks="smoke/test_gpu.py::*", when=always),  # no GPU in the build, none here, or one
    Excuse(checks="smoke/test_speed.py::*", when=always),  # this CPU can more than the build uses
    Excuse(checks="smoke/test_install.py::test_another_python*", when=always),  # none is here
    Excuse(  # qemu has no model of the host's CPU
        checks="smoke/test_cpu.py::*", when=lambda plan: not plan["host"]["cpu"]["emulate"]
    ),
    Excuse(  # runs on every x86-64 CPU: there is no older one
        checks="smoke/test_cpu.py::*older_cpu*", when=lambda plan: not plan["features"]
    ),
    Excuse(
        checks="smoke/test_cpu.py::test_a_masked_feature_that_is_compiled_in*",
        when=lambda plan: "fma" not in plan["features"],
    ),
)


def unproved(
    checks: Sequence[Mapping[str, Any]], collected: Mapping[str, int], plan: Mapping[str, Any]
) -> Iterator[str]:
    """What checks, none of which failed, lack of a proof.

    `collected` is file of the suite → number of its checks, as pytest counted before it ran them.
    """
    found = count_by_file(check["id"] for check in checks)
    for file in sorted({*found, *collected}):
        if found[file] != (there := collected.get(file, 0)):
            yield f"{file}: {found[file]} checks are told of, the suite has {there}"
    passed = count_by_file(check["id"] for check in checks if check["outcome"] == "passed")
    for group in GROUPS:
        if not passed[f"smoke/test_{group}.py"]:
            yield f"smoke/test_{group}.py: no check of it passed"
    for check in checks:
        if check["outcome"] != "passed" and not excused(check["id"], plan):
            yield f"{check['id']}: {check['outcome']}, and has to be ({check['reason']})"


def count_by_file(ids: Iterable[str]) -> Counter[str]:
    return Counter(each.partition("::")[0] for each in set(ids))


def excused(check: str, plan: Mapping[str, Any]) -> bool:
    return any(fnmatchcase(check, each.checks) and each.when(plan) for each in EXCUSES)
