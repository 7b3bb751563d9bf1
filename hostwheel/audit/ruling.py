"""What to make of a feature that the host lacks: refused, excused, or not decided; and why."""

from dataclasses import dataclass

from hostwheel.artifact.facts import Artifact, Code, File, Spot
from hostwheel.audit.family import isa_relatives
from hostwheel.audit.result import Standing
from hostwheel.audit.target import Target
from hostwheel.facts.dispatched import known_dispatch
from hostwheel.facts.isa import beyond

SEVERAL = 3  # hits outside any function, where bytes that are no code lie among the code

SCORE = "ggml_backend_score"  # only variants export it: ggml asks it before it takes one
PLAIN_BACKEND = "ggml_backend_cpu_reg"


@dataclass(frozen=True, kw_only=True, slots=True)
class Ruling:
    """What was decided about one place, and why."""

    standing: Standing
    reason: str


@dataclass(frozen=True, kw_only=True, slots=True)
class Question:
    """A feature that a file uses and the target lacks.

    `backend` is SCORE or PLAIN_BACKEND where the file exports it; `relatives` are the files that
    differ from it by an instruction set in their names.
    """

    artifact: Artifact
    target: Target
    file: File
    code: Code
    feature: str
    backend: str | None
    relatives: tuple[str, ...]


def question(artifact: Artifact, target: Target, file: File, code: Code, feature: str) -> Question:
    """What holds for all places of a file is looked up once: there may be 100,000 of them."""
    exported = (each for each in (SCORE, PLAIN_BACKEND) if each in file.native.exports)
    return Question(
        artifact=artifact,
        target=target,
        file=file,
        code=code,
        feature=feature,
        backend=next(exported, None),
        relatives=isa_relatives(base(file), map(base, artifact.files)),
    )


def base(file: File) -> str:
    return file.member.name.rpartition("/")[2]


def ruling(question: Question, spot: Spot) -> Ruling:
    """The first rule that has something to say decides."""
    rules = (by_variants, by_evidence, by_list, by_plain_backend, by_family, by_load, by_silence)
    for rule in rules:
        if ruled := rule(question, spot):
            return ruled
    return Ruling(
        standing="undecided",
        reason="the file asks the CPU somewhere; whether before this function is not proved",
    )


def by_list(question: Question, spot: Spot) -> Ruling | None:
    entry = known_dispatch(base(question.file), question.feature, spot.function)
    if entry is None:
        return None
    return Ruling(standing="dismissed" if entry.decided else "undecided", reason=entry.reason)


def by_variants(question: Question, spot: Spot) -> Ruling | None:
    """ggml loads the variant that scores highest; one that the CPU cannot run scores nothing."""
    if question.backend != SCORE:
        return None
    if spot.evidence is None and spot.function:
        reason = "it runs while ggml loads the file, before it asks for the score"
        return Ruling(standing="refused", reason=reason)
    for other in question.artifact.files:
        if SCORE in other.native.exports and runs(other, question.target):
            reason = f"ggml asks its score before it takes it, and takes {base(other)} here"
            return Ruling(standing="dismissed", reason=reason)
    return Ruling(standing="refused", reason="no ggml CPU variant in here runs on this CPU")


def runs(file: File, target: Target) -> bool:
    """Whether a variant needs nothing beyond the host."""
    if file.code is None or target.host is None:
        return False
    return not beyond(file.code.used, target.host.cpu.features)


def by_evidence(question: Question, spot: Spot) -> Ruling | None:
    evidence = spot.evidence
    return Ruling(standing="dismissed", reason=evidence) if evidence else None


def by_plain_backend(question: Question, spot: Spot) -> Ruling | None:
    """ggml's CPU backend, where it is no variant, compiles each kernel once and calls it directly:
    its only questions to the CPU (ggml_cpu_has_…) are answered by the compiler."""
    if question.backend != PLAIN_BACKEND:
        return None
    return unless_doubtful(
        question, spot, "ggml's plain CPU backend calls its kernels without asking the CPU"
    )


def by_family(question: Question, spot: Spot) -> Ruling | None:
    """Libraries such as libmkl_avx2 and libmkl_avx512 are loaded by somebody who asked."""
    if not question.relatives:
        return None
    named = ", ".join(question.relatives[:3])
    reason = f"its name and that of {named} differ by an instruction set: one may be chosen"
    return Ruling(standing="undecided", reason=reason)


def by_load(question: Question, spot: Spot) -> Ruling | None:
    """A constructor that comes to it without a branch, a call or a question before."""
    if not spot.at_load:
        return None
    return Ruling(standing="refused", reason="it runs while the file is loaded, without a question")


def by_silence(question: Question, spot: Spot) -> Ruling | None:
    if question.code.asks:
        return None
    return unless_doubtful(question, spot, "nothing in this file asks the CPU what it can do")


def unless_doubtful(question: Question, spot: Spot, reason: str) -> Ruling:
    """A hit or two outside any function, among bytes that decode to nothing, may be data."""
    if spot.function is None and question.code.invalid and spot.count < SEVERAL:
        doubt = "so few instructions outside any known function may be data among the code"
        return Ruling(standing="undecided", reason=doubt)
    return Ruling(standing="refused", reason=reason)
