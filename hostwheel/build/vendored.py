"""Other people's code that llama.cpp carries and that is compiled in."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from hostwheel.errors import Refused

SOURCES = frozenset({".c", ".cpp", ".cu", ".cuh", ".h", ".hpp"})
PUBLIC_DOMAIN = "LicenseRef-scancode-public-domain"


@dataclass(frozen=True, kw_only=True, slots=True)
class Vendored:
    """One library: `file` (from llama.cpp's folder) has its version where `pattern` says.

    `tag` makes a Git tag of GitHub's `repository` from the version; libraries whose header names
    no version have neither. `licence` is an SPDX expression.
    """

    file: str
    name: str
    repository: str
    licence: str
    pattern: str = ""
    tag: str = ""


VENDORED = (
    Vendored(
        file="vendor/nlohmann/json.hpp",
        name="nlohmann-json",
        repository="nlohmann/json",
        licence="MIT",
        pattern=r"#define NLOHMANN_JSON_VERSION_(?:MAJOR|MINOR|PATCH)\s+(\d+)",
        tag="v",
    ),
    Vendored(
        file="vendor/cpp-httplib/httplib.h",
        name="cpp-httplib",
        repository="yhirose/cpp-httplib",
        licence="MIT",
        pattern=r'#define CPPHTTPLIB_VERSION "([\d.]+)"',
        tag="v",
    ),
    Vendored(
        file="vendor/miniaudio/miniaudio.h",
        name="miniaudio",
        repository="mackron/miniaudio",
        licence="Unlicense OR MIT-0",
        pattern=r"#define MA_VERSION_(?:MAJOR|MINOR|REVISION)\s+(\d+)",
    ),
    Vendored(
        file="vendor/stb/stb_image.h",
        name="stb_image",
        repository="nothings/stb",
        licence="MIT OR Unlicense",
        pattern=r"stb_image - v([\d.]+)",
    ),
    Vendored(
        file="vendor/sheredom/subprocess.h",
        name="subprocess.h",
        repository="sheredom/subprocess.h",
        licence="Unlicense",
    ),
    Vendored(
        file="vendor/hash/xxhash/xxhash.h",
        name="xxHash",
        repository="cyan4973/xxhash",
        licence="BSD-2-Clause",
        pattern=r"#define XXH_VERSION_(?:MAJOR|MINOR|RELEASE)\s+(\d+)",
        tag="v",
    ),
    Vendored(
        file="vendor/hash/sha1/sha1.h",
        name="sha1",
        repository="clibs/sha1",
        licence=PUBLIC_DOMAIN,
    ),
    Vendored(
        file="vendor/hash/sha256/sha256.h",
        name="sha256.c",
        repository="jb55/sha256.c",
        licence=PUBLIC_DOMAIN,
    ),
    Vendored(
        file="vendor/hash/rotate-bits/rotate-bits.h",
        name="rotate-bits.h",
        repository="jb55/rotate-bits.h",
        licence="MIT",
    ),
    Vendored(
        file="common/base64.hpp",
        name="base64",
        repository="tobiaslocker/base64",
        licence="Unlicense",
    ),
    Vendored(
        file="ggml/src/ggml-cpu/llamafile/sgemm.cpp",
        name="llamafile-sgemm",
        repository="mozilla-ocho/llamafile",
        licence="MIT",
    ),
)

OWN = frozenset({"vendor/hash"})  # llama.cpp's own wrapper lies beside what it wraps


def vendored(llama_cpp: Path) -> Iterator[tuple[Vendored, str]]:
    """What the prepared source has of these, each with its version ("" where it names none).

    Refused when a folder below vendor/ is not in the table, or a header says no version.
    """
    refuse_unknown(llama_cpp)
    for library in VENDORED:
        file = llama_cpp / library.file
        if file.is_file():
            yield library, version(library, file)


def refuse_unknown(llama_cpp: Path) -> None:
    known = {str(Path(library.file).parent) for library in VENDORED} | OWN
    found = {
        str(path.parent.relative_to(llama_cpp))
        for path in (llama_cpp / "vendor").rglob("*")
        if path.suffix in SOURCES
    }
    for folder in sorted(found - known):
        raise Refused(
            f"llama.cpp has {folder}, which the SBOM knows nothing of: "
            "add its name, repository and licence to VENDORED in hostwheel/build/vendored.py"
        )


def version(library: Vendored, file: Path) -> str:
    if not library.pattern:
        return ""
    parts = re.findall(library.pattern, file.read_text(encoding="utf-8"))
    if not parts:
        raise Refused(f"{file} has no line like {library.pattern!r}: no version for the SBOM")
    return ".".join(parts[:3])
