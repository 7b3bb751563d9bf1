"""audit.html in a real browser: it loads nothing, complains of nothing, and fits every screen."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from hostwheel.audit.page import page, write_page
from tests.chromium import Tab, chromium
from tests.reports import BARE, REPORTS, UNFIT

# Each text with less contrast than WCAG's AA asks (4.5 to 1): its ratio and beginning.
FAINT_TEXTS = """(() => {
  const canvas = document.createElement('canvas').getContext('2d', {willReadFrequently: true});
  const pixel = colour => {
    canvas.clearRect(0, 0, 1, 1); canvas.fillStyle = colour; canvas.fillRect(0, 0, 1, 1);
    return [...canvas.getImageData(0, 0, 1, 1).data];
  };
  const light = colour => {
    const linear = c => c <= .04045 ? c / 12.92 : ((c + .055) / 1.055) ** 2.4;
    const [r, g, b] = pixel(colour).map(c => linear(c / 255));
    return .2126 * r + .7152 * g + .0722 * b;
  };
  const behind = node => {
    for (let at = node; at; at = at.parentElement) {
      const colour = getComputedStyle(at).backgroundColor;
      if (pixel(colour)[3] === 255) return colour;
    }
  };
  const walk = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT), faint = [];
  let seen = 0;
  while (walk.nextNode()) {
    const node = walk.currentNode.parentElement, style = getComputedStyle(node);
    if (!walk.currentNode.data.trim() || node.localName === 'title') continue;
    const drawn = node.localName === 'text';
    const fill = () => getComputedStyle(node.parentElement.querySelector('rect')).fill;
    const ink = light(drawn ? style.fill : style.color);
    const back = light(drawn ? fill() : behind(node));
    const [low, high] = [ink, back].sort((a, b) => a - b);
    const ratio = (high + .05) / (low + .05);
    seen += 1;
    if (ratio < 4.5) faint.push(ratio.toFixed(2) + ' ' + walk.currentNode.data.slice(0, 40));
  }
  return {seen, faint};
})()"""

# Labels of the treemap that run out of their rectangle.
OVERRUN = """[...document.querySelectorAll('svg.map text')].filter(text => {
  const room = text.parentElement.querySelector('rect').getBoundingClientRect();
  const label = text.getBoundingClientRect();
  return label.width && (label.right > room.right + 1 || label.bottom > room.bottom + 1);
}).map(text => text.textContent)"""


@pytest.fixture(scope="module")
def tab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Tab]:
    with chromium(tmp_path_factory.mktemp("chromium")) as tab:
        yield tab


@pytest.mark.parametrize("name", REPORTS)
def test_a_browser_loads_the_one_file_and_complains_of_nothing(
    name: str, tab: Tab, tmp_path: Path
) -> None:
    file = tmp_path / "audit.html"
    write_page(REPORTS[name], file)
    tab.open(file, width=1200)
    assert tab.requested() == [file.as_uri()]
    assert tab.complaints() == []
    assert tab.ask("document.querySelector('h1').innerText").startswith("hostwheel audit")


def test_a_script_that_got_in_would_not_run_and_the_browser_would_complain(
    tab: Tab, tmp_path: Path
) -> None:
    file = tmp_path / "audit.html"
    script = "<script>document.title = 'ran'</script><img src='https://example.invalid/x.png'>"
    file.write_text(page(BARE).replace("<main>", f"<main>{script}"))
    tab.open(file, width=1200)
    assert tab.ask("document.title") == "notes-1.0-py3-none-any.whl: audit"
    assert tab.complaints()


@pytest.mark.parametrize("width", [390, 760, 1200])
@pytest.mark.parametrize("name", REPORTS)
def test_the_page_scrolls_down_only_and_labels_stay_in_their_boxes(
    name: str, width: int, tab: Tab, tmp_path: Path
) -> None:
    file = tmp_path / "audit.html"
    write_page(REPORTS[name], file)
    tab.open(file, width=width)
    tab.ask("document.querySelectorAll('details').forEach(each => each.open = true)")
    assert tab.ask("document.documentElement.scrollWidth") == width
    assert tab.ask(OVERRUN) == []
    shown_maps = "[...document.querySelectorAll('svg.map')].filter(m => m.clientWidth).length"
    assert tab.ask(shown_maps) == 1


def test_a_table_wider_than_the_screen_scrolls_in_its_own_box(tab: Tab, tmp_path: Path) -> None:
    file = tmp_path / "audit.html"
    write_page(UNFIT, file)
    tab.open(file, width=390)
    box = "document.querySelector('.heat').parentElement"
    assert tab.ask(f"{box}.scrollWidth > {box}.clientWidth")
    assert tab.ask(f"getComputedStyle({box}).overflowX") == "auto"


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("name", ["unfit", "fits", "bare"])
def test_every_text_has_contrast(name: str, scheme: str, tab: Tab, tmp_path: Path) -> None:
    file = tmp_path / "audit.html"
    write_page(REPORTS[name], file)
    tab.open(file, width=1200, scheme=scheme)
    looked_at = tab.ask(FAINT_TEXTS)
    assert looked_at["seen"] > 40
    assert looked_at["faint"] == []
    dark = tab.ask("getComputedStyle(document.body).backgroundColor") != "rgb(255, 255, 255)"
    assert dark == (scheme == "dark")
