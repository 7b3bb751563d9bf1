"""What an artifact is held against: a host, the plan that it was built by, or nothing."""

from collections.abc import Collection, Iterable
from dataclasses import dataclass
from pathlib import Path

from hostwheel.errors import BadInput
from hostwheel.facts.host import Host
from hostwheel.plan.files import listed
from hostwheel.plan.plan import Plan
from hostwheel.plan.recipe import read_host
from hostwheel.plan.table import near


@dataclass(frozen=True, kw_only=True, slots=True)
class Target:
    """Against a plan, files are ours: nothing is left undecided. Without a host, only what holds
    on every host is looked at."""

    host: Host | None = None
    plan: Plan | None = None

    @property
    def name(self) -> str | None:
        if self.plan:
            return f"plan {self.plan.recipe}"
        return self.host.name if self.host else None

    def features(self, file: str) -> Collection[str]:
        """What the code of a file of this name may use without asking."""
        if self.plan:
            backend = self.plan.backend_files.get(file)
            return backend.features if backend else ()
        return self.host.cpu.features if self.host else ()


def of_plan(plan: Plan) -> Target:
    return Target(host=plan.host, plan=plan)


def known_hosts(recipes: Path) -> tuple[Host, ...]:
    """The hosts of a recipes folder, the least demanding first."""
    hosts = (read_host(file) for file in listed(recipes / "hosts", "*.toml"))
    return tuple(sorted(hosts, key=lambda host: (len(host.cpu.features), host.name)))


def find_host(name: str, hosts: Iterable[Host]) -> Host:
    """A known host by name, or the host file of this name."""
    if name.endswith(".toml"):
        return read_host(Path(name))
    by_name = {host.name: host for host in hosts}
    if name not in by_name and Path(name).exists():
        what = "a folder" if Path(name).is_dir() else "no .toml file"
        raise BadInput(
            f"--host {name} is {what}: give a host file, as `hostwheel capture > host.toml` writes,"
            " or a known host's name"
        )
    if name not in by_name:
        raise BadInput(f"no host {name!r}; {near(name, by_name)}")
    return by_name[name]
