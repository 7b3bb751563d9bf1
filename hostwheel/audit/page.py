"""A Report as one HTML file that stands alone: nothing is loaded, no script runs."""

from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from string import Template

from hostwheel.artifact.facts import Image
from hostwheel.audit.cards import OPEN_QUESTIONS, findings
from hostwheel.audit.heat import heat_map
from hostwheel.audit.markup import (
    amount,
    bullets,
    code_list,
    file_name,
    folded,
    several,
    shown,
    table,
)
from hostwheel.audit.result import FileReport, Fit, Report, Verdict
from hostwheel.audit.sizemap import size_map
from hostwheel.errors import MachineLacks

PAGE = Path(__file__).parent / "template" / "audit.html"
MARKS = {"fits": "✓", "unfit": "✗", "undecided": "?", "none": "≡"}
MOST_OPEN = 15
MOST_NEEDED = 8
MOST_REASONS = 4


def write_page(report: Report, path: Path) -> None:
    """Write the page, whole or not at all; MachineLacks where that cannot be done."""
    fresh = path.with_name(f".{path.name}.new")
    text = page(report).encode()
    try:
        fresh.write_bytes(text)
        fresh.replace(path)
    except OSError as error:
        fresh.unlink(missing_ok=True)
        raise MachineLacks(
            f"cannot write {path}: {error.strerror}; name another folder, or make room"
        ) from None


def page(report: Report) -> str:
    return Template(PAGE.read_text(encoding="utf-8")).substitute(
        artifact=shown(report.artifact),
        tone=tone(report),
        mark=mark(report),
        verdict=verdict(report),
        facts="\n".join(facts(report)),
        findings=findings(report),
        fits=fit_table(report),
        sizes=size_map(report),
        features=heat_map(report),
        images=images(report),
        files=files(report),
        auditor=shown(report.auditor),
    )


def refused(report: Report) -> int:
    return sum(finding.standing == "refused" for finding in report.findings)


def tone(report: Report) -> str:
    """The colour of the verdict: of the worse of it and the findings."""
    if refused(report):
        return "unfit"
    return report.verdict or "none"


def mark(report: Report) -> str:
    return MARKS[tone(report)]


def verdict(report: Report) -> str:
    """One sentence, as HTML."""
    count = refused(report)
    match report.verdict:
        case "fits":
            but = f", but {several(count, 'finding')} {was(count)} refused" if count else ""
            return f"<b>Fits {host(report)}</b>{but}."
        case "unfit":
            why = f": {several(count, 'finding')} {was(count)} refused" if count else ""
            return f"<b>Does not fit {host(report)}</b>{why}."
        case "undecided":
            return f"<b>Not decided for {host(report)}</b>: {questions(report)}."
        case None:
            but = f", and {several(count, 'finding')} {was(count)} refused" if count else ""
            return f"<b>{some_hosts(report)}</b>{but}."


def questions(report: Report) -> str:
    """What stands between undecided and fits."""
    left = sum(finding.standing in OPEN_QUESTIONS for finding in report.findings)
    return f"{several(left, 'question')} left to the smoke test"


def was(count: int) -> str:
    return "was" if count == 1 else "were"


def host(report: Report) -> str:
    """The target with its title, where it is a known host and not a plan."""
    titles = (f" ({shown(fit.title)})" for fit in report.fits if fit.host == report.target)
    return shown(report.target or "") + next(titles, "")


def some_hosts(report: Report) -> str:
    if not report.fits:
        return "Compared with no host"
    counts = Counter(fit.verdict for fit in report.fits)
    open_too = f", not decided for {counts['undecided']}" if counts["undecided"] else ""
    return f"Fits {counts['fits']} of {several(len(report.fits), 'known host')}{open_too}"


def facts(report: Report) -> Iterator[str]:
    yield fact("Artifact", f"{shown(report.kind)}, {amount(report.size)}")
    yield fact("SHA-256", f"<code>{shown(report.sha256)}</code>" if report.sha256 else "a folder")
    yield fact("Held against", host(report) if report.target else "every known host")
    yield fact("NVIDIA driver", driver(report))


