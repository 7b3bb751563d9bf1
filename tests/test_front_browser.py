"""The page for people in a real browser: as it is seen, used and heard."""

import shlex
from collections import defaultdict
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from hostwheel.publish.catalog import Catalog
from hostwheel.publish.front import front
from tests.chromium import Tab, chromium
from tests.fronts import full, many, nasty, wheel
from tests.test_audit_browser import FAINT_TEXTS
from tests.users import RECIPES

WIDTHS = (390, 820, 1400)
UNFOLD = "document.querySelectorAll('details').forEach(each => { each.open = true; })"

# Texts that are cut off: wider than the box that hides what is too much.
CUT = """[...document.querySelectorAll('td, th, code, dd, p, li, summary, .copy')].filter(each =>
  each.scrollWidth > each.clientWidth + 1 && getComputedStyle(each).display !== 'inline'
  && !each.closest('.unseen, thead')).map(each => each.textContent.slice(0, 60))"""

# What is to be hit with a finger, and is lower or narrower than 24 pixels (WCAG 2.5.8).
SMALL = """[...document.querySelectorAll('a, button, summary, input, select, textarea')].filter(
  each => each.checkVisibility()
    && Math.min(each.getBoundingClientRect().width, each.getBoundingClientRect().height) < 24
  ).map(each => each.textContent)"""

# Put into a field, as a person would.
FILL = """((id, value) => {
  const field = document.getElementById(id);
  field.value = value;
  field.dispatchEvent(new Event('input', {bubbles: true}));
})"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A bucket with every recipe at two versions."""
    return written(full(), tmp_path_factory.mktemp("bucket"))


def written(catalog: Catalog, folder: Path) -> Path:
    for page in front(catalog):
        (folder / page.key).parent.mkdir(exist_ok=True)
        (folder / page.key).write_bytes(page.body)
    return folder


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Tab]:
    with chromium(tmp_path_factory.mktemp("chromium")) as tab:
        yield tab


@pytest.fixture
def tab(browser: Tab) -> Iterator[Tab]:
    yield browser
    browser.call("Emulation.setScriptExecutionDisabled", value=False)


def without_script(tab: Tab) -> Tab:
    """The page's own does not run; ours, through the pipe, does."""
    tab.call("Emulation.setScriptExecutionDisabled", value=True)
    return tab


def seen(tab: Tab, text: str) -> bool:
    return text in tab.ask("document.body.innerText")


def fill(tab: Tab, **fields: str) -> None:
    for name, value in fields.items():
        tab.ask(f"{FILL}({name!r}, {value!r})")


def result(tab: Tab) -> str:
    return str(tab.ask("document.getElementById('result').innerText"))


def heard(tab: Tab) -> Mapping[str, list[str]]:
    """Role → the names of all that a screen reader finds with it."""
    found = defaultdict(list)
    for each in tab.call("Accessibility.getFullAXTree")["nodes"]:
        if "name" in each:
            found[each["role"]["value"]].append(each["name"]["value"])
    return found


@pytest.mark.parametrize("script", [True, False])
@pytest.mark.parametrize("width", WIDTHS)
def test_it_loads_nothing_complains_of_nothing_and_scrolls_down_only(
    width: int, script: bool, tab: Tab, folder: Path
) -> None:
    if not script:
        without_script(tab)
    file = folder / "index.html"
    tab.open(file, width=width)
    assert tab.requested() == [file.as_uri()]
    assert tab.complaints() == []
    tab.ask(UNFOLD)
    assert tab.ask("document.documentElement.scrollWidth") == width
    assert tab.ask(CUT) == []
    assert tab.ask("document.getElementById('form').hidden") == (not script)


@pytest.mark.parametrize("width", [360, 1280])
def test_every_target_is_large_enough_for_a_finger(width: int, tab: Tab, tmp_path: Path) -> None:
    written(many(12), tmp_path)
    for name in ("index.html", "builds/0.3.0.html"):
        tab.open(tmp_path / name, width=width)
        tab.ask("document.getElementById('cpu')?.selectedIndex = 3")
        tab.ask(UNFOLD)
        assert tab.ask("document.querySelectorAll('a, summary').length") > 60
        assert tab.ask(SMALL) == []


