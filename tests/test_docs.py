"""The documentation: it builds strictly and without network, its links hold, and what it says of
commands and checks is what they are."""

import re
import runpy
import shlex
import shutil
import subprocess
import sys
from html import unescape
from pathlib import Path
from typing import Any

import pytest

from hostwheel.__main__ import main
from hostwheel.audit.checks import CHECKS
from hostwheel.user.carried import installer
from tests.chromium import chromium
from tests.plans import ROOT

DOCS = ROOT / "docs"
TUTORIAL = DOCS / "tutorial.md"
QUOTES = {0x201C: '"', 0x201D: '"', 0x2019: "'"}  # Sphinx makes curly ones


def sphinx(source: Path, out: Path) -> "subprocess.CompletedProcess[str]":
    """As the session `docs` of the noxfile builds."""
    strict = ("--fail-on-warning", "--nitpicky", "-q")
    argv = (sys.executable, "-m", "sphinx", *strict, str(source), str(out))
    return subprocess.run(argv, capture_output=True, text=True)


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("docs")
    done = sphinx(DOCS, out)
    assert done.returncode == 0, done.stdout + done.stderr
    return out


def problems(folder: Path) -> list[str]:
    return list(runpy.run_path(str(DOCS / "links.py"))["problems"](folder))


@pytest.fixture(scope="module")
def generated() -> dict[str, Any]:
    return runpy.run_path(str(DOCS / "generated.py"))


def text(page: Path) -> str:
    """What a page shows, on one line."""
    shown = unescape(re.sub(r"<[^>]+>", "", page.read_text()))
    return " ".join(shown.translate(QUOTES).split())


def test_nox_builds_as_these_tests_do() -> None:
    noxfile = (ROOT / "noxfile.py").read_text()
    assert '"sphinx-build", "--fail-on-warning", "--nitpicky", "-q", "docs", "dist/docs"' in noxfile
    assert '"docs/links.py", "dist/docs"' in noxfile


def test_every_link_holds_and_nothing_is_loaded_from_elsewhere(site: Path) -> None:
    assert len(list(site.glob("*.html"))) >= len(list(DOCS.glob("*.md")))
    assert problems(site) == []


def test_every_check_is_explained_as_the_audit_does(site: Path) -> None:
    shown = text(site / "checks.html")
    assert len(CHECKS) >= 9
    for check in CHECKS:
        assert f'id="{check.id.lower()}"' in (site / "checks.html").read_text()
        assert check.title in shown
        assert " ".join(check.reason.replace("`", "").split()) in shown


def test_what_the_pages_show_of_a_command_is_what_it_takes(
    generated: dict[str, Any], capsys: pytest.CaptureFixture[str]
) -> None:
    """Commands and options."""
    seen = 0
    for page, line in generated["command_lines"]():
        for command in generated["COMMAND"].findall(line):
            seen += 1
            with pytest.raises(SystemExit):
                main([command, "--help"])
            help_text = capsys.readouterr().out
            options = [word for word in shlex.split(line) if word.startswith("--")]
            assert all(f"{option} " in help_text for option in options), (page, line, help_text)
    assert seen >= 4


@pytest.mark.parametrize(
    "body", ["```sh\nuvx hostwheel pikc URL\n```\n", "`hostwheel pikc` names the build.\n"]
)
def test_a_command_that_is_not_there_fails_the_build(body: str, tmp_path: Path) -> None:
    said: list[tuple[bool, bool]] = []
    for text in (body, body.replace("pikc", "pick")):
        folder = alone(tmp_path / str(len(said)), f"# Title\n\n{text}")
        done = sphinx(folder, folder / "out")
        said.append((done.returncode != 0, "index.md has `hostwheel pikc`" in done.stderr))
    assert said == [(True, True), (False, False)]


def test_nox_sessions_in_the_pages_are_there(generated: dict[str, Any]) -> None:
    listed = (sys.executable, "-m", "nox", "-l", "--no-color")
    said = subprocess.run(listed, capture_output=True, text=True, check=True, cwd=ROOT).stdout
    sessions = set(re.findall(r"^[-*] (\w+)", said, re.MULTILINE))
    used = {
        name
        for _, line in generated["command_lines"]()
        for name in re.findall(r"nox -s (\w+)", line)
    }
    assert "build_a10g" in used
    own = {"build_lab_server"}  # of the recipe that the page has the reader write
    assert used - own <= sessions


