"""The page's script chooses as `hostwheel pick` does, for recorded CPUs, in its words."""

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from hostwheel.facts.host import Gpu, Host
from hostwheel.publish.catalog import Catalog
from hostwheel.publish.front import front
from hostwheel.user.pick import pick
from tests.chromium import Tab, chromium
from tests.fronts import full, many, wheel
from tests.users import CPU_NAMES, CPUS, gpu, host, needing, recorded

GPUS = (
    None,
    *map(gpu, ("61", "75", "80", "86", "87", "89", "90", "100", "120", "121")),
    gpu("86", "535.54.03"),
    gpu("86", "470.256.02"),
    gpu("120", "580.65.05"),
    gpu("86", "580.65"),
)
SYSTEMS = (
    ("2.35", "3.4.30"),
    ("2.31", "3.4.28"),
    ("2.0", "3.4.19"),
    ("2.34", "3.4.30"),
    ("2.35", "3.4.9"),
)
OF_GCC = re.compile(r" \(GCC [\d.]+\)")  # which `pick` says besides


def catalogs() -> Mapping[str, Catalog]:
    a10g, avx2 = wheel("a10g"), wheel("cpu-avx2")
    alike = (
        *(wheel("cpu-avx2", recipe=name, filename=f"{name}-{avx2.filename}") for name in "ab"),
        replace(avx2, uploaded="2026-11-30T11:00:00Z"),
    )
    return {
        "every recipe": full(),
        "nothing": Catalog(),
        "withdrawn": Catalog().next((replace(a10g, yanked=""), replace(avx2, yanked="<b>&"))),
        "drafts": Catalog().next((replace(avx2, version=f"{avx2.version}.draft"), a10g)),
        "another system": Catalog().next((replace(avx2, platform_tag="win_amd64"), a10g)),
        "a tag above its files": Catalog().next((needing(avx2, glibc="2.17"), wheel("cpu-any"))),
        "alike": Catalog().next(alike),
        "overtaken": Catalog().next(
            replace(wheel("cpu-avx2", f"0.3.{number}"), recipe=name)
            for name, number in (("a", 1), ("b", 2), ("a", 3))
        ),
        "no driver named": Catalog().next((needing(a10g, driver=None), avx2)),
    }


@pytest.fixture(scope="module")
def tab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Tab]:
    with chromium(tmp_path_factory.mktemp("chromium")) as tab:
        yield tab


def opened(tab: Tab, catalog: Catalog, folder: Path) -> None:
    *_, first = front(catalog)
    file = folder / first.key
    file.write_bytes(first.body)
    tab.open(file, width=1200)


def as_object(host: Host) -> Mapping[str, Any]:
    card = host.gpu and {
        "name": host.gpu.name,
        "compute": host.gpu.compute,
        "driver": host.gpu.driver,
    }
    known = {"features": host.cpu.features, "gpu": card}
    return {**known, "glibc": host.glibc, "glibcxx": host.glibcxx}


def chosen(tab: Tab, hosts: list[Host]) -> Any:
    """The file that is taken, by its path, and reasons by version and recipe, for each host."""
    script = """JSON.parse(document.getElementById('rules').textContent)"""
    of = json.dumps([as_object(each) for each in hosts])
    return tab.ask(
        f"(rules => {of}.map(host => (({{best, others}}) => [best && best.sha256,"
        " others.map(each => [each.build.sha256, each.reason])])(choose(rules, host))))"
        f"({script})"
    )


def hosts(cpus: tuple[str, ...], cards: tuple[Gpu | None, ...] = GPUS) -> list[Host]:
    """Every card, and every system: in one machine each, since they do not touch each other."""
    return [
        replace(host(cpu, card), glibc=glibc, glibcxx=glibcxx)
        for cpu in cpus
        for card, (glibc, glibcxx) in zip(
            (*cards, *cards[:1] * len(SYSTEMS)),
            (*SYSTEMS[:1] * len(cards), *SYSTEMS),
            strict=True,
        )
    ]


@pytest.mark.parametrize("cpu", CPU_NAMES)
def test_for_every_recorded_cpu_it_is_the_pick_in_the_same_words(
    cpu: str, tab: Tab, tmp_path: Path
) -> None:
    """A7, A9, A10, A17, A19, B3, B13"""
    agrees(tab, full(), hosts((cpu,)), tmp_path)


