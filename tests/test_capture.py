"""A captured machine as a host file, which is read back as the same host."""

import json
from dataclasses import replace
from pathlib import Path

import pytest

from hostwheel.__main__ import main
from hostwheel.errors import MachineLacks
from hostwheel.facts import cpuid
from hostwheel.facts.libc import glibcxx
from hostwheel.user import capture_main
from hostwheel.user.capture_gpu import Graphics
from hostwheel.user.capture_host import host_of, this_machine
from hostwheel.user.capture_limits import Limits
from hostwheel.user.capture_machine import usable
from hostwheel.user.capture_text import as_json, host_file, level
from tests.users import A10G, CPU_NAMES, T4, machine, read_back


@pytest.mark.parametrize("cpu", CPU_NAMES)
def test_the_host_file_of_a_recorded_cpu_is_read_back_the_same(cpu: str, tmp_path: Path) -> None:
    made = machine(cpu, A10G)
    assert read_back(host_file(made, ""), tmp_path) == host_of(made)


def test_this_machine_is_read_back_the_same(tmp_path: Path) -> None:
    made = this_machine()
    assert read_back(host_file(made, ""), tmp_path) == host_of(made)
    assert set(made.features) <= set(cpuid.Cpu().features)
    assert made.glibc
    assert made.glibcxx


def test_a_hostile_name_stays_one_line_of_text(tmp_path: Path) -> None:
    made = replace(machine(), brand='a "b" \\ \x1b[31m\nc = 1 é')
    read = read_back(host_file(made, 'x"]\n[gpu]'), tmp_path)
    assert read.title == 'x"] [gpu]: a "b" \\ [31m c = 1 é'


def test_what_a_host_file_has_no_place_for_is_in_comments() -> None:
    made = replace(machine("zen2", A10G, T4), limits=Limits(8, 2.5, 32 << 30, 1 << 30))
    comments = [line for line in host_file(made, "").splitlines() if line.startswith("#")]
    assert (
        "# Python 3.11.7; 8 CPUs, of which a cgroup allows 2.5, 32.0 GiB of memory"
        in (comments[1].rpartition(", of which")[0])
    )
    assert comments[1].endswith("of which a cgroup allows 1.0 GiB")
    assert "# GPU: Tesla T4, compute capability 75, 16.0 GiB" in comments
    assert "# These GPUs differ; [gpu] is the first." in "\n".join(comments)


def test_no_gpu_says_why() -> None:
    assert "# No NVIDIA GPU: libnvidia-ml.so.1 not found\n" in host_file(machine(), "")
    half = replace(machine(), graphics=Graphics("580.95.05", (), "NVML: not here"))
    assert "# No NVIDIA GPU: driver 580.95.05, NVML: not here\n" in host_file(half, "")
    assert "[gpu]" not in host_file(half, "")


def test_musl_and_no_libstdcxx_are_older_than_anything(tmp_path: Path) -> None:
    """D7"""
    bare = replace(machine(), glibc=None, glibcxx=None)
    text = host_file(bare, "")
    assert "no manylinux wheel runs here" in text
    assert "apt-get install libstdc++6" in text
    assert read_back(text, tmp_path) == host_of(bare)
    assert (host_of(bare).glibc, host_of(bare).glibcxx) == ("2.0", "3.4.0")


def test_what_stands_on_a_masked_feature_is_absent() -> None:
    """A19"""
    whole = set(machine("zen4").features)
    assert set(usable(whole)) == whole
    without = set(usable(whole - {"avx"}))
    assert not [each for each in without if each.startswith("avx") or each in ("fma", "vaes")]
    assert {"bmi2", "sse4_2", "gfni"} <= without
    assert usable(whole - {"sse4_1"}) == usable(whole - {"sse4_1", "sse4_2", "avx", "avx512f"})


def test_levels() -> None:
    found = {cpu: level(machine(cpu)) for cpu in CPU_NAMES}
    assert {cpu for cpu, name in found.items() if name == "x86_64"} == {"k10"}
    assert {cpu for cpu, name in found.items() if name == "x86_64_v2"} == {
        *("sandybridge", "ivybridge", "piledriver")
    }
    assert found["zen2"] == found["raptorlake"] == "x86_64_v3"
    assert found["zen5"] == found["sapphirerapids"] == "x86_64_v4"


def test_json_has_everything() -> None:
    said = json.loads(as_json(machine("zen2", A10G), "box"))
    assert (said["schema"], said["name"], said["level"]) == (1, "box", "x86_64_v3")
    assert said["graphics"]["gpus"] == [
        {"name": "NVIDIA A10G", "compute": "86", "memory": 24 << 30}
    ]
    assert said["limits"]["cpus"] == 8


def test_the_command(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    assert main(["capture", "--name", "box"]) == 0
    text = capsys.readouterr().out
    assert 'title = "box: ' in text
    read_back(text, tmp_path)
    assert main(["capture", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["glibc"]


def test_libstdcxx_is_that_of_the_loader() -> None:
    found = glibcxx()
    assert found
    assert found.startswith("3.4.")
    assert glibcxx("libnowhere.so.9") is None


def test_another_system_is_told(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("platform.machine", lambda: "aarch64")
    with pytest.raises(MachineLacks, match="Linux on aarch64; a host is Linux on x86-64; name"):
        this_machine()
    assert capture_main.main([]) == 3
    assert "this machine is Linux on aarch64" in capsys.readouterr().err
