"""What a new upstream version changes: each kind is found, and a harmless twin is let through."""

import io
from pathlib import Path

import pytest
from rich.console import Console

from hostwheel.bump.bump import bump
from hostwheel.bump.finding import Finding
from hostwheel.bump.show import show_bump
from hostwheel.bump.targets import compare_targets
from hostwheel.errors import BadInput
from tests.upstreams import (
    CPU,
    CUDA,
    EXAMPLES,
    GGML,
    GGML_SRC,
    PLANNED,
    SERVER,
    TOP,
    archive,
    compared,
    patch,
    told,
)

FITS = "--- a/llama_cpp/__init__.py\n+++ b/llama_cpp/__init__.py\n@@ -1 +1,2 @@\n+#\n from .llama"


def test_nothing_changed_is_nothing_found(tmp_path: Path) -> None:
    found = compared(tmp_path, {})
    assert found.findings == ()
    assert (found.version, found.base, found.unplanned, found.patched) == ("1.1", "1.0", 0, True)
    assert {*found.defines.values()} == {"option", "variable"}  # GIT_EXE is no option
    assert found.defines["GGML_AVX2"] == "option"


LOUD = 'option(GGML_LOUD "ggml: print more" OFF)\n'


@pytest.mark.parametrize(
    ("new", "area", "name", "unplanned"),
    [
        (LOUD + "option(GGML_AVX10 x ON)", "option", "GGML_AVX10", True),
        (LOUD + "option(GGML_AVX_VNNI_INT8 x OFF)", "option", "GGML_AVX_VNNI_INT8", True),
        (LOUD + "option(GGML_CUDA_NEW x OFF)", "option", "GGML_CUDA_NEW", True),
        (LOUD + "set( LLAMA_MODE\n 3\n CACHE STRING x)", "option", "LLAMA_MODE", True),
        (LOUD + "option(GGML_VULKAN_NEW x ON)", "option", "GGML_VULKAN_NEW", False),
        (LOUD + "option(GGML_RV_NEW x ON)", "option", "GGML_RV_NEW", False),
        (LOUD + "option(GGML_BLAS_NEW x ON)", "option", "GGML_BLAS_NEW", False),
        (LOUD.replace("OFF", "ON"), "option", "GGML_LOUD", True),
        ("", "option", "GGML_LOUD", False),
    ],
)
def test_an_option_that_the_plan_does_not_name_is_found(
    new: str, area: str, name: str, unplanned: bool, tmp_path: Path
) -> None:
    found = compared(tmp_path, {GGML: (LOUD, new)})
    assert told(found) == [(area, name, unplanned)]


@pytest.mark.parametrize(
    "new",
    [
        LOUD.replace("print more", "print less"),
        LOUD + "set(GGML_FOUND ON CACHE INTERNAL x)\n",
        LOUD + "set(GGML_LOCAL ON)\n",
        LOUD + "# option(GGML_COMMENTED x ON)\n#[[ option(GGML_BRACKETED x ON)\n ]]\n",
        LOUD + 'message("option(GGML_SAID x ON)")\n',
        LOUD + "option(SOMETHING_ELSE x ON)\n",
    ],
)
def test_what_is_no_new_option_is_not_taken_for_one(new: str, tmp_path: Path) -> None:
    assert compared(tmp_path, {GGML: (LOUD, new)}).findings == ()


def test_an_option_of_what_is_never_built_is_not_reported(tmp_path: Path) -> None:
    added = ("add_executable(example x.cpp)\n", "option(LLAMA_EXAMPLE x ON)\n")
    assert compared(tmp_path, {EXAMPLES: added}).findings == ()


def option(name: str) -> str:
    return f'option({name} "made up"\n    OFF) # {name}\n'


def test_a_planned_option_that_no_file_reads_any_more_is_unplanned(tmp_path: Path) -> None:
    found = compared(tmp_path, {GGML: (option("GGML_LLAMAFILE"), "# GGML_LLAMAFILE\n")})
    assert told(found) == [("define", "GGML_LLAMAFILE", True)]
    assert found.defines["GGML_LLAMAFILE"] == "gone"


def test_a_planned_option_that_became_a_variable_is_unplanned(tmp_path: Path) -> None:
    found = compared(
        tmp_path, {GGML: (option("GGML_LLAMAFILE"), "if (GGML_LLAMAFILE)\nf()\nendif()\n")}
    )
    assert told(found) == [("option", "GGML_LLAMAFILE", True)]
    assert found.defines["GGML_LLAMAFILE"] == "variable"