@pytest.mark.parametrize("name", catalogs())
def test_for_every_kind_of_catalog_too(name: str, tab: Tab, tmp_path: Path) -> None:
    agrees(tab, catalogs()[name], hosts(("k10", "zen2", "zen4")), tmp_path)


def agrees(tab: Tab, catalog: Catalog, hosts: list[Host], folder: Path) -> None:
    """The same best; of each build that the page looks at, the same reason."""
    opened(tab, catalog, folder)
    answers = chosen(tab, hosts)
    assert len(answers) == len(hosts)
    for each, (best, others) in zip(hosts, answers, strict=True):
        picked = pick(catalog, each, None)
        assert best == (picked.best and picked.best.sha256), each
        reasons = {one.entry.sha256: OF_GCC.sub("", one.reason) for one in picked.others}
        assert {sha256: reasons[sha256] for sha256, _ in others} == dict(others), each
        looked_at = {one.recipe for one in catalog.entries if one.kind == "wheel"}
        assert len(others) + bool(best) >= len(looked_at)


def test_a_feature_that_another_implies_need_not_be_listed(tab: Tab, tmp_path: Path) -> None:
    """archspec's sse3, in a list that has ssse3"""
    (whole,) = hosts(("zen2",), (None,))[:1]
    features = tuple(each for each in whole.cpu.features if each != "sse3")
    agrees(tab, full(), [replace(whole, cpu=replace(whole.cpu, features=features))], tmp_path)


def test_of_many_versions_it_is_the_same_too(tab: Tab, tmp_path: Path) -> None:
    agrees(tab, many(30), hosts(("zen2",), (None, gpu("86"))), tmp_path)


def test_the_machines_differ_in_what_they_get() -> None:
    best = {picked.best and picked.best.recipe for picked in every_pick()}
    assert len(best) > 9
    assert None in best


def every_pick() -> Iterator[Any]:
    catalog = full()
    return (pick(catalog, each, None) for each in hosts(CPU_NAMES))


@pytest.mark.parametrize("cpu", CPU_NAMES)
def test_pasted_flags_are_those_of_the_capture(cpu: str, tab: Tab, tmp_path: Path) -> None:
    opened(tab, full(), tmp_path)
    pasted = pasted_facts(tab, (CPUS / cpu).read_text())
    assert set(recorded(cpu)[1]) <= set(pasted["features"])
    assert "pni" not in pasted["features"]
    assert (pasted["gpu"], pasted["glibc"], pasted["glibcxx"]) == (None, None, None)


def pasted_facts(tab: Tab, text: str) -> Any:
    kernel = "JSON.parse(document.getElementById('rules').textContent).kernelNames"
    return tab.ask(f"readPasted({json.dumps(text)}, {kernel})")


def test_what_the_commands_print_is_read(tab: Tab, tmp_path: Path) -> None:
    opened(tab, full(), tmp_path)
    lines = (
        "flags\t\t: fpu avx2 pni\r\nglibc 2.35\r\nNVIDIA A10G, 8.6, 580.95.05\r\nGLIBCXX_3.4.30\r\n"
    )
    assert pasted_facts(tab, lines) == {
        "features": ["fpu", "avx2", "sse3"],
        "gpu": {"name": "NVIDIA A10G", "compute": "86", "driver": "580.95.05"},
        "glibc": "2.35",
        "glibcxx": "3.4.30",
    }
    others = "glibc none\nNVIDIA RTX PRO 6000, Server, 12.0, 580.1\nNVIDIA L4, 8.9, 580.1"
    assert pasted_facts(tab, others) == {
        "features": None,
        "gpu": {"name": "NVIDIA RTX PRO 6000, Server", "compute": "120", "driver": "580.1"},
        "glibc": "2.0",
        "glibcxx": None,
    }
    nothing = {"features": None, "gpu": None, "glibc": None, "glibcxx": None}
    assert pasted_facts(tab, "bash: nvidia-smi: command not found") == nothing
    assert pasted_facts(tab, "NVIDIA GeForce, [N/A], 580.95.05\nglibc x") == nothing
