"""What takes up the room in an artifact: its members as a treemap (SVG), folder by folder."""

from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import PurePosixPath

from hostwheel.audit.markup import amount, file_name, folded, several, shown, table
from hostwheel.audit.result import Report
from hostwheel.audit.treemap import Rect, squarified

Members = Sequence[tuple[str, int, int | None]]

# Text keeps its size where the drawing is scaled little: one drawing for each width of screen.
DRAWINGS = (("small", 380, 520), ("middle", 700, 480), ("large", 1120, 520))  # pixels
HEAD, GAP, LINE = 20, 3, 15
LETTER, WIDE_LETTER = 6.7, 13  # of a monospaced font of 11 pixels, whichever it is
LEAST_CELL, LEAST_FOLDER = 800, 4500  # square pixels
FEWEST_LETTERS = 10
LISTED = 50
KINDS = (
    ("refused", "native code with a refusal"),
    ("native", "native code"),
    ("python", "Python"),
    ("other", "anything else"),
)


@dataclass(frozen=True, kw_only=True, slots=True)
class Cell:
    """A file or several small ones: what is written on it, and said when it is pointed at."""

    label: str
    said: str
    kind: str
    size: int


@dataclass(frozen=True, kw_only=True, slots=True)
class Folder:
    name: str
    cells: tuple[Cell, ...]

    @property
    def size(self) -> int:
        return sum(cell.size for cell in self.cells)


def size_map(report: Report) -> str:
    total = sum(size for _, size, _ in report.members)
    if not total:
        return "<p>There is nothing in it that takes up room.</p>"
    folders = by_folder(report, total)
    drawings = "\n".join(drawing(folders, *each) for each in DRAWINGS)
    kinds = {cell.kind for folder in folders for cell in folder.cells}
    return f"{drawings}\n{legend(kinds)}\n{listing(report.members, total)}"


def by_folder(report: Report, total: int) -> tuple[Folder, ...]:
    native = {file.name for file in report.files}
    refused = {finding.file for finding in report.findings if finding.standing == "refused"}
    cells: dict[str, list[Cell]] = {}
    for name, size, packed in report.members:
        path = PurePosixPath(name)
        kind = "refused" if name in refused & native else kind_of(name, native)
        said = f"{name}: {measures(size, packed, total)}, {dict(KINDS)[kind]}"
        cell = Cell(label=path.name, said=said, kind=kind, size=size)
        cells.setdefault(str(path.parent), []).append(cell)
    folders = (Folder(name=name, cells=largest_first(each)) for name, each in cells.items())
    return tuple(sorted(folders, key=lambda folder: (-folder.size, folder.name)))


def kind_of(name: str, native: Collection[str]) -> str:
    if name in native:
        return "native"
    return "python" if name.endswith((".py", ".pyi")) else "other"


def measures(size: int, packed: int | None, total: int) -> str:
    inside = "" if packed is None else f" ({amount(packed)} packed)"
    return f"{amount(size)}{inside}, {size / total:.1%}"


def largest_first(cells: Iterable[Cell]) -> tuple[Cell, ...]:
    return tuple(sorted(cells, key=lambda cell: (-cell.size, cell.label)))


def drawing(folders: Sequence[Folder], name: str, width: int, height: int) -> str:
    """An SVG that is shown on screens of one width; see the page's style."""
    box = Rect(x=0, y=0, width=width, height=height)
    total = sum(folder.size for folder in folders)
    kept = kept_folders(folders, total * LEAST_FOLDER / box.area)
    places = squarified([folder.size for folder in kept], box)
    inside = "\n".join(
        drawn_folder(folder, place) for folder, place in zip(kept, places, strict=True)
    )
    label = f"{amount(total)} by folder and file; the table below says the same"
    return (
        f'<svg class="map {name}" role="img" aria-label="{label}" '
        f'viewBox="0 0 {width} {height}">\n{inside}\n</svg>'
    )


def kept_folders(folders: Sequence[Folder], least: float) -> tuple[Folder, ...]:
    """Folders of at least `least` bytes, the others as one, where they would be too small."""
    large = [folder for folder in folders if folder.size >= least]
    small = [folder for folder in folders if 0 < folder.size < least]
    cells = largest_first(cell for folder in small for cell in folder.cells)
    rest = [Folder(name="others", cells=cells)] if small else []
    return tuple(sorted((*large, *rest), key=lambda folder: (-folder.size, folder.name)))


