"""audit.html: one file that stands alone, bears every name, and says all of the report."""

import re
from dataclasses import replace
from html import unescape
from html.parser import HTMLParser
from pathlib import Path
from typing import get_args

import pytest

from hostwheel.audit import demangle
from hostwheel.audit.cards import LAID_ASIDE, MOST_CARDS, MOST_ITEMS
from hostwheel.audit.heat import by_age, heat_map, level, short
from hostwheel.audit.page import page, write_page
from hostwheel.audit.result import Report, Standing
from hostwheel.audit.sizemap import Cell, kept_cells
from hostwheel.errors import MachineLacks
from tests.reports import BARE, FITS, LIB, LONG, REPORTS, UNFIT, awkward, file_report, many

PARTS = {
    *("html", "meta", "title", "style", "header", "main", "section", "footer", "nav", "a"),
    *("h1", "h2", "h3", "p", "div", "span", "small", "b", "i", "br", "ul", "li", "code", "pre"),
    *("dl", "dt", "dd", "article", "details", "summary"),
    *("table", "caption", "thead", "tbody", "tr", "th", "td"),
    *("svg", "g", "rect", "text"),
}
VOID = {"meta", "br"}


class Elements(HTMLParser):
    """Every start tag, and whether each is closed in turn."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.found: list[tuple[str, dict[str, str | None]]] = []
        self.open: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found.append((tag, dict(attrs)))
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found.append((tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag, self.getpos()


def said(report: Report) -> str:
    """The page's text alone."""
    body = page(report).partition("</style>")[2]
    return " ".join(unescape(re.sub(r"<[^>]*>", " ", body)).split())


@pytest.mark.parametrize("name", REPORTS)
def test_a_page_has_only_elements_that_load_and_run_nothing(name: str) -> None:
    elements = Elements(page(REPORTS[name]))
    assert elements.open == []
    assert {tag for tag, _ in elements.found} <= PARTS
    attributes = [(key, value or "") for _, each in elements.found for key, value in each.items()]
    assert not [key for key, _ in attributes if key.startswith("on") or key in ("src", "style")]
    assert all(value.startswith("#") for key, value in attributes if key == "href")
    assert "url(" not in page(REPORTS[name])
    assert "@import" not in page(REPORTS[name])


def test_the_verdict_is_one_sentence_above_all() -> None:
    assert "Does not fit aws-g5 (AWS EC2 g5: NVIDIA A10G, AMD EPYC 7R32) : 5 findings" in said(
        UNFIT
    )
    assert "Fits aws-g5 (AWS EC2 g5: NVIDIA A10G, AMD EPYC 7R32) ." in said(FITS)
    assert "Fits 5 of 5 known hosts ." in said(BARE)
    undecided = replace(FITS, verdict="undecided")
    assert "Not decided for aws-g5 (AWS EC2 g5: NVIDIA A10G, AMD EPYC 7R32) :" in said(undecided)
    assert "Compared with no host ." in said(replace(BARE, fits=()))


def test_the_verdict_of_a_plan_names_the_plan() -> None:
    assert "Fits a10g ." in said(replace(FITS, target="a10g"))


def test_every_standing_has_its_place_and_open_questions_are_counted() -> None:
    assert set(get_args(Standing)) <= {"refused", *LAID_ASIDE}
    left = replace(FITS, verdict="undecided", findings=UNFIT.findings[5:])
    assert ": 2 questions left to the smoke test." in said(left)


def test_gpu_code_without_a_known_driver_is_not_code_that_needs_none() -> None:
    assert "NVIDIA driver not known" in said(replace(FITS, floor=None))


def test_many_reasons_are_folded() -> None:
    fit = replace(UNFIT.fits[0], reasons=tuple(f"reason {n}" for n in range(9)))
    assert "reason 3 5 more reason 4" in said(replace(UNFIT, fits=(fit,)))


def test_a_refusal_is_never_green() -> None:
    renamed = replace(FITS, findings=(UNFIT.findings[4],))
    assert ", but 1 finding was refused." in said(renamed)
    assert 'class="verdict-box unfit"' in page(renamed)
    assert 'class="verdict-box fits"' in page(FITS)
    assert 'class="verdict-box none"' in page(BARE)


def test_the_head_names_bytes_host_and_driver() -> None:
    text = said(FITS)
    assert f"SHA-256 {FITS.sha256}" in text
    assert "NVIDIA driver 580.65.06 or newer: sm_86 cubins of CUDA 13.0" in text
    assert "NVIDIA driver none needed" in said(UNFIT)
    assert "SHA-256 a folder" in said(replace(BARE, sha256=None))


def test_copies_share_a_card() -> None:
    first = UNFIT.findings[0]
    copy = replace(first, file=f"{LIB}libggml-cpu.so.0")
    other = replace(first, file=f"{LIB}libother.so", count=first.count + 1)
    made = page(replace(UNFIT, findings=(first, copy, other)))
    one, two = re.findall(r'<article class="card refused">.*?</article>', made, re.DOTALL)
    assert [name in one for name in ("libggml-cpu.so<", "libggml-cpu.so.0<", "libother")] == [
        *(True, True, False)
    ]
    assert "libother.so<" in two