def test_without_the_script_all_of_it_can_be_read(tab: Tab, folder: Path) -> None:
    without_script(tab).open(folder / "index.html", width=820)
    assert seen(tab, "pip install --extra-index-url") is False  # folded, until asked for
    tab.ask(UNFOLD)
    for recipe in RECIPES:
        assert seen(tab, recipe)
    assert seen(tab, "pip install --extra-index-url URL/simple/ llama-cpp-python==0.3.36+cu130")
    assert seen(tab, "URL/ stands for the address of this bucket")
    assert seen(tab, "whose CPU, GPU, driver, glibc and libstdc++ your machine has")
    assert seen(tab, "withdrawn: llama-server loses requests; take 0.3.37")
    assert tab.ask("document.querySelectorAll('button').length") == 0


def test_with_it_commands_have_the_address(tab: Tab, folder: Path) -> None:
    tab.open(folder / "index.html", width=820)
    tab.ask(UNFOLD)
    assert seen(tab, f"--extra-index-url {folder.as_uri()}/simple/ llama-cpp-python==0.3.36+cu130")
    assert not seen(tab, "URL/")


def test_the_address_has_nothing_that_a_shell_would_take(tab: Tab, tmp_path: Path) -> None:
    odd = tmp_path / "it's a (b) & $c"
    odd.mkdir()
    tab.open(written(full(), odd) / "index.html", width=820)
    tab.ask(UNFOLD)
    (line,) = {each for each in copied(tab) if "0.3.36+cpu.any" in each and each.startswith("pip")}
    assert len(shlex.split(line)) == len(line.split())
    assert shlex.join(shlex.split(line)) == line
    assert "it%27s%20a%20%28b%29%20%26%20%24c/simple/" in line


def copied(tab: Tab) -> list[str]:
    return list(tab.ask("[...document.querySelectorAll('pre code')].map(each => each.innerText)"))


def test_a_version_of_its_own_page_has_the_buckets_address(tab: Tab, tmp_path: Path) -> None:
    written(many(20), tmp_path)
    tab.open(tmp_path / "builds" / "0.3.0.html", width=390)
    tab.ask(UNFOLD)
    assert tab.complaints() == []
    assert seen(tab, f"--index {tmp_path.as_uri()}/simple/ llama-cpp-python==0.3.0+cu130.sm86")
    assert tab.ask("document.documentElement.scrollWidth") == 390


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_every_text_has_contrast(scheme: str, tab: Tab, folder: Path) -> None:
    tab.open(folder / "index.html", width=1400, scheme=scheme)
    fill(tab, cpu="?", gpu="86")
    tab.ask("document.getElementById('cpu').selectedIndex = 3")
    fill(tab, driver="580.95.05")
    tab.ask(UNFOLD)
    looked_at = tab.ask(FAINT_TEXTS)
    assert looked_at["seen"] > 400
    assert looked_at["faint"] == []
    fill(tab, glibc="2.3")
    assert "No build here fits" in result(tab)
    assert tab.ask(FAINT_TEXTS)["faint"] == []


def test_the_form_gives_the_command_and_says_why_not_the_others(tab: Tab, folder: Path) -> None:
    tab.open(folder / "index.html", width=820)
    assert "Choose a CPU" in result(tab)
    tab.ask("document.getElementById('cpu').selectedIndex = 3")
    fill(tab, gpu="86", driver="580.95.05", glibc="2.35")
    tab.ask(UNFOLD)
    said = result(tab)
    assert said.startswith("✓ a10g AWS EC2 g5")
    assert "also needs GLIBCXX_3.4.30, Python >=3.8" in said
    assert f"pip install --extra-index-url {folder.as_uri()}/simple/ llama-cpp-python==" in said
    assert (
        "h100 0.3.36+cu130.sm90.avx2: has code for sm_90, which this GPU (sm_86) cannot run" in said
    )
    assert "t4 0.3.36+cu130.sm75.avx512.vnni: the CPU here lacks avx512_vnni" in said
    assert "a10g-cu12 0.3.36+cu129.sm86.avx2: withdrawn: llama-server loses" in said
    fill(tab, driver="525.60.13")
    assert result(tab).startswith("✓ a10g-cu12")
    assert "0.3.35+cu129" in result(tab)
    fill(tab, gpu="61")
    assert "No build here uses this GPU: this one runs on the CPU." in result(tab)
    fill(tab, glibc="2.31")
    assert result(tab).startswith("✗ No build here fits this machine.")
    assert "needs glibc 2.34, here is 2.31" in result(tab)


