"""What the doctor finds: each finding from values, with the command that mends it."""

from dataclasses import replace

import pytest

from hostwheel.user.capture_gpu import Gpu, Graphics
from hostwheel.user.doctor import diagnose
from hostwheel.user.findings import machine_code
from tests.audits import image
from tests.diagnosed import CUDART, G5, GOMP, TORCHS, bad, foreign, found, only
from tests.users import A10G, T4, build, case, copy, entry, machine, needing, site


def test_what_fits_has_nothing_bad() -> None:
    assert found(G5, build()) == []
    assert found(machine(), build("cpu-avx2")) == []


def test_everything_is_told_in_the_order_of_its_hiding_the_next() -> None:
    of = build(cuda=(CUDART,), openmp=(GOMP,))
    told = [each.check for each in diagnose(case(G5, of))]
    assert list(dict.fromkeys(told)) == [
        *("CPU", "glibc", "libstdc++", "driver", "GPU code", "CUDA", "threads")
    ]


def test_every_bad_finding_has_a_remedy() -> None:
    worst = case(
        replace(machine("k10", T4, driver="470.42.01"), glibc=None, glibcxx=None),
        build(cuda=(CUDART,), openmp=(GOMP,)),
        site=site(
            copies=(copy(), copy("/other/llama_cpp"), copy("/other/llama_cpp_cuda")),
            openmp=(TORCHS,),
            visible="",
        ),
    )
    worse = bad(*diagnose(worst))
    assert len(worse) == 10
    assert all(each.remedy for each in worse)


# CPU


def test_a_missing_cpu_feature_stops_it() -> None:
    """A7, A17: AVX2 on a CPU that has AVX alone"""
    finding = only(found(machine("sandybridge"), build("cpu-avx2")))
    assert (finding.check, finding.standing) == ("CPU", "stops")
    assert finding.message.endswith("lacks avx2 bmi2 f16c fma")
    assert finding.remedy.startswith("hostwheel pick URL --install; in a virtual machine, have")


def test_a_virtual_machines_mask_counts() -> None:
    """A19"""
    features = tuple(each for each in machine("zen2").features if each != "fma")
    finding = only(found(replace(machine("zen2"), features=features), build("cpu-avx2")))
    assert finding.message == "the CPU here lacks fma"


def test_anothers_code_is_told_by_file() -> None:
    """A9, A10"""
    finding = only(found(machine("arrowlake"), foreign(lacking=("libggml.so needs avx512f",))))
    assert (finding.check, finding.standing) == ("CPU", "stops")
    assert finding.message.startswith("libggml.so needs avx512f, which the CPU")


def test_what_is_not_proved_is_not_claimed() -> None:
    finding = only(found(machine(), foreign(undecided=("libx.so needs avx512f",))))
    assert finding.standing == "undecided"
    assert "Illegal instruction" in finding.remedy


# C libraries


def test_an_old_glibc_stops_it() -> None:
    """D1, D4"""
    finding = only(found(replace(machine(), glibc="2.31"), build("cpu-avx2")))
    assert (finding.check, finding.standing) == ("glibc", "stops")
    assert finding.message == "needs glibc 2.34, here is 2.31"
    assert "hostwheel build RECIPE --engine auto" in finding.remedy


def test_musl_stops_it() -> None:
    """D7"""
    finding = only(found(replace(machine(), glibc=None), build("cpu-avx2")))
    assert "musl, as in Alpine" in finding.message


def test_an_old_libstdcxx_stops_it() -> None:
    """D4"""
    finding = only(found(replace(machine(), glibcxx="3.4.28"), build("cpu-avx2")))
    assert finding.message == "needs GLIBCXX_3.4.30 (GCC 12), here is GLIBCXX_3.4.28"
    assert "conda install -c conda-forge libstdcxx" in finding.remedy


def test_no_libstdcxx_stops_it() -> None:
    finding = only(found(replace(machine(), glibcxx=None), build("cpu-avx2")))
    assert finding.remedy == "apt-get install libstdc++6"


def test_a_build_without_cxx_needs_none() -> None:
    needs = replace(entry("cpu-avx2").needs, glibcxx="0")
    assert found(replace(machine(), glibcxx=None), build("cpu-avx2", needs=needs)) == []


# driver and GPU


@pytest.mark.parametrize("driver", ["535.54.03", "580.65.05"])
def test_a_driver_below_the_floor_stops_it(driver: str) -> None:
    """B5, B10, B13"""
    finding = only(found(machine("zen2", A10G, driver=driver), build()))
    assert (finding.check, finding.standing) == ("driver", "stops")
    assert finding.message == f"needs NVIDIA driver 580.65.06 or newer, here is {driver}"
    assert "an older CUDA" in finding.remedy