def fact(name: str, value: str) -> str:
    return f"<div><dt>{name}</dt><dd>{value}</dd></div>"


def driver(report: Report) -> str:
    if report.floor is None:
        images = any(file.images for file in report.files)
        return "not known: GPU code, but none that names a driver" if images else "none needed"
    return f"{shown(report.floor.driver)} or newer: {shown(report.floor.reason)}"


def fit_table(report: Report) -> str:
    rows = ((host_cell(fit, report), chip(fit.verdict), why(fit.reasons)) for fit in report.fits)
    heads = ("Host", "Verdict", "Why")
    if not report.fits:
        return "<p>It was compared with no host.</p>"
    return table("Whether it runs on each known host", heads, rows, "fits")


def why(reasons: Sequence[str]) -> str:
    """The first few, the others folded."""
    first, others = reasons[:MOST_REASONS], reasons[MOST_REASONS:]
    return bullets(first) + (folded(f"{len(others):,} more", bullets(others)) if others else "")


def host_cell(fit: Fit, report: Report) -> str:
    asked = ' <span class="chip">asked for</span>' if fit.host == report.target else ""
    return f"{shown(fit.host)}{asked}<small>{shown(fit.title)}</small>"


def chip(word: Verdict) -> str:
    said = "not decided" if word == "undecided" else word
    return f'<span class="verdict {word}"><b aria-hidden="true">{MARKS[word]}</b> {said}</span>'


def images(report: Report) -> str:
    rows = tuple(row for file in report.files for row in image_rows(file))
    if not rows:
        return "<p>There is no GPU code in it.</p>"
    heads = ("File", "Kind", "For", "Images", "Size", "Compressed", "Version", "Section")
    return few(
        table("CUDA images by file and architecture", heads, rows, "images"), len(rows), "row"
    )


def image_rows(file: FileReport) -> Iterator[tuple[str, ...]]:
    """Equal images as one row: a CUDA library has hundreds."""
    groups: dict[tuple[str, ...], list[Image]] = {}
    for image in file.images:
        packed = "yes" if image.compressed else "no"
        key = (image.kind, f"sm_{image.sm}", packed, image.version, image.section)
        groups.setdefault(key, []).append(image)
    for (kind, sm, packed, version, section), same in sorted(groups.items()):
        size = amount(sum(image.size for image in same))
        words = (kind, sm, f"{len(same):,}", size, packed, version, section)
        yield file_name(file.name), *(shown(word) for word in words)


def files(report: Report) -> str:
    if not report.files:
        return "<p>There is no native code in it.</p>"
    heads = ("File", "Format", "Size", "Instructions", "Needs", "Versions", "RUNPATH", "Build id")
    rows = (file_row(file) for file in report.files)
    return few(
        table("What the native files ask for", heads, rows, "files"), len(report.files), "file"
    )


def few(drawn: str, rows: int, what: str) -> str:
    """A table as it is; a long one folded."""
    return drawn if rows <= MOST_OPEN else folded(several(rows, what), drawn)


def file_row(file: FileReport) -> tuple[str, ...]:
    return (
        file_name(file.name),
        f"{shown(file.format)} {shown(file.machine)}",
        amount(file.size),
        "not read" if file.instructions is None else f"{file.instructions:,}",
        needed(file.needed),
        "<br>".join(f"{shown(name)} {shown(value)}" for name, value in file.versions.items()),
        code_list(file.runpath),
        build_id(file.build_id or ""),
    )


def build_id(whole: str) -> str:
    """Its beginning, which tells files apart, and all of it when pointed at."""
    return f'<code title="{shown(whole)}">{shown(whole[:12])}{"…" if whole[12:] else ""}</code>'


def needed(names: tuple[str, ...]) -> str:
    if len(names) <= MOST_NEEDED:
        return code_list(names)
    return folded(f"{len(names):,} libraries", code_list(names))
