"""C functions between two upstream versions: the headers', the binding's, the driver's."""

from pathlib import Path

from hostwheel.bump.symbols import compare_symbols
from tests.upstreams import (
    BINDING,
    CUDA_CODE,
    DRIVER,
    FORWARDS,
    LLAMA_H,
    compared,
    patch,
    told,
)


def test_a_bound_function_that_no_header_exports_is_unplanned(tmp_path: Path) -> None:
    bound = '@ctypes_function("llama_free"'
    found = compared(tmp_path, {BINDING: (bound, '@ctypes_function("llama_gone"')})
    assert told(found) == [("symbol", "llama_gone", True)]
    for exported in ("llama_old", "llama_older", "llama_log"):
        fine = compared(tmp_path, {BINDING: (bound, f'@ctypes_function("{exported}"')})
        assert fine.findings == ()


def test_a_commented_or_removed_declaration_exports_nothing(tmp_path: Path) -> None:
    found = compared(tmp_path, {LLAMA_H: ("LLAMA_API void llama_free(", "// void llama_free(")})
    assert told(found) == [("symbol", "llama_free", True)]


def test_a_function_that_the_binding_lacks_is_told_but_planned(tmp_path: Path) -> None:
    first = "LLAMA_API void llama_free"
    found = compared(tmp_path, {LLAMA_H: (first, f"LLAMA_API int\n llama_new (void);\n{first}")})
    assert told(found) == [("symbol", "llama_new", False)]
    assert found.unplanned == 0


def test_only_new_gaps_of_the_binding_are_reported() -> None:
    bound = frozenset({"llama_gone"})
    assert list(compare_symbols(({}, bound), ({}, bound))) == []
    headers = {"ggml_x": "ggml.h", "ggml_y": "ggml-rpc.h"}
    assert [one.name for one in compare_symbols(({}, bound), (headers, bound))] == ["ggml_x"]
    assert [one.name for one in compare_symbols((headers, bound), ({}, bound))] == ["ggml_x"]


def test_a_driver_function_that_no_patch_forwards_is_unplanned(tmp_path: Path) -> None:
    call = "CHECK(cuMemMap(1));"
    found = compared(tmp_path, {CUDA_CODE: (call, f"{call} cuMemNew (2);")})
    assert told(found) == [("driver", "cuMemNew", True)]
    forwards = patch(DRIVER.replace("+1 @@", "+1,2 @@") + FORWARDS.replace("cuMemMap", "cuMemNew"))
    fine = compared(tmp_path, {CUDA_CODE: (call, f"{call} cuMemNew (2);")}, forwards)
    assert (fine.findings, fine.patched) == ((), True)


def test_a_driver_function_that_is_not_called_any_more_is_told(tmp_path: Path) -> None:
    found = compared(tmp_path, {CUDA_CODE: ("CHECK(cuMemMap(1));", "")})
    assert told(found) == [("driver", "cuMemMap", False)]