def test_a_580_is_not_enough_for_13_2() -> None:
    """B11"""
    needs = needing(entry("a10g"), driver="595.45.04").needs
    finding = only(found(machine("zen2", A10G, driver="580.159.03"), build(needs=needs)))
    assert finding.message == "needs NVIDIA driver 595.45.04 or newer, here is 580.159.03"


def test_a_driver_that_does_not_answer_is_told() -> None:
    """B10: CUDA in the banner, and everything on the CPU"""
    graphics = Graphics("580.95.05", (), "libnvidia-ml.so.1 not found")
    told = found(replace(machine(), graphics=graphics), build())
    assert [each.check for each in told] == ["driver", "GPU code"]
    assert "driver 580.95.05 is loaded, but does not answer: libnvidia-ml" in told[0].message
    assert "docker run --gpus all" in told[0].remedy


def test_no_code_for_the_gpu_stops_it() -> None:
    """B3"""
    finding = only(found(machine("zen2", Gpu("Quadro P400", "61", 2 << 30)), build()))
    assert finding.message == "has code for sm_86, which Quadro P400 (sm_61) cannot run"
    finding = only(found(machine("cascadelake", T4), build()))
    assert finding.standing == "stops"


def test_each_of_several_gpus_is_looked_at() -> None:
    finding = only(found(machine("zen2", A10G, T4, A10G), build()))
    assert "Tesla T4 (sm_75) cannot run" in finding.message


def test_ptx_of_others_counts() -> None:
    assert found(G5, foreign(images=(image("75", "ptx"),))) == []
    told = found(G5, foreign(images=(image("90"), image("90", "ptx"))))
    assert only(told).message == "has code for PTX_90 sm_90, which NVIDIA A10G (sm_86) cannot run"


def test_a_cuda_build_without_a_gpu_runs_on_the_cpu() -> None:
    finding = only(found(machine(), build()))
    assert finding.standing == "slows"
    assert "it runs on the CPU" in finding.message


def test_a_cpu_build_where_there_is_a_gpu_is_told() -> None:
    """B10"""
    finding = only(found(G5, build("cpu-avx2")))
    assert finding.message == "was built for the CPU alone, and there is NVIDIA A10G"
    assert (finding.standing, finding.remedy) == ("slows", "hostwheel pick URL --install")


@pytest.mark.parametrize(("visible", "hides"), [("", True), ("-1", True), ("0", False)])
def test_a_variable_that_hides_the_gpu_is_told(visible: str, hides: bool) -> None:
    told = found(G5, build(), site=site(visible=visible))
    assert [each.remedy for each in told] == ["unset CUDA_VISIBLE_DEVICES"] * hides


# wheels' tags


@pytest.mark.parametrize(
    ("tag", "told"),
    [
        ("cp311-cp311-manylinux_2_17_x86_64", None),
        ("cp39-abi3-manylinux_2_28_x86_64", None),
        ("py3-none-linux_x86_64", None),
        ("py3-none-any", None),
        ("cp312-cp312-linux_x86_64", "is for cp312-cp312-linux_x86_64, not for Python 3.11"),
        ("cp311-cp311-musllinux_1_2_x86_64", "is for musllinux_1_2_x86_64, this is Linux"),
        ("cp311-cp311-win_amd64", "is for win_amd64, this is Linux on x86-64 with glibc"),
        ("cp311-cp311-manylinux_2_28_aarch64", "is for manylinux_2_28_aarch64"),
    ],
)
def test_a_wheels_tag_is_pips_question(tag: str, told: str | None) -> None:
    """D7"""
    messages = [each.message for each in found(machine(), foreign(tags=(tag,)), copy=None)]
    if told is None:
        assert messages == []
    else:
        assert messages[0].startswith(told)


def test_musl_takes_musl() -> None:
    """D7, the other way round"""
    alpine = replace(machine(), glibc=None)
    (first, *_) = found(alpine, foreign(tags=("py3-none-manylinux_2_28_x86_64",)), copy=None)
    assert (
        first.message
        == "is for manylinux_2_28_x86_64, this is Linux on x86-64 with another C library"
    )
    told = found(alpine, foreign(tags=("py3-none-musllinux_1_2_x86_64",)), copy=None)
    assert "wheel" not in {each.check for each in told}


def test_machine_code_by_hand_runs_where_the_real_does() -> None:
    assert found(machine("zen2", Gpu("NVIDIA L4", "89", 1)), build()) == []
    of = build(images=(machine_code("120a"),))
    assert only(found(machine("zen2", Gpu("GB10", "121", 1)), of)).standing == "stops"