def test_install_py_takes_what_the_tutorial_gives_it() -> None:
    lines = re.findall(
        r"^python\S* submission/install\.py(.*)$", TUTORIAL.read_text(), re.MULTILINE
    )
    assert len(lines) == 1
    asked = installer.parser().parse_args(shlex.split(lines[0]))
    assert (TUTORIAL.read_text().count(f"\n{asked.venv}/run-server.sh"), asked.target) == (1, None)


def test_a_warning_fails_the_build(tmp_path: Path) -> None:
    folder = alone(tmp_path / "docs", "# Title\n\n[gone](gone.md)\n")
    done = sphinx(folder, folder / "out")
    assert done.returncode != 0
    assert "gone.md" in done.stderr


def alone(folder: Path, text: str) -> Path:
    """A documentation of one page."""
    folder.mkdir()
    for name in ("conf.py", "generated.py"):
        shutil.copy(DOCS / name, folder)
    (folder / "index.md").write_text(text)
    return folder


@pytest.mark.parametrize(
    ("body", "said"),
    [
        ('<a href="other.html#here">', []),
        ('<a href="https://example.org/">', []),
        ('<a href="gone.html">', ["index.html links to gone.html: there is no such file"]),
        ('<a href="other.html#x">', ["index.html links to other.html#x: other.html has no #x"]),
        ('<a href="#x">', ["index.html links to #x: index.html has no #x"]),
        (
            '<script src="https://example.org/x.js">',
            [
                "index.html loads https://example.org/x.js; a page has to hold without network",
            ],
        ),
        ('<img src="gone.png">', ["index.html links to gone.png: there is no such file"]),
    ],
)
def test_links_are_looked_at(body: str, said: list[str], tmp_path: Path) -> None:
    (tmp_path / "index.html").write_text(f"<p>{body}</p>")
    (tmp_path / "other.html").write_text('<h1 id="here"></h1>')
    assert problems(tmp_path) == said


def test_a_folder_without_pages_is_a_problem(tmp_path: Path) -> None:
    (said,) = problems(tmp_path)
    assert "no page in it" in said


def test_a_browser_needs_nothing_else_and_no_page_is_wider_than_the_screen(
    site: Path, tmp_path: Path
) -> None:
    pages = sorted(site.glob("*.html"))
    with chromium(tmp_path) as tab:
        for width in (390, 820, 1400):
            for page in pages:
                tab.open(page, width=width)
                assert tab.ask("document.documentElement.scrollWidth") == width, page
                assert all(url.startswith(("file:", "data:")) for url in tab.requested()), page
                assert tab.complaints() == [], page


def test_costs_are_the_arithmetic_that_the_page_describes() -> None:
    costs = runpy.run_path(str(ROOT / "bench" / "costs.py"))
    each = costs["Figures"](
        gpu_cold=1000,
        cpu_cold=100,
        one_card=500,
        one_set=10,
        gpu_warm=20,
        cpu_warm=5,
        gpu_bytes=40,
        cpu_bytes=10,
        smoke=60,
    )
    shape = costs["Shape"](name="six", gpu=4, cpu=2, cards=2, sets=3)
    assert costs["apart"](each, shape) == 4 * 1000 + 2 * 100
    assert costs["shared"](each, shape) == 100 + 2 * 500 + 2 * 10 + 4 * 20 + 2 * 5


def test_costs_are_those_of_the_measured_builds(site: Path) -> None:
    costs = runpy.run_path(str(ROOT / "bench" / "costs.py"))
    each = costs["figures"]()
    assert 1000 < each.gpu_cold < 4000
    assert each.gpu_warm < each.one_card < each.gpu_cold
    assert each.cpu_warm < each.one_set < each.cpu_cold
    for line in costs["table"]():
        for cell in line.strip("| ").split(" | "):
            assert cell.strip("-") in text(site / "scaling.html")
