"""CPU features by library as an HTML table, coloured by the order of magnitude of the count."""

from collections.abc import Collection, Iterator, Sequence

from hostwheel.audit.markup import file_name, scrolling, several, shown
from hostwheel.audit.result import FileReport, Report

# Oldest first, as the levels of x86-64 came; what begins alike stands together.
ORDER = (
    *("cx16", "sse3", "ssse3", "sse4_1", "sse4_2", "popcnt", "sse4a", "aes", "pclmulqdq"),
    *("movbe", "bmi1", "bmi2", "abm", "adx", "rd", "sha", "xsave"),
    *("avx", "f16c", "fma", "fma4", "xop", "avx2", "vaes", "vpclmulqdq", "gfni", "avx_"),
    *("avx512f", "avx512cd", "avx512bw", "avx512dq", "avx512vl", "avx512_vnni", "avx512"),
    *("avx10", "amx_tile", "amx"),
)
LEVELS = 6
MOST_ROWS = 60

Refusals = Collection[tuple[str | None, str | None]]


def by_age(feature: str) -> tuple[bool, int, str]:
    """Sorts as in ORDER: by the longest beginning that is in it; unknown ones come first."""
    known = [name for name in ORDER if feature == name or feature.startswith(name)]
    best = max(known, key=len, default="")
    return bool(best), ORDER.index(best) if best else 0, feature


def heat_map(report: Report) -> str:
    """The files with a refusal first, then those with the most instructions."""
    refused = refusals(report)
    bad = {file for file, _ in refused}
    rows = sorted(
        (file for file in report.files if file.features),
        key=lambda file: (file.name not in bad, -sum(file.features.values()), file.name),
    )
    plain = len(report.files) - len(rows)
    if not rows:
        return f"<p>{nothing_found(report)}</p>"
    drawn = drawn_table(rows[:MOST_ROWS], refused)
    left = len(rows) - MOST_ROWS
    notes = [f"{several(left, 'file')} with fewer instructions are left out"] if left > 0 else []
    notes += [f"{several(plain, 'other file')}: nothing beyond plain x86-64"] if plain else []
    return drawn + legend() + "".join(f"<p>{note}.</p>" for note in notes)


def nothing_found(report: Report) -> str:
    if report.files:
        return "No instruction goes beyond what every x86-64 CPU has."
    return "There is no native code in it."


def refusals(report: Report) -> Refusals:
    """(file, feature) of what was refused."""
    return {
        (finding.file, finding.feature)
        for finding in report.findings
        if finding.standing == "refused" and finding.feature
    }


def drawn_table(rows: Sequence[FileReport], refused: Refusals) -> str:
    features = sorted({feature for file in rows for feature in file.features}, key=by_age)
    bad = {feature for _, feature in refused}
    head = "".join(
        f'<th scope="col"{" class=bad" if feature in bad else ""}>'
        f"<span>{'✗ ' if feature in bad else ''}{shown(feature)}</span></th>"
        for feature in features
    )
    body = "\n".join(row(file, features, refused) for file in rows)
    caption = "Instructions beyond plain x86-64, by file and CPU feature"
    return scrolling(
        caption,
        f'<table class="heat"><caption>{caption}</caption>\n'
        f'<thead><tr><th scope="col">File</th>{head}</tr></thead>\n<tbody>{body}</tbody></table>',
    )


def row(file: FileReport, features: Sequence[str], refused: Refusals) -> str:
    counts = "".join(cells(file, features, refused))
    return f'<tr><th scope="row">{file_name(file.name)}</th>{counts}</tr>'


def cells(file: FileReport, features: Sequence[str], refused: Refusals) -> Iterator[str]:
    for feature in features:
        count = file.features.get(feature, 0)
        bad = (file.name, feature) in refused
        said = f"{shown(feature)}: {several(count, 'instruction')}{', refused' if bad else ''}"
        mark = '<b aria-label="refused">✗</b> ' if bad else ""
        classes = f"h{level(count)}{' bad' if bad else ''}"
        yield (
            f'<td class="{classes}" title="{said}">{mark}{short(count)}</td>'
            if count
            else "<td></td>"
        )


def level(count: int) -> int:
    """1 for up to 9, 2 for up to 99, …, LEVELS for all above."""
    return min(len(str(count)), LEVELS)


def short(count: int) -> str:
    """Four characters at most: 999, 1.2k, 34k, 5.6M."""
    for power, letter in ((1_000_000, "M"), (1_000, "k")):
        if count >= power:
            return (
                f"{count / power:.1f}{letter}"
                if count < 9.95 * power
                else f"{count // power}{letter}"
            )
    return str(count)


def legend() -> str:
    steps = ((10**n, f"h{n + 1}") for n in range(LEVELS))
    boxes = "".join(f'<span class="{css}">{short(least)}</span>' for least, css in steps)
    return f'<p class="legend">Instructions from {boxes} on; ✗ is refused.</p>'