def test_a_refusal_says_where_what_and_what_to_do() -> None:
    text = said(UNFIT)
    card = text[text.index("ISA001") :]
    for part in (
        "llama_cpp/lib/ libggml-cpu.so",
        "avx512_vnni \u00d7 640",
        "in (anonymous namespace)::tinyBLAS<16,",
        "0x5120c vpdpbusd zmm0,zmm1,zmmword ptr [rax+40h]",
        "What to do build it for this host",
    ):
        assert part in card
    assert card.index("avx512_vnni \u00d7 640") < card.index("WHL002") < card.index("not decided")


def test_findings_of_one_file_with_one_remedy_share_a_card() -> None:
    assert said(UNFIT).count("What to do build it for this host") == 1


def test_what_is_no_refusal_is_folded_with_its_reason_and_open_where_it_is_the_worst() -> None:
    drawn = page(UNFIT)
    for standing in ("undecided", "not-covered", "dismissed"):
        assert f'<details class="aside {standing}"><summary>' in drawn
    assert "miniaudio asks CPUID before each lzcnt" in drawn
    milder = page(replace(UNFIT, findings=UNFIT.findings[5:]))
    assert "Nothing was refused." in milder
    assert '<details class="aside undecided" open>' in milder
    assert '<details class="aside dismissed"><summary>' in milder


def test_hundreds_of_findings_are_all_there_and_mostly_folded() -> None:
    drawn = page(many())
    assert all(f"<code>function_{n}</code>" in drawn for n in range(400))
    refused = drawn[: drawn.index('class="aside')]
    seen = refused[: refused.rindex("<details>")]
    assert seen.count("<article") == MOST_CARDS
    assert refused.count("<article") > MOST_CARDS
    shown_first = [card.partition("<details>")[0] for card in seen.split("<article")[1:]]
    assert max(card.count('class="item"') for card in shown_first) <= MOST_ITEMS + 1


def test_the_fit_table_says_more_than_a_colour() -> None:
    text = said(UNFIT)
    for row in (
        "aws-g5 asked for AWS EC2 g5: NVIDIA A10G, AMD EPYC 7R32 ✗ unfit avx512f in libggml-cpu.so",
        "x86-64-v4 Any x86-64-v4 CPU (Skylake-X, Zen 4, and newer) ? not decided avx2",
    ):
        assert row in text
    assert "✓ fits" in said(FITS)


def test_features_stand_in_the_order_in_which_they_came() -> None:
    features = ["amx_int8", "avx512_vnni", "avx2", "sse4_1", "fma", "avx512f", "ssse3", "bmi2"]
    assert sorted(features, key=by_age) == [
        *("ssse3", "sse4_1", "bmi2", "fma", "avx2", "avx512f", "avx512_vnni", "amx_int8")
    ]
    assert sorted(["sse3", "a_new_one"], key=by_age) == ["a_new_one", "sse3"]


def test_the_heat_map_has_a_number_a_shade_and_a_mark_for_each_refusal() -> None:
    drawn = page(UNFIT)
    assert '<td class="h5" title="avx2: 15,022 instructions">15k</td>' in drawn
    assert '<td class="h1" title="popcnt: 3 instructions">3</td>' in drawn
    refused = 'title="avx512f: 48,120 instructions, refused"><b aria-label="refused">✗</b> 48k'
    assert f'<td class="h5 bad" {refused}</td>' in drawn
    assert "3 other files: nothing beyond plain x86-64." in drawn


@pytest.mark.parametrize(
    ("count", "text", "shade"),
    [
        (1, "1", 1),
        (999, "999", 3),
        (1_000, "1.0k", 4),
        (9_949, "9.9k", 4),
        (9_950, "9k", 4),
        (99_999, "99k", 5),
        (104_551, "104k", 6),
        (5_600_000, "5.6M", 6),
    ],
)
def test_a_count_is_four_characters_and_a_shade(count: int, text: str, shade: int) -> None:
    assert (short(count), level(count)) == (text, shade)


def test_the_treemap_names_folders_and_files_and_lumps_the_tiny() -> None:
    drawn = page(many())
    large = drawn[drawn.index('<svg class="map large"') :].partition("</svg>")[0]
    assert "<title>big/sub0: 11 files, " in large
    assert "<title>big/sub0/module_000.cpython-311-x86_64-linux-gnu.so: 3.0 MB, 16.5%" in large
    assert " smaller files: " in large
    rectangles = [each.count("<rect") for each in drawn.split('<svg class="map ')[1:]]
    assert rectangles == sorted(rectangles)
    assert rectangles[-1] < 160
    assert "240 files as a table" in drawn
    assert "and 190 smaller files, " in drawn