def test_what_is_no_version_is_marked_said_and_not_looked_at(tab: Tab, folder: Path) -> None:
    tab.open(folder / "index.html", width=820)
    fill(tab, glibc="<two>")
    said = "glibc: “<two>” is no version such as 2.35, and is not looked at."
    assert result(tab).startswith(said)
    tab.ask("document.getElementById('cpu').selectedIndex = 3")
    fill(tab, driver="580.x")
    assert tab.ask("document.getElementById('glibc').matches(':invalid')")
    assert result(tab).startswith("NVIDIA driver: “580.x” is no version such as 580.95.05, and")
    assert said in result(tab)
    assert "✓ cpu-avx2" in result(tab)
    assert "also needs glibc 2.35, GLIBCXX_3.4.30" in result(tab)  # by the tag; the files: 2.34
    told = tab.ask("document.querySelector('[role=status]').textContent")
    assert said in told
    assert " The fastest that fits: cpu-avx2, Any x86-64-v3 CPU" in told


@pytest.mark.parametrize(("glibc", "fits"), [(" 2.36 ", True), ("\t2.31", False), ("  ", True)])
def test_spaces_around_a_version_are_not_looked_at(
    glibc: str, fits: bool, tab: Tab, folder: Path
) -> None:
    tab.open(folder / "index.html", width=820)
    tab.ask("document.getElementById('cpu').selectedIndex = 3")
    fill(tab, glibc=glibc)
    assert result(tab).startswith("✓ cpu-avx2" if fits else "✗")
    assert ("also needs glibc" in result(tab)) == (not glibc.strip())


def test_what_is_pasted_fills_the_form(tab: Tab, folder: Path) -> None:
    tab.open(folder / "index.html", width=820)
    flags = "flags : fpu pni ssse3 sse4_1 sse4_2 popcnt avx f16c fma bmi2 avx2"
    printed = (flags, "glibc 2.36", "Tesla T4, 7.5, 580.95.05", "GLIBCXX_3.4.30")
    fill(tab, paste="\n".join(printed))
    assert tab.ask("[...form.elements.gpu.selectedOptions].map(each => each.text)") == ["Tesla T4"]
    assert tab.ask("form.elements.glibc.value") == "2.36"
    assert result(tab).startswith("✓ cpu-avx2")
    tab.ask("document.querySelector('.why').open = true")
    assert "the CPU here lacks avx512_vnni" in result(tab)
    fill(tab, paste="flags : fpu\nglibc none")
    assert result(tab).startswith("✗")
    assert "another (musl, as in Alpine)" in result(tab)


def test_a_link_to_a_build_of_a_folded_version_unfolds_it(tab: Tab, folder: Path) -> None:
    tab.open(folder / "index.html", width=820)
    tab.ask("document.querySelector('a[href=\"#v0.3.35\"]').click()")
    assert tab.ask("document.getElementById('v0.3.35').closest('details').open")


@pytest.mark.parametrize("width", WIDTHS)
def test_a_screen_reader_hears_what_the_eye_sees(width: int, tab: Tab, folder: Path) -> None:
    """On a phone the table is drawn as cards, and is a table still."""
    tab.open(folder / "index.html", width=width)
    tab.ask("document.getElementById('cpu').selectedIndex = 3")
    fill(tab, gpu="86")
    found = heard(tab)
    assert found["heading"][:2] == [
        "hostwheel llama-cpp-python and llama-server, built for one host",
        "Which build is mine?",
    ]
    assert found["combobox"] == ["CPU", "NVIDIA GPU"]
    assert found["textbox"][:3] == ["NVIDIA driver", "glibc", "libstdc++ (GLIBCXX)"]
    assert found["table"] == ["Builds of 0.3.36, the fastest first"]
    assert found["columnheader"][:3] == ["Host", "CPU", "GPU"]
    assert len(found["rowheader"]) == len(RECIPES)
    assert len(found["main"]) == 1
    assert found["status"] == [""]  # what it says is in it
    told = tab.ask("document.querySelector('[role=status]').textContent")
    assert told == "The fastest that fits: a10g, AWS EC2 g5: NVIDIA A10G, AMD EPYC 7R32"
    assert "Versions" in found["navigation"]
    assert any(each.startswith("Copy: pip install") for each in found["button"])


