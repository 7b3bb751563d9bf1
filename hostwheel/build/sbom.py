"""The software bill of materials in the wheel: CycloneDX 1.6, the same bytes for the same build.

PEP 770 puts it into `.dist-info/sboms/`. What runs with a build but is not in it (the system's
libraries, NVIDIA's wheels) is there without a version, with its floor or requirement; what was
only used to make it has the scope "excluded".
"""

import datetime
import json
import uuid
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import quote

from packaging.requirements import Requirement

from hostwheel.build.vendored import Vendored, vendored
from hostwheel.plan.plan import Plan

NVIDIA = "LicenseRef-NVIDIA-Proprietary"  # what the metadata of NVIDIA's wheels says
GCC_RUNTIME = "GPL-3.0-or-later WITH GCC-exception-3.1"
HEADERS = frozenset({"nvidia-cuda-cccl"})  # templates that are compiled into libggml-cuda

Component = dict[str, Any]


@dataclass(frozen=True, kw_only=True, slots=True)
class Compilers:
    """What compiles: GCC's version, and the toolkit's packages, name → version."""

    gcc: str
    cuda: Mapping[str, str]


def sbom(plan: Plan, llama_cpp: Path, compilers: Compilers) -> bytes:
    """The document; `llama_cpp` is the prepared source of llama.cpp. Refused: see `vendored`."""
    inner = [vendored_library(*found) for found in vendored(llama_cpp)]
    sources, needed = [upstream(plan), llama(plan), *patches(plan)], list(runtime(plan))
    made_with = list(makers(compilers))
    root = wheel(plan)
    document = {
        "$schema": "http://cyclonedx.org/schema/bom-1.6.schema.json",
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "serialNumber": f"urn:uuid:{uuid.uuid5(uuid.NAMESPACE_URL, plan.hash)}",
        "version": 1,
        "metadata": metadata(plan, root),
        "components": [*sources, *inner, *needed, *made_with],
        "dependencies": [
            {"ref": root["bom-ref"], "dependsOn": refs([*sources, *needed])},
            {"ref": llama(plan)["bom-ref"], "dependsOn": refs(inner)},
        ],
    }
    return (json.dumps(document, indent=1) + "\n").encode()


def metadata(plan: Plan, root: Component) -> dict[str, Any]:
    name, _, version = plan.builder.partition(" ")
    when = datetime.datetime.fromtimestamp(plan.source.epoch, datetime.UTC)
    builder = {"type": "application", "name": name, "version": version}
    return {
        "timestamp": when.strftime("%Y-%m-%dT%H:%M:%SZ"),
        "lifecycles": [{"phase": "build"}],
        "tools": {"components": [builder]},
        "component": root,
    }


def wheel(plan: Plan) -> Component:
    facts = {
        "plan_hash": plan.hash,
        "recipe": plan.recipe,
        "host": plan.host.name,
        "label": plan.label,
        "cpu_features": " ".join(plan.features),
        **({"cuda_architecture": plan.cuda.architecture} if plan.cuda else {}),
        **{f"lock:{name}": sha256 for name, sha256 in plan.locks.items()},
    }
    return component(
        "library",
        "llama-cpp-python",
        "MIT",
        version=plan.version,
        purl=f"pkg:pypi/llama-cpp-python@{quote(plan.version)}",
        facts=facts,
    )


def upstream(plan: Plan) -> Component:
    source = plan.source
    made = component(
        "library",
        "llama-cpp-python",
        "MIT",
        version=source.version,
        purl=f"pkg:pypi/llama-cpp-python@{source.version}",
        sha256=source.sha256,
    )
    return {**made, "externalReferences": [{"type": "distribution", "url": source.url}]}


def llama(plan: Plan) -> Component:
    commit = plan.source.llama_cpp_commit
    purl = f"pkg:github/ggml-org/llama.cpp@{commit}"
    return component("library", "llama.cpp", "MIT", version=commit, purl=purl)


def patches(plan: Plan) -> Iterator[Component]:
    for name, sha256 in plan.patches.items():
        yield component("file", name, "MIT", sha256=sha256)


def vendored_library(library: Vendored, version: str) -> Component:
    tag = f"@{library.tag}{version}" if library.tag else ""
    purl = f"pkg:github/{library.repository}{tag}"
    return component("library", library.name, library.licence, version=version, purl=purl)


def runtime(plan: Plan) -> Iterator[Component]:
    """What the machine has to bring: the system's libraries, then NVIDIA's wheels."""
    system = (
        ("glibc", "LGPL-2.1-or-later", f"GLIBC_{plan.host.glibc}"),
        ("libstdc++", GCC_RUNTIME, f"GLIBCXX_{plan.host.glibcxx}"),
    )
    for name, licence, floor in system:
        yield component("library", name, licence, facts={"system": "yes", "at_least": floor})
    for line in plan.requires:
        name = Requirement(line).name
        facts = {"requirement": line}
        yield component("library", name, NVIDIA, purl=f"pkg:pypi/{name}", facts=facts)


def makers(compilers: Compilers) -> Iterator[Component]:
    """The compiler and the toolkit's packages."""
    gcc = component("application", "gcc", "GPL-3.0-or-later", version=compilers.gcc)
    yield {**gcc, "scope": "excluded"}
    for name, version in compilers.cuda.items():
        purl = f"pkg:pypi/{name}@{version}"
        made = component("library", name, NVIDIA, version=version, purl=purl)
        yield made if name in HEADERS else {**made, "scope": "excluded"}


def component(
    kind: str,
    name: str,
    licence: str,
    *,
    version: str = "",
    purl: str = "",
    sha256: str = "",
    facts: Mapping[str, str] | None = None,
) -> Component:
    """A component with what is known of it; its reference is its purl, or its kind and name."""
    known: Component = {
        "type": kind,
        "bom-ref": purl or f"{kind}:{name}",
        "name": name,
        "version": version,
        "licenses": licences(licence),
        "purl": purl,
        "hashes": [{"alg": "SHA-256", "content": sha256}] if sha256 else [],
        "properties": [
            {"name": f"hostwheel:{key}", "value": value} for key, value in (facts or {}).items()
        ],
    }
    return {key: value for key, value in known.items() if value}


def licences(expression: str) -> list[dict[str, Any]]:
    """As SPDX's identifier where it is one, which more tools read than expressions."""
    is_identifier = " " not in expression and not expression.startswith("LicenseRef-")
    return [{"license": {"id": expression}}] if is_identifier else [{"expression": expression}]


def refs(components: list[Component]) -> list[str]:
    return [found["bom-ref"] for found in components]
