"""What all recipes together plan: the names that upstream must have, and what is never built."""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from hostwheel.facts import isa
from hostwheel.plan.plan import Plan

# Backends and processors that no recipe is for. What they add is not ours to decide.
ELSEWHERE = re.compile(
    r"(GGML|LLAMA)_"
    r"(ACCELERATE|CANN|ET|HEXAGON|HIP|KOMPUTE|METAL|MUSA|OPENCL|OPENVINO|SYCL|VIRTGPU|VULKAN"
    r"|WEBGPU|ZDNN|ZENDNN|CPU_ARM|CPU_POWERPC|LASX|LSX|RV|RVV|VXE|XTHEADVECTOR|WASM)(_|$)"
)
PLATFORMS = re.compile(r"ANDROID|APPLE|EMSCRIPTEN|IOS|MINGW|MSVC|WIN32")
OTHER_CPU = re.compile(r'(?:else)?if\(GGML_SYSTEM_ARCH STREQUAL "?(?!x86\b)\w')
CONDITION = re.compile(r"(?:else)?if\((\w+)(?! (?:OR|STREQUAL|MATCHES|EQUAL)\b)")


@dataclass(frozen=True, kw_only=True, slots=True)
class Planned:
    """`off`: planned OFF by every recipe, so that what hangs on it is never built."""

    defines: frozenset[str]
    off: frozenset[str]
    shipped: frozenset[str]

    def inert(self, option: str) -> bool:
        """Whether an option cannot change what we build, be it ON or OFF by default.

        GGML_BLAS=OFF makes GGML_BLAS_VENDOR inert. That does not go for instruction sets:
        GGML_AVX_VNNI=OFF says nothing of a GGML_AVX_VNNI_INT8.
        """
        parents = self.off - {known.name for known in isa.OPTIONS}
        return bool(ELSEWHERE.match(option)) or any(
            option == parent or option.startswith(f"{parent}_") for parent in parents
        )

    def unbuilt(self, path: Sequence[str]) -> bool:
        """Whether one of the conditions around a command is never true in our builds."""
        if any(OTHER_CPU.match(opener) for opener in path):
            return True
        conditions = (CONDITION.match(opener) for opener in path)
        names = [match[1] for match in conditions if match]
        return any(PLATFORMS.fullmatch(name) or self.inert(name) for name in names)


def planned_by(plans: Iterable[Plan]) -> Planned:
    names, on, shipped = set[str](), set[str](), set[str]()
    for plan in plans:
        names.update(plan.defines)
        on.update(name for name, value in plan.defines.items() if value != "OFF")
        shipped.update(plan.libraries, plan.tools)
    cmake_options = frozenset(names - on)
    return Planned(defines=frozenset(names), off=cmake_options, shipped=frozenset(shipped))


def ours(define: str) -> bool:
    """CMake's own variables and those of our project, which upstream need not know."""
    return define.startswith(("CMAKE_", "HOSTWHEEL_"))


def defines_found(
    planned: Planned, options: Iterable[str], words: Iterable[str]
) -> Mapping[str, str]:
    """For each planned define: "option", "variable" (read, but no option), or "gone"."""
    declared, read = set(options), set(words)
    return {
        name: "option" if name in declared else "variable" if name in read else "gone"
        for name in sorted(planned.defines)
        if not ours(name)
    }