def kept_cells(cells: Sequence[Cell], least: float) -> tuple[Cell, ...]:
    """Cells of at least `least` bytes, the others as one."""
    small = [cell for cell in cells if 0 < cell.size < least]
    if len(small) < 2:
        return tuple(cell for cell in cells if cell.size)
    size = sum(cell.size for cell in small)
    label = f"{len(small):,} smaller files"
    kind = common({cell.kind for cell in small})
    said = f"{label}: {amount(size)}, {dict(KINDS)[kind]}"
    rest = Cell(label=label, said=said, kind=kind, size=size)
    return largest_first((*(cell for cell in cells if cell.size >= least), rest))


def common(kinds: Collection[str]) -> str:
    """What to draw several files as; a refusal among them is not hidden."""
    if "refused" in kinds:
        return "refused"
    return min(kinds) if len(kinds) == 1 else "other"


def drawn_folder(folder: Folder, place: Rect) -> str:
    """A frame with the folder's name on top, where it has the height, and its files below."""
    head = HEAD if place.height >= 2 * HEAD else GAP
    room = Rect(
        x=place.x + GAP,
        y=place.y + head,
        width=max(place.width - 2 * GAP, 0),
        height=max(place.height - head - GAP, 0),
    )
    cells = kept_cells(folder.cells, folder.size * LEAST_CELL / max(room.area, LEAST_CELL))
    name = "top folder" if folder.name == "." else folder.name
    label = fitted_end(name, place.width) if head == HEAD else ""
    said = f"{name}: {several(len(folder.cells), 'file')}, {amount(folder.size)}"
    places = squarified([cell.size for cell in cells], room)
    inside = "".join(drawn_cell(cell, at) for cell, at in zip(cells, places, strict=True))
    return (
        f"<g><title>{shown(said)}</title>{rectangle(place, 'folder')}"
        f"{text(place, 14, label)}</g>\n{inside}"
    )


def drawn_cell(cell: Cell, place: Rect) -> str:
    label = fitted(cell.label, place.width) if place.height >= LINE + 3 else ""
    size = amount(cell.size)
    fits = place.height >= 2 * LINE + 4 and len(size) <= letters(size, place.width)
    return (
        f"<g><title>{shown(cell.said)}</title>{rectangle(place, cell.kind)}"
        f"{text(place, LINE, label)}{text(place, 2 * LINE, size if label and fits else '')}</g>\n"
    )


def rectangle(place: Rect, kind: str) -> str:
    return (
        f'<rect class="{kind}" x="{place.x:.1f}" y="{place.y:.1f}" '
        f'width="{place.width:.1f}" height="{place.height:.1f}"/>'
    )


def text(place: Rect, down: int, label: str) -> str:
    if not label:
        return ""
    return f'<text x="{place.x + 5:.1f}" y="{place.y + down:.1f}">{shown(label)}</text>'


def fitted(label: str, width: float) -> str:
    """As much of the beginning as `width` pixels hold; nothing where that says nothing."""
    room = letters(label, width)
    if len(label) <= room:
        return label
    return f"{label[: room - 1]}…" if room >= FEWEST_LETTERS else ""


def fitted_end(label: str, width: float) -> str:
    """The same of its end, which is what tells folders apart."""
    room = letters(label, width)
    if len(label) <= room:
        return label
    return f"…{label[1 - room :]}" if room >= FEWEST_LETTERS else ""


def letters(label: str, width: float) -> int:
    return int((width - 10) / (LETTER if label.isascii() else WIDE_LETTER))


def legend(kinds: Collection[str]) -> str:
    known = (each for each in KINDS if each[0] in kinds)
    return f'<p class="legend">{" ".join(swatches(known))}</p>'


def swatches(kinds: Iterable[tuple[str, str]]) -> Iterator[str]:
    for kind, meaning in kinds:
        square = f'<svg class="key" aria-hidden="true"><rect class="{kind}"/></svg>'
        yield f"<span>{square} {meaning}</span>"


def listing(members: Members, total: int) -> str:
    ordered = sorted(members, key=lambda member: (-member[1], member[0]))
    rows = (
        (
            file_name(name),
            amount(size),
            "" if packed is None else amount(packed),
            f"{size / total:.1%}",
        )
        for name, size, packed in ordered[:LISTED]
    )
    rest = ordered[LISTED:]
    made = table("Files by size", ("File", "Size", "Packed", "Share"), rows, "numbers")
    if rest:
        made += (
            f"<p>and {several(len(rest), 'smaller file')}, {amount(sum(m[1] for m in rest))}.</p>"
        )
    return folded(f"{several(len(ordered), 'file')} as a table", made)
