"""A label read back: what it promises, against what the audit found in the files."""

import re
from collections.abc import Iterator, Mapping
from typing import Any

from packaging.utils import parse_wheel_filename

from hostwheel.facts import isa
from hostwheel.facts.isa import beyond
from hostwheel.facts.policy import cuda_major
from hostwheel.facts.versions import numeric

Report = Mapping[str, Any]
GPU = re.compile(r"cu(?P<major>\d\d)(?P<minor>\d)\.sm(?P<architecture>\w+)\.(?P<cpu>.+)")
CPU = re.compile(r"cpu\.(?P<cpu>.+)")
ANY = "any"  # a file for each of ggml's CPU variants
VARIANT = re.compile(r"libggml-cpu-(?P<tag>\w+)\.so")
MANYLINUX = re.compile(r"manylinux_(\d+)_(\d+)_x86_64")


def label_problems(plan: Mapping[str, Any], report: Report) -> Iterator[str]:
    """Ways in which the label, which file name and version carry, says what the files do not."""
    label = plan["label"]
    if plan["version"].partition("+")[2] != label or label not in report["artifact"]:
        yield f"is planned as {label}; version {plan['version']} and file name must say so"
    if gpu := GPU.fullmatch(label):
        yield from gpu_problems(gpu["major"], gpu["minor"], gpu["architecture"], report)
        yield from cpu_problems(gpu["cpu"], report)
    elif cpu := CPU.fullmatch(label):
        yield from no_gpu_problems(report)
        yield from cpu_problems(cpu["cpu"], report)
    else:
        yield f"has a label of an unknown form: {label}"


def gpu_problems(major: str, minor: str, architecture: str, report: Report) -> Iterator[str]:
    images = [image for file in report["files"] for image in file["images"]]
    found = {(image["kind"], image["sm"]) for image in images}
    if found != {("cubin", architecture)}:
        told = ", ".join(sorted(f"{kind} sm_{sm}" for kind, sm in found)) or "no GPU code"
        yield f"is labelled sm{architecture} and holds {told}"
    release = f"{major}.{minor}"
    if others := {image["toolkit"] for image in images} - {release, None}:
        yield f"is labelled CUDA {release}, and its GPU code is of {' '.join(sorted(others))}"
    if others := {str(each) for each in cuda_majors(report)} - {major}:
        yield f"is labelled CUDA {release} and needs libraries of CUDA {' '.join(sorted(others))}"


def no_gpu_problems(report: Report) -> Iterator[str]:
    for file in report["files"]:
        if file["images"]:
            yield f"is labelled cpu, and {file['name']} holds GPU code"
    if cuda_majors(report):
        yield "is labelled cpu and needs CUDA's libraries"


def cuda_majors(report: Report) -> set[int]:
    needed = {each for file in report["files"] for each in file["needed"]}
    return {major for each in needed if (major := cuda_major(each)) is not None}


def cpu_problems(label: str, report: Report) -> Iterator[str]:
    """Each option of the label is used, and nothing beyond it but what the audit excuses."""
    excused = {
        (each["file"], each["feature"])
        for each in report["findings"]
        if each["standing"] == "dismissed"
    }
    used: set[str] = set()
    for file in report["files"]:
        found = {name for name, count in file["features"].items() if count}
        more = beyond(found, allowed(label, file["name"]))
        if unexcused := [each for each in more if (file["name"], each) not in excused]:
            yield f"is labelled {label}, and {file['name']} needs {' '.join(unexcused)}"
        used |= found
    for option in options_of(label):
        if used.isdisjoint(option.proof):
            yield f"is labelled {label} and holds no {' or '.join(option.proof)} instruction"


def allowed(label: str, file: str) -> tuple[str, ...]:
    """The features that a file may use without asking."""
    if label != ANY:
        return isa.compiled_in(options_of(label))
    variant = VARIANT.fullmatch(file.rpartition("/")[2])
    known = variant and variant["tag"] in isa.VARIANTS
    return isa.compiled_in(isa.variant_options(variant["tag"])) if variant and known else ()


def options_of(label: str) -> tuple[isa.Option, ...]:
    """The options that `isa_label` makes this label of."""
    level, *more = label.split(".")
    inside = dict(isa.LEVELS).get(level, frozenset())
    return tuple(each for each in isa.OPTIONS if each.name in inside or each.label in more)


def tag_problems(plan: Mapping[str, Any], report: Report) -> Iterator[str]:
    """A wheel's platform tag promises a glibc that the host has and its files are content with."""
    if not report["artifact"].endswith(".whl"):
        return
    host, needs = plan["host"], newest(report, "GLIBC")
    for tag in parse_wheel_filename(report["artifact"])[3]:
        promised = tagged_glibc(tag.platform)
        if not promised:
            yield f"has the platform tag {tag.platform}, which promises no glibc"
            continue
        if numeric(promised) > numeric(host["glibc"]):
            yield f"is tagged for glibc {promised}, host {host['name']} has {host['glibc']}"
        if needs and numeric(needs) > numeric(promised):
            yield f"is tagged for glibc {promised} and needs {needs}"


def tagged_glibc(platform_tag: str) -> str:
    """The glibc that the tag promises, by which pip decides; "" for another tag."""
    match = MANYLINUX.fullmatch(platform_tag)
    return f"{match[1]}.{match[2]}" if match else ""


def newest(report: Report, prefix: str) -> str | None:
    """The newest symbol version of a library (GLIBC, GLIBCXX) that any file asks for."""
    found = [each["versions"][prefix] for each in report["files"] if prefix in each["versions"]]
    return max(found, key=numeric, default=None)
