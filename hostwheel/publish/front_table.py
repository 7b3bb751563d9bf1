"""The builds of a version as a table. What comes from the catalog goes in through `text`."""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from html import escape

from hostwheel.audit.markup import amount, shown
from hostwheel.publish.catalog import Entry
from hostwheel.publish.front_builds import Build, Release, anchor, cpu_label, lowest_glibc
from hostwheel.publish.links import project_of, relative

HEADS = ("Host", "CPU", "GPU", "CUDA", "Driver", "glibc", "Size", "Evidence")

# In this order. Evidence of another name stands after them, under its name.
EVIDENCE: Mapping[str, str] = {
    "audit.html": "audit",
    "smoke.json": "smoke tests",
    "build.json": "build",
    "statement.json": "statement",
    "audit.json": "",  # the page says the same
}


def text(words: str) -> str:
    """As `shown`, and much faster for what has nothing to be made visible: ten thousand builds."""
    return escape(words) if words.isprintable() else shown(words)


def table(release: Release, depth: int) -> str:
    """`depth` is how many folders the page lies below the bucket's root."""
    head = "".join(f'<th scope="col">{name}</th>' for name in HEADS)
    bodies = "\n".join(body(build, depth) for build in release.builds)
    version = text(release.version)
    return (
        f'<table class="builds" id="v{version}">'
        f"<caption>Builds of {version}, the fastest first</caption>\n"
        f"<thead><tr>{head}</tr></thead>\n{bodies}</table>"
    )


def body(build: Build, depth: int) -> str:
    """A row of facts, and one that unfolds."""
    entry = build.entry
    gone = ' class="gone"' if entry.yanked is not None else ""
    return (
        f'<tbody id="{text(anchor(entry))}"{gone}>\n'
        f'<tr><th scope="row"><b>{text(entry.recipe)}</b>{withdrawn(entry)}'
        f"<small>{text(entry.title)}</small></th><td>{text(cpu_label(entry).replace('.', ' '))}"
        f"</td>{needed(entry)}<td>{amount(entry.size)}</td>"
        f"<td>{' '.join(evidence(entry, depth))}</td></tr>\n"
        f'<tr class="more"><td colspan="{len(HEADS)}"><details><summary>{summary(entry)}'
        f'<span class="unseen">: {text(entry.recipe)} {text(entry.version)}</span></summary>\n'
        f"{''.join(more(build, depth))}</details></td></tr></tbody>"
    )


def withdrawn(entry: Entry) -> str:
    if entry.yanked is None:
        return ""
    reason = f": {text(entry.yanked)}" if entry.yanked else ""
    return f'<span class="bad">withdrawn{reason}</span>'


def summary(entry: Entry) -> str:
    return "Install" if can_install(entry) else "Files"


def can_install(entry: Entry) -> bool:
    return entry.kind == "wheel" and entry.yanked is None


def needed(entry: Entry) -> str:
    needs = entry.needs
    gpu = f"sm_{needs.architecture}" if needs.architecture else None
    cells = (gpu, needs.cuda, needs.driver, lowest_glibc(entry))
    return "".join(f"<td>{NOTHING if cell is None else text(cell)}</td>" for cell in cells)


NOTHING = '<span aria-hidden="true">&ndash;</span><span class="unseen">none</span>'


def evidence(entry: Entry, depth: int) -> Iterator[str]:
    others = {name: name for name in entry.evidence if name not in EVIDENCE}
    for name, words in {**EVIDENCE, **others}.items():
        if words and name in entry.evidence:
            yield link(relative(entry.evidence[name], name, depth), words)


def link(path: str, words: str) -> str:
    """A path as `relative` gives it has nothing that HTML would take for its own."""
    return f'<a href="{path}">{text(words)}</a>'


def more(build: Build, depth: int) -> Iterator[str]:
    entry, path = build.entry, relative(build.entry.sha256, build.entry.filename, 0)
    if can_install(entry):
        yield from commands(entry, path)
    yield f"<dl>{fact('Version', text(entry.version))}"
    yield fact("CPU features", text(" ".join(entry.needs.features)) or "none beyond x86-64")
    yield fact("libstdc++", f"GLIBCXX_{text(entry.needs.glibcxx)} or newer")
    if entry.requires_python:
        yield fact("Python", text(entry.requires_python))
    yield fact("Published", text(entry.uploaded))
    yield fact(entry.kind.capitalize(), file(entry, "../" * depth + path))
    for each in build.archives:
        own = replace(each, evidence=dict(each.evidence.items() - entry.evidence.items()))
        needs = f"glibc {text(lowest_glibc(each))} or newer"
        told = ", ".join((needs, *evidence(own, depth)))
        yield fact("Archive", file(each, relative(each.sha256, each.filename, depth), told))
    yield "</dl>"


def commands(entry: Entry, path: str) -> Iterator[str]:
    """Beside PyPI, which has the dependencies and never a version with a label.

    The last line is for who wants these very bytes, as `hostwheel pick` gives them.
    """
    wanted = f"{project_of(entry.filename)}=={text(entry.version)}"
    exact = f"{project_of(entry.filename)} @ {URL}{path}#sha256={text(entry.sha256)}"
    yield command("pip", f"pip install --extra-index-url {URL}simple/ {wanted}")
    yield command("uv", f"uv pip install --index {URL}simple/ {wanted}")
    yield command("requirements.txt, by hash", exact)


URL = "<var>URL/</var>"


def command(name: str, line: str) -> str:
    return f'<p class="name">{name}</p><pre class="command"><code>{line}</code></pre>\n'


def fact(name: str, value: str) -> str:
    return f"<div><dt>{name}</dt><dd>{value}</dd></div>"


def file(entry: Entry, path: str, more: str = "") -> str:
    told = f"{amount(entry.size)}, {more}" if more else amount(entry.size)
    return f"{link(path, entry.filename)} ({told})<br><small>sha256 {text(entry.sha256)}</small>"