def test_the_default_of_a_planned_option_does_not_matter(tmp_path: Path) -> None:
    other = option("GGML_LLAMAFILE").replace("OFF", "ON")
    found = compared(tmp_path, {GGML: (option("GGML_LLAMAFILE"), other)})
    assert told(found) == [("option", "GGML_LLAMAFILE", False)]
    assert "the plan names it" in found.findings[0].what


@pytest.mark.parametrize(
    ("file", "old", "new", "rule"),
    [
        (CUDA, "86-real)", "86-real 100-real)", "CUDA architectures"),
        (CUDA, "NOT DEFINED CMAKE", "GGML_X OR NOT DEFINED CMAKE", "CUDA architectures"),
        (CUDA, "-use_fast_math", "-use_fast_math --new", "flags of nvcc"),
        (CPU, "-mavx2", "-mavx2 -mnew", "x86 flags"),
        (CPU, "if (GGML_AVX2)", "if (GGML_AVX2 OR GGML_X)", "x86 flags"),
        (CPU, "if (MSVC)", "if (MSVC OR GGML_X)", "x86 flags"),
        (GGML, "NOT GGML_NATIVE_DEFAULT", "GGML_X", "native by default"),
        (GGML, "set(GGML_NATIVE_DEFAULT ON)", "", "native by default"),
        (GGML_SRC, "variant(none SSE42)", "variant(none AVX)", "x86 variants"),
    ],
)
def test_a_rewritten_rule_is_shown_as_a_diff(
    file: str, old: str, new: str, rule: str, tmp_path: Path
) -> None:
    found = compared(tmp_path, {file: (old, new)})
    assert told(found) == [("rule", rule, True)]
    assert {line[0] for line in found.findings[0].diff[2:]} >= {"@", "-"}


@pytest.mark.parametrize(
    ("file", "old", "new"),
    [
        (CUDA, "# CMAKE_CUDA_ARCHITECTURES in a comment", "# CMAKE_CUDA_ARCHITECTURES explained"),
        (CUDA, "    list(APPEND", "  list(APPEND"),
        (CUDA, "building for", "compiling for"),
        (CPU, "-mcpu=native", "-mcpu=other"),
        (CPU, "/arch:AVX", "/arch:AVX2"),
        (CPU, "x86.c", "x86.c more.c"),
    ],
)
def test_a_rule_that_does_the_same_is_not_reported(
    file: str, old: str, new: str, tmp_path: Path
) -> None:
    assert compared(tmp_path, {file: (old, new)}).findings == ()


def test_a_rule_that_went_elsewhere_is_unplanned(tmp_path: Path) -> None:
    found = compared(tmp_path, {CPU: ('STREQUAL "x86"', "IN_LIST INTEL")})
    assert told(found) == [("rule", "x86 flags", True)]
    assert "look where it went" in found.findings[0].what


ADDED = "set(TARGET server-context)\n"


@pytest.mark.parametrize(
    ("new", "expected"),
    [
        ("add_library(llama-extra x.cpp)\n", ("target", "llama-extra", True)),
        ("set(T llama-extra)\nadd_library(${T} x.cpp)\n", ("target", "llama-extra", True)),
        ("ggml_add_backend_library(ggml-new x)\n", ("target", "ggml-new", True)),
        ("add_library(extra STATIC x.cpp)\n", ("target", "extra", False)),
        ("add_executable(extra x.cpp)\n", ("target", "extra", False)),
        ("find_package(NCCL)\n", ("link", "find_package", True)),
        ("find_library(V numa REQUIRED)\n", ("link", "find_library", True)),
        ("target_link_libraries(llama PRIVATE OpenSSL::SSL)\n", ("link", "llama", True)),
        ("target_link_libraries(llama PRIVATE ggml)\n", ("link", "llama", False)),
        ("target_link_libraries(llama PRIVATE Threads::Threads m)\n", ("link", "llama", False)),
    ],
)
def test_what_is_newly_built_or_linked_is_found(
    new: str, expected: tuple[str, str, bool], tmp_path: Path
) -> None:
    found = compared(tmp_path, {SERVER: (ADDED, new + ADDED)})
    assert set(told(found)) == {expected}


@pytest.mark.parametrize(
    "condition",
    ["WIN32", "GGML_VULKAN", "GGML_BLAS", "LLAMA_OPENSSL", 'GGML_SYSTEM_ARCH STREQUAL "ARM"'],
)
def test_what_our_builds_never_reach_is_not_reported(condition: str, tmp_path: Path) -> None:
    inside = f"if ({condition})\n  add_library(extra x.cpp)\n  find_package(X)\nendif()\n"
    assert compared(tmp_path, {SERVER: (ADDED, inside + ADDED)}).findings == ()


