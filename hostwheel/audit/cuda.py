"""GPU code against the card, and CUDA's versions against each other and the driver."""

import re
from collections.abc import Iterable, Iterator

from hostwheel.artifact.facts import Artifact, File, Image, WheelFacts
from hostwheel.audit.result import Finding, Floor
from hostwheel.audit.target import Target
from hostwheel.facts.cuda import COMPRESSED_DRIVER, MAJOR_DRIVERS, RELEASES, release_of_ptx
from hostwheel.facts.policy import cuda_major
from hostwheel.facts.versions import numeric
from hostwheel.plan.plan import Plan

LABEL = re.compile(r"\bcu(\d\d)(\d)(?!\d)")
CU_SUFFIX = re.compile(r"^nvidia-[\w-]+-cu(\d+)\b")


def has_code_for_the_card(artifact: Artifact, target: Target) -> Iterator[Finding]:
    """Machine code for exactly the planned GPU; for a host, code that its card can run.

    Without it the first kernel fails with "no kernel image is available", after the model was
    loaded. Machine code runs on later cards of the same major version, that of sm_90a on its own
    only. PTX is compiled by the driver when the program starts, which takes minutes and a driver
    as new as the toolkit. Compile with CMAKE_CUDA_ARCHITECTURES=<sm>-real.
    """
    if target.plan:
        yield from exactly(artifact, target.plan)
    elif target.host and target.host.gpu:
        compute = target.host.gpu.compute
        for file in artifact.files:
            if file.images and not any(runs_on(image, compute) for image in file.images):
                message = f"no GPU code for sm_{compute}; it has {listed(file.images)}"
                yield finding("CUDA001", message, f"compile for {compute}-real", file)


def exactly(artifact: Artifact, plan: Plan) -> Iterator[Finding]:
    planned = {("cubin", plan.cuda.architecture)} if plan.cuda else set()
    found = {(image.kind, image.sm) for file in artifact.files for image in file.images}
    if found != planned:
        images = [image for file in artifact.files for image in file.images]
        wanted = f"machine code for sm_{plan.cuda.architecture} alone" if plan.cuda else "none"
        message = f"GPU code found: {listed(images)}; planned is {wanted}"
        yield finding("CUDA001", message, "see CMAKE_CUDA_ARCHITECTURES in the plan")


def runs_on(image: Image, compute: str) -> bool:
    """NVIDIA's rules of binary and PTX compatibility; a and f mark what keeps to its card."""
    own, card = split(image.sm), split(compute)
    if image.sm.endswith("a"):
        return own == card
    if image.kind == "ptx" and not image.sm.endswith("f"):
        return own <= card
    return own[0] == card[0] and own[1] <= card[1]


def split(sm: str) -> tuple[int, int]:
    """120a → (12, 0)."""
    number = int(sm.rstrip("af"))
    return number // 10, number % 10


def listed(images: Iterable[Image]) -> str:
    kinds = sorted({f"{'PTX' if each.kind == 'ptx' else 'sm'}_{each.sm}" for each in images})
    return " ".join(kinds) or "none"


def speaks_of_one_cuda(artifact: Artifact, target: Target) -> Iterator[Finding]:
    """CUDA's libraries, requirements and label have one major version; the driver is new enough.

    A wheel that says cu12 and needs libcudart.so.13 finds no library. The driver floor follows
    from the GPU code: any driver of the major version for machine code; that of CUDA 12.4 on for
    compressed images; for PTX, the driver of the very toolkit that wrote it. With an older one the
    GPU is found and the model loads, then "device kernel image is invalid".
    """
    claims = majors(artifact)
    if len(set(claims.values())) > 1:
        told = ", ".join(f"{who} says {major}" for who, major in sorted(claims.items()))
        yield finding("CUDA002", f"two versions of CUDA: {told}", "build with one toolkit only")
    gpu = target.host.gpu if target.host else None
    floor = driver_floor(artifact, gpu.compute if gpu else None)
    if gpu and floor and numeric(floor.driver) > numeric(gpu.driver):
        message = f"needs driver {floor.driver}, {target.name} has {gpu.driver}: {floor.reason}"
        yield finding("CUDA002", message, "update the driver, or build with an older toolkit")


def majors(artifact: Artifact) -> dict[str, int]:
    """Who names which CUDA major version."""
    found = {}
    for file in artifact.files:
        for needed in file.native.needed:
            if (major := cuda_major(needed)) is not None:
                found[needed] = major
        for image in file.images:
            if image.toolkit:
                found[f"GPU code of release {image.toolkit}"] = int(image.toolkit.split(".")[0])
    if wheel := artifact.contents.wheel:
        found.update(wheel_majors(wheel))
    return found


def wheel_majors(wheel: WheelFacts) -> Iterator[tuple[str, int]]:
    """What requirements and the label in the version say."""
    for line in wheel.requires:
        if match := CU_SUFFIX.match(line):
            yield match[0], int(match[1])
    if label := LABEL.search(wheel.version.partition("+")[2]):
        yield f"the label {label[0]}", int(label[1])


def driver_floor(artifact: Artifact, compute: str | None) -> Floor | None:
    """The lowest driver with which every file's GPU code runs; None without GPU code.

    With a card given, a file's PTX counts only where it has no machine code for it.
    """
    floors = [
        floor
        for file in artifact.files
        if file.images
        for floor in floors_of(used_images(file.images, compute), artifact)
    ]
    return max(floors, key=lambda floor: numeric(floor.driver), default=None)


def used_images(images: tuple[Image, ...], compute: str | None) -> tuple[Image, ...]:
    """What a driver would take: machine code if there is any that runs, else PTX."""
    fitting = [each for each in images if compute is None or runs_on(each, compute)]
    cubins = tuple(each for each in fitting if each.kind == "cubin")
    return cubins or tuple(fitting)


def floors_of(images: tuple[Image, ...], artifact: Artifact) -> Iterator[Floor]:
    for image in images:
        release = release_of_ptx(image.version) or image.toolkit
        if image.kind == "cubin":
            yield from machine_code_floors(image, artifact)
        elif release and release in RELEASES:
            yield Floor(
                driver=RELEASES[release].driver,
                reason=f"PTX {image.version} of CUDA {release}, without machine code for the card",
            )


def machine_code_floors(image: Image, artifact: Artifact) -> Iterator[Floor]:
    """By its own toolkit's major version, or what the artifact says of it."""
    said = image.toolkit.split(".")[0] if image.toolkit else 0
    major = int(said) or max(majors(artifact).values(), default=0)
    if major in MAJOR_DRIVERS:
        yield Floor(driver=MAJOR_DRIVERS[major], reason=f"machine code of CUDA {major}")
    if image.compressed:
        reason = "compressed machine code, which older drivers cannot unpack"
        yield Floor(driver=COMPRESSED_DRIVER, reason=reason)


def finding(check: str, message: str, remedy: str, file: File | None = None) -> Finding:
    return Finding(
        check=check,
        standing="refused",
        message=message,
        remedy=remedy,
        file=file.member.name if file else None,
    )