def test_the_keyboard_reaches_everything_and_shows_where_it_is(tab: Tab, folder: Path) -> None:
    tab.open(folder / "index.html", width=820)
    for expected in ("cpu", "gpu", "driver", "glibc", "glibcxx"):
        press(tab, "Tab", 9)
        assert tab.ask("document.activeElement.id") == expected
        assert tab.ask("getComputedStyle(document.activeElement).outlineWidth") == "2px"
    press(tab, "Tab", 9)
    assert tab.ask("document.activeElement.localName") == "summary"
    press(tab, "Enter", 13)
    assert tab.ask("document.getElementById('exactly').open")
    press(tab, "Tab", 9)
    assert tab.ask("document.activeElement.className") == "copy"
    press(tab, "Tab", 9)
    assert tab.ask("document.activeElement.id") == "paste"


def press(tab: Tab, key: str, code: int) -> None:
    said = {"key": key, "windowsVirtualKeyCode": code, "text": "\r" if key == "Enter" else ""}
    tab.call("Input.dispatchKeyEvent", type="keyDown", **said)
    tab.call("Input.dispatchKeyEvent", type="keyUp", key=key, windowsVirtualKeyCode=code)


def test_a_command_is_copied_or_where_that_is_not_allowed_selected(tab: Tab, folder: Path) -> None:
    tab.open(folder / "index.html", width=820)
    first = "document.querySelector('tbody pre.command')"
    for allowed, said in ((True, "Copied"), (False, "Selected: copy it with the keyboard")):
        refuse = "Promise.resolve()" if allowed else "Promise.reject(new Error('no'))"
        tab.ask(
            "Object.defineProperty(navigator, 'clipboard', {configurable: true,"
            f" value: {{writeText: text => {{ window.taken = text; return {refuse}; }}}}}})"
        )
        tab.ask(f"{first}.closest('details').open = true; {first}.querySelector('button').click()")
        assert tab.ask("document.getElementById('said').textContent") == said
        assert tab.ask("window.taken").startswith("pip install --extra-index-url file://")
    assert tab.ask("getSelection().toString()") == tab.ask("window.taken")


@pytest.mark.parametrize("yanked", [None, "<img src=x onerror=\"document.title='ran'\">"])
def test_no_script_of_the_catalog_runs(yanked: str | None, tab: Tab, tmp_path: Path) -> None:
    written(Catalog().next((nasty(yanked=yanked), wheel("cpu-any"))), tmp_path)
    tab.open(tmp_path / "index.html", width=390)
    tab.ask("document.getElementById('cpu').selectedIndex = 3")
    fill(tab, glibc="2.35")
    tab.ask(UNFOLD)
    assert result(tab).startswith("✓ cpu-any")
    assert tab.ask("document.title").startswith("llama-cpp-python")
    assert tab.complaints() == []
    assert tab.ask("document.documentElement.scrollWidth") == 390


def test_a_foreign_script_would_not_run(tab: Tab, folder: Path, tmp_path: Path) -> None:
    text = (folder / "index.html").read_text()
    (tmp_path / "index.html").write_text(
        text.replace("<main>", "<main><script>document.title = 'ran'</script>")
    )
    tab.open(tmp_path / "index.html", width=390)
    assert tab.ask("document.title").startswith("llama-cpp-python")
    assert tab.complaints()


def test_ten_thousand_builds_can_be_used(tab: Tab, tmp_path: Path) -> None:
    (tmp_path / "index.html").write_bytes(list(front(many(834)))[-1].body)
    tab.open(tmp_path / "index.html", width=390)
    timing: Any = tab.ask("performance.getEntriesByType('navigation')[0].domInteractive")
    assert timing < 3000  # milliseconds, on a loaded machine
    tab.ask("document.getElementById('cpu').selectedIndex = 3")
    fill(tab, gpu="86")
    assert "0.3.833+cu130.sm86.avx2" in result(tab)
    assert tab.ask("document.documentElement.scrollWidth") == 390