@pytest.mark.parametrize("condition", ["NOT WIN32", "GGML_CUDA", "WIN32 OR UNIX", "GGML_LOUD"])
def test_what_our_builds_may_reach_is_reported(condition: str, tmp_path: Path) -> None:
    inside = f"if ({condition})\n  add_library(extra x.cpp)\nendif()\n"
    found = compared(tmp_path, {SERVER: (ADDED, inside + ADDED)})
    assert told(found) == [("target", "extra", True)]


def test_a_shipped_target_that_is_gone_is_unplanned(tmp_path: Path) -> None:
    found = compared(tmp_path, {f"{TOP}CMakeLists.txt": ("add_library(mtmd x.cpp)\n", "")})
    assert ("target", "mtmd", True) in told(found)
    gone = compared(tmp_path, {SERVER: ("add_library(${TARGET} STATIC server.cpp)\n", "")})
    assert told(gone) == [("target", "server-context", False)]


def test_what_we_ship_has_to_be_there_whatever_was_before() -> None:
    there = dict.fromkeys(PLANNED.shipped, "shared library")
    assert not any(finding.unplanned for finding in compare_targets({}, there, PLANNED))
    del there["mtmd"]
    missing = [one.name for one in compare_targets(there, there, PLANNED) if one.unplanned]
    assert missing == ["mtmd"]


def test_a_static_library_that_became_shared_has_to_be_shipped(tmp_path: Path) -> None:
    found = compared(tmp_path, {SERVER: ("STATIC ", "")})
    assert told(found) == [("target", "server-context", True)]
    assert found.findings[0].what == "static library → shared library"


def test_a_new_cpu_variant_has_to_be_shipped(tmp_path: Path) -> None:
    more = "ggml_add_cpu_backend_variant(none SSE42)\n"
    found = compared(tmp_path, {GGML_SRC: (more, more + more.replace("none", "zen9"))})
    assert ("target", "ggml-cpu-zen9", True) in told(found)


def test_every_patch_that_does_not_apply_is_named_with_file_and_hunk(tmp_path: Path) -> None:
    second = patch(FITS.replace(" from .llama", " from .else") + "\n", "0002-a.patch")
    third = patch(second.text, "0003-b.patch")
    found = compared(tmp_path, {}, patch(), second, third)
    assert found.patches["0001-driver.patch"] == ()
    for name in ("0002-a.patch", "0003-b.patch"):
        assert found.patches[name][0] == "llama_cpp/__init__.py: hunk 1: @@ -1 +1,2 @@"
    assert (found.patched, found.unplanned) == (False, 2)


def test_a_patch_for_other_versions_is_not_tried(tmp_path: Path) -> None:
    broken = patch(FITS.replace("from", "for") + "\n", "0002-a.patch", versions="<1.1")
    found = compared(tmp_path, {}, patch(), broken)
    assert (found.patched, found.other) == (True, ("0002-a.patch",))
    assert list(found.patches) == ["0001-driver.patch"]


def test_another_version_in_the_archive_is_refused(tmp_path: Path) -> None:
    old = archive(tmp_path, "1.0")
    with pytest.raises(BadInput, match=r"1\.0\.tar\.gz is llama-cpp-python 1\.0, not 1\.1"):
        bump("1.1", old, old, (patch(),), PLANNED)


def test_what_is_no_cmake_is_refused_with_its_line(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match=r"tools/server/CMakeLists\.txt: line 1 is no CMake"):
        compared(tmp_path, {SERVER: (ADDED, '"never closed\n' + ADDED)})


def test_people_see_what_to_decide_first_and_machines_see_all(tmp_path: Path) -> None:
    options = "option(GGML_VULKAN_NEW x ON)\noption(GGML_AVX10 x ON)\noption(GGML_AVX11 x ON)\n"
    found = compared(tmp_path, {GGML: (LOUD, LOUD + options), CUDA: ("86-real", "[86]-real")})
    text = io.StringIO()
    show_bump(found, Console(width=100, file=text))
    shown = text.getvalue()
    assert "  ! GGML_AVX10, GGML_AVX11: new, default 'ON'\n    GGML_VULKAN_NEW: new" in shown
    assert "+  list(APPEND CMAKE_CUDA_ARCHITECTURES [86]-real)" in shown
    assert shown.rstrip().endswith(
        "3 unplanned (marked with !): settle each in patches or plan first"
    )
    findings = found.json()["findings"]
    assert [Finding(**each) for each in findings] == list(found.findings)
    assert found.json()["unplanned"] == 3
