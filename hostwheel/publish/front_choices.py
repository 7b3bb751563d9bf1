"""What the form of the page offers, and the rules that its script chooses by, as JSON."""

import json
from collections.abc import Mapping
from typing import Any
from urllib.parse import quote

from hostwheel.audit.markup import amount, shown
from hostwheel.facts import isa
from hostwheel.facts.cpuid import KERNEL_NAMES
from hostwheel.facts.isa import IMPLIED_BY
from hostwheel.publish.catalog import Catalog, Entry
from hostwheel.publish.front_builds import (
    anchor,
    label,
    never,
    newest_alike,
    upstream,
)
from hostwheel.publish.label import ANY, options_of, tagged_glibc
from hostwheel.publish.links import project_of

# The features that every CPU of these families has, by the label of a build for them.
CPUS = (
    ("avx512.vnni", "AVX-512 with VNNI: Xeon Cascade Lake (2019), Zen 4 (2022), and newer"),
    ("avx512", "AVX-512: Xeon Skylake (2017)"),
    ("avx2", "AVX2: Haswell (2013), Zen (2017), and newer"),
    ("avx", "AVX: Sandy Bridge, Bulldozer (both 2011), and newer"),
    ("sse42", "SSE4.2: Nehalem (2008), and newer"),
    ("sse2", "older, or not known"),
)

# Compute capability → cards with it: developer.nvidia.com/cuda-gpus, and …/cuda-legacy-gpus.
GPUS = (
    ("120", "GeForce RTX 50, RTX PRO Blackwell"),
    ("103", "B300"),
    ("100", "B200"),
    ("90", "H100, H200"),
    ("89", "L4, L40, L40S, GeForce RTX 40, RTX Ada"),
    ("86", "A10G, A10, A40, GeForce RTX 30, RTX A6000"),
    ("80", "A100, A30"),
    ("75", "T4, GeForce RTX 20 and GTX 16, Quadro RTX"),
    ("70", "V100"),
    ("61", "GeForce GTX 10, P4, P40"),
)


def cpu_options() -> str:
    return "\n".join(
        f'<option value="{" ".join(isa.compiled_in(options_of(name)))}">{shown(words)}</option>'
        for name, words in CPUS
    )


def gpu_options() -> str:
    return "\n".join(
        f'<option value="{compute}">{shown(words)} ({compute[:-1]}.{compute[-1]})</option>'
        for compute, words in GPUS
    )


def rules(catalog: Catalog, pages: Mapping[str, str]) -> str:
    """As text for a script element: nothing in it can end one. `pages` are keys by version."""
    content = {
        "kernelNames": KERNEL_NAMES,
        "impliedBy": dict(IMPLIED_BY),
        "builds": [
            {**row(entry, place), "page": f"{pages[upstream(entry)]}#{anchor(entry)}"}
            for entry, place in newest_alike(catalog)
        ],
    }
    text = json.dumps(content, separators=(",", ":"), sort_keys=True)
    return text.replace("<", r"\u003c").replace(">", r"\u003e").replace("&", r"\u0026")


def row(entry: Entry, place: int) -> dict[str, Any]:
    """`order` is larger for what is newer, `any` for builds that bring code for every CPU."""
    needs = entry.needs
    return {
        "recipe": entry.recipe,
        "title": entry.title,
        "version": entry.version,
        "project": project_of(entry.filename),
        "path": quote(entry.key),
        "sha256": entry.sha256,
        "size": amount(entry.size),
        "python": entry.requires_python,
        "features": needs.features,
        "architecture": needs.architecture,
        "cuda": needs.cuda,
        "driver": needs.driver,
        "glibc": needs.glibc,
        "glibcxx": needs.glibcxx,
        "tagged": tagged_glibc(entry.platform_tag),
        "never": never(entry),
        "any": ANY in label(entry).split("."),
        "order": place,
    }
