"""The bill of materials: valid CycloneDX 1.6, of what is really compiled in."""

import dataclasses
import json
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from cyclonedx.schema import SchemaVersion
from cyclonedx.validation.json import JsonStrictValidator

from hostwheel.build.sbom import Compilers, sbom
from hostwheel.build.vendored import VENDORED, vendored
from hostwheel.errors import Refused
from hostwheel.plan.defines import tree
from hostwheel.plan.plan import Plan
from tests.plans import COMPILERS, lacking, plan_for

CPU = plan_for("cpu-avx2")
CUDA = plan_for("a10g")
TOOLKIT = {"nvidia-cuda-nvcc": "13.0.88", "nvidia-cuda-cccl": "13.0.85"}
NVCC = Compilers(gcc="12.2.0", cuda=TOOLKIT)

HEADERS: Mapping[str, str] = {
    "vendor/nlohmann/json.hpp": (
        "#if NLOHMANN_JSON_VERSION_MAJOR != 3\n"
        "#define NLOHMANN_JSON_VERSION_MAJOR 3   // NOLINT\n"
        "#define NLOHMANN_JSON_VERSION_MINOR 12  // NOLINT\n"
        "#define NLOHMANN_JSON_VERSION_PATCH 0   // NOLINT\n"
    ),
    "vendor/cpp-httplib/httplib.h": '#define CPPHTTPLIB_VERSION "0.58.0"\n',
    "vendor/hash/hash.cpp": "",
    "vendor/hash/sha1/sha1.h": "",
}


@pytest.fixture
def llama_cpp(tmp_path: Path) -> Path:
    for name, text in HEADERS.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    return tmp_path


def document(plan: Plan, llama_cpp: Path, compilers: Compilers = COMPILERS) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(sbom(plan, llama_cpp, compilers))
    return found


def by_ref(bill: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    return {component["bom-ref"]: component for component in bill["components"]}


@pytest.mark.parametrize(("plan", "compilers"), [(CPU, COMPILERS), (CUDA, NVCC)])
def test_it_is_valid_cyclonedx(plan: Plan, compilers: Compilers, llama_cpp: Path) -> None:
    text = sbom(plan, llama_cpp, compilers).decode()
    validator = JsonStrictValidator(SchemaVersion.V1_6)
    assert validator.validate_str(text) is None
    assert validator.validate_str(text.replace('"MIT"', '"MIT License"', 1)) is not None


def test_references_are_unique_and_each_dependency_is_one_of_them(llama_cpp: Path) -> None:
    bill = document(CUDA, llama_cpp, NVCC)
    root = bill["metadata"]["component"]["bom-ref"]
    there = {root, *by_ref(bill)}
    assert len(there) == len(bill["components"]) + 1
    for edge in bill["dependencies"]:
        assert {edge["ref"], *edge["dependsOn"]} <= there


def test_the_same_plan_gives_the_same_bytes_and_another_plan_another_number(
    llama_cpp: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = sbom(CPU, llama_cpp, COMPILERS)
    with monkeypatch.context() as patch:
        patch.setenv("TZ", "Asia/Tokyo")
        time.tzset()
        in_tokyo = sbom(CPU, llama_cpp, COMPILERS)
    time.tzset()
    assert in_tokyo == first
    numbers = [document(plan, llama_cpp)["serialNumber"] for plan in (CPU, CUDA)]
    assert len(set(numbers)) == 2


def test_its_time_is_the_sources(llama_cpp: Path) -> None:
    source = dataclasses.replace(CPU.source, epoch=0)
    bill = document(dataclasses.replace(CPU, source=source), llama_cpp)
    assert bill["metadata"]["timestamp"] == "1970-01-01T00:00:00Z"


def test_it_names_the_sources_with_their_hashes(llama_cpp: Path) -> None:
    found = by_ref(document(CPU, llama_cpp))
    upstream = found["pkg:pypi/llama-cpp-python@0.3.36"]
    assert upstream["hashes"] == [{"alg": "SHA-256", "content": CPU.source.sha256}]
    assert found["pkg:github/ggml-org/llama.cpp@0c1e57098bba"]["version"] == "0c1e57098bba"
    patches = {
        component["name"]: component["hashes"][0]["content"]
        for component in found.values()
        if component["type"] == "file"
    }
    assert patches == dict(CPU.patches)


def test_vendored_libraries_have_the_versions_of_their_headers(llama_cpp: Path) -> None:
    found = by_ref(document(CPU, llama_cpp))
    assert found["pkg:github/nlohmann/json@v3.12.0"]["version"] == "3.12.0"
    assert found["pkg:github/yhirose/cpp-httplib@v0.58.0"]["version"] == "0.58.0"
    assert "version" not in found["pkg:github/clibs/sha1"]
    assert "pkg:github/nothings/stb" not in found


def test_a_vendored_library_that_nobody_described_is_refused(llama_cpp: Path) -> None:
    (llama_cpp / "vendor" / "minja").mkdir()
    (llama_cpp / "vendor" / "minja" / "CMakeLists.txt").write_text("")
    assert list(vendored(llama_cpp))
    (llama_cpp / "vendor" / "minja" / "minja.hpp").write_text("")
    with pytest.raises(Refused, match=r"has vendor/minja, which the SBOM knows nothing of"):
        list(vendored(llama_cpp))


def test_a_header_without_a_version_is_refused(llama_cpp: Path) -> None:
    (llama_cpp / "vendor" / "cpp-httplib" / "httplib.h").write_text("#define HTTPLIB 1\n")
    with pytest.raises(Refused, match=r"httplib\.h has no line like"):
        list(vendored(llama_cpp))


def test_every_vendored_library_of_the_real_source_is_described() -> None:
    llama_cpp = tree(CPU.source) / "src" / "vendor" / "llama.cpp"
    if not llama_cpp.is_dir():
        lacking(f"needs the prepared source at {llama_cpp}: build any recipe once")
    found = {library.name: version for library, version in vendored(llama_cpp)}
    assert found.keys() == {library.name for library in VENDORED}
    assert all(found[library.name] for library in VENDORED if library.pattern)


def test_what_only_made_the_build_is_excluded(llama_cpp: Path) -> None:
    bill = document(CUDA, llama_cpp, NVCC)
    excluded = {found["name"] for found in bill["components"] if found.get("scope") == "excluded"}
    assert excluded == {"gcc", "nvidia-cuda-nvcc"}  # CCCL's templates are in the library
    assert by_ref(bill)["application:gcc"]["version"] == "12.2.0"


def test_what_the_machine_brings_has_a_floor_or_a_requirement(llama_cpp: Path) -> None:
    found = by_ref(document(CUDA, llama_cpp, NVCC))
    said = {
        ref: {fact["name"]: fact["value"] for fact in component["properties"]}
        for ref, component in found.items()
        if "properties" in component
    }
    assert said == {
        "library:glibc": {"hostwheel:system": "yes", "hostwheel:at_least": "GLIBC_2.35"},
        "library:libstdc++": {"hostwheel:system": "yes", "hostwheel:at_least": "GLIBCXX_3.4.30"},
        "pkg:pypi/nvidia-cuda-runtime": {"hostwheel:requirement": "nvidia-cuda-runtime>=13,<14"},
        "pkg:pypi/nvidia-cublas": {"hostwheel:requirement": "nvidia-cublas>=13,<14"},
    }


def test_a_cpu_build_has_nothing_of_nvidia(llama_cpp: Path) -> None:
    assert b"nvidia" not in sbom(CPU, llama_cpp, COMPILERS).lower()