def test_a_refusal_among_small_files_is_not_hidden_in_the_treemap() -> None:
    small = tuple(Cell(label=str(n), said="", kind="native", size=1) for n in range(3))
    large = Cell(label="large", said="", kind="python", size=900)
    bad = replace(small[0], kind="refused")
    kinds = [
        [(cell.label, cell.kind) for cell in kept_cells(cells, 100)]
        for cells in (
            (large, *small),
            (large, *small, bad),
            (large, *small, replace(large, size=2)),
        )
    ]
    assert [each[1] for each in kinds] == [
        ("3 smaller files", "native"),
        ("4 smaller files", "refused"),
        ("4 smaller files", "other"),
    ]


def test_what_is_refused_comes_first_in_the_heat_map() -> None:
    small = file_report("small.so", features={"avx512f": 1})
    large = file_report("large.so", features={"avx2": 5000})
    refused = replace(UNFIT.findings[0], file="small.so")
    drawn = heat_map(replace(UNFIT, files=(large, small), findings=(refused,)))
    assert drawn.index('title="small.so"') < drawn.index('title="large.so"')


def test_a_refused_file_is_marked_in_the_treemap() -> None:
    said_of_it = "libggml-cpu.so: 1.3 MB (472.7 kB packed), 8.2%, native code with a refusal"
    assert f'<title>{LIB}{said_of_it}</title><rect class="refused"' in page(UNFIT)
    assert 'class="refused" x=' not in page(FITS)


def test_equal_gpu_images_are_one_row() -> None:
    text = said(FITS)
    assert "llama_cpp/lib/ libggml-cuda.so cubin sm_86 128 5.1 MB yes 1.7 .nv_fatbin" in text


def test_the_files_say_what_they_need() -> None:
    text = said(FITS)
    assert "libllama-server-impl.so GLIBC 2.34 GLIBCXX 3.4.30 $ORIGIN" in text
    assert "9 libraries libggml-base.so libcudart.so.13" in text
    assert "$ORIGIN/../../nvidia/cu13/lib" in text


def test_code_that_was_not_read_says_so() -> None:
    arm = file_report("lib.so", machine="aarch64", instructions=None)
    assert "ELF aarch64 821.9 kB not read" in said(replace(BARE, files=(arm,)))


def test_nothing_to_draw_is_said_in_words() -> None:
    text = said(replace(BARE, members=()))
    assert "There is nothing in it that takes up room." in text
    assert text.count("There is no native code in it.") == 2
    assert "There is no GPU code in it." in text
    assert "Nothing was refused." in text
    plain = replace(BARE, files=(file_report("lib.so"),))
    assert "No instruction goes beyond what every x86-64 CPU has." in said(plain)


def test_what_cannot_be_seen_is_shown_as_an_escape() -> None:
    drawn = page(awkward())
    assert "\u202e" not in drawn
    assert "\x1b" not in drawn
    assert r"&lt;script&gt;alert(1)&lt;/script&gt;&quot;&#x27;\u202egnp.\x1b[31m\udcff.so" in drawn
    assert LONG in drawn


def test_the_same_report_gives_the_same_bytes(tmp_path: Path) -> None:
    for name in ("one.html", "two.html"):
        write_page(UNFIT, tmp_path / name)
    assert (tmp_path / "one.html").read_bytes() == (tmp_path / "two.html").read_bytes()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["one.html", "two.html"]


def test_a_page_that_cannot_be_written_leaves_nothing(tmp_path: Path) -> None:
    (tmp_path / "audit.html").mkdir()
    with pytest.raises(MachineLacks, match=r"cannot write .*audit\.html: "):
        write_page(BARE, tmp_path / "audit.html")
    assert [path.name for path in tmp_path.iterdir()] == ["audit.html"]
    with pytest.raises(MachineLacks, match="No such file or directory"):
        write_page(BARE, tmp_path / "nowhere" / "audit.html")


@pytest.mark.parametrize(
    ("name", "readable"),
    [
        ("_ZN3foo3barEi", "foo::bar(int)"),
        ("_Z3addii.cold", "add(int, int) [clone .cold]"),
        ("ggml_vec_dot_f16", "ggml_vec_dot_f16"),
        ("_Z", "_Z"),
        ("_Zé", "_Zé"),
        ("_Z" + "9" * 500, "_Z" + "9" * 500),
    ],
)
def test_names_are_read_where_they_are_cxx(name: str, readable: str) -> None:
    assert demangle.demangled(name) == readable


def test_a_name_that_doubles_again_and_again_is_left_as_it_is() -> None:
    bomb = "_Z1f" + "1aI" + "".join(f"1bIS{n}_S{n}_E" for n in range(9)) + "E"
    assert len(demangle.demangled(bomb)) <= demangle.LONGEST_READABLE


def test_without_a_cxx_library_names_stay_mangled(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(demangle, "cxx_library", lambda: None)
    assert demangle.demangled("_ZN3foo5otherEi") == "_ZN3foo5otherEi"
