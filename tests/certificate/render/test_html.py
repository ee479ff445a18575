"""The page and the card that are filed: what they say, in whose words, and in a real browser."""

from __future__ import annotations

import itertools
import re
import sys
from collections.abc import Callable
from dataclasses import replace
from functools import cache
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import matplotlib.pyplot as plt
import pytest

from skfairdp import Certificate, PrivacyLedger, certify
from skfairdp.certificate.facts import Fact
from skfairdp.certificate.group_rates import group_rates
from skfairdp.certificate.outcomes import Accuracy
from skfairdp.certificate.render.plot import draw_bounds
from skfairdp.fairness.guarantee import CellCount, FairnessGuarantee
from skfairdp.privacy import PrivacyGuarantee
from tests.certificate.test_number_claims import Column, rows

DRAWS_PICTURES = True
HOSTILE = "<b>a|b</b> & *c*"

PRIVACY = PrivacyGuarantee(
    0.9912,
    1e-6,
    "zero-out",
    accountant="PLD",
    per_group={"F": 0.9912, HOSTILE: 0.5},
    assumptions=("the guarantee starts at the array passed to fit",),
)


def claim(notion: str = "demographic_parity", **changes: Any) -> FairnessGuarantee:
    settings: dict[str, Any] = {
        "bound": 0.1041,
        "scope": "deployed model",
        "method": "exact, of each pair of groups",
        "estimate": 0.05,
        "confidence_level": 0.95,
        "groups": ("F", HOSTILE),
        "counts": (CellCount("F", "", 300, 1000), CellCount(HOSTILE, "", 250, 1000)),
        "assumptions": ("One row a person.",),
    }
    return FairnessGuarantee(notion, **(settings | changes))


def certificate(**changes: Any) -> Certificate:
    settings: dict[str, Any] = {
        "privacy": PRIVACY,
        "fairness": (claim(),),
        "model_digest": "sha256:" + "ab" * 32,
        "model_name": "PublicScaler → FairDPClassifier",
        "n_rows": 2000,
        "created": "2026-11-20T12:00:00+00:00",
        "versions": (("skfairdp", "0.1.0"),),
    }
    return Certificate(**(settings | changes))


ANSWERED = claim(
    scope="answered queries",
    confidence_level=None,
    method="counted",
    assumptions=("Coverage: 14 of 20 queries were answered (0.700).",),
)
CASES = {
    "ordinary": certificate(),
    "two notions": certificate(fairness=(claim(), claim("equal_opportunity", bound=0.2))),
    "no useful bound": certificate(fairness=(claim(bound=1.0, estimate=None),)),
    "noisy": certificate(
        n_rows=None,
        fairness=(
            claim(counts=(CellCount("F", "", -3, 10, True), CellCount("M", "", 5, 0, True))),
        ),
    ),
    "random predictions": certificate(
        fairness=(
            claim(
                scope="averaged over its draws",
                counts=(CellCount("F", "", 30.5, 100), CellCount("M", "", 20.25, 90)),
            ),
        )
    ),
    "answered": certificate(fairness=(ANSWERED,)),
    "no rows": certificate(fairness=(), n_rows=None, remarks=("Only one group is known.",)),
    "void": certificate(privacy=PrivacyGuarantee.void("StandardScaler learned from rows")),
    "no noise": certificate(privacy=None),
    "bare": Certificate(None, (), "sha256:0"),
}
every_case = pytest.mark.parametrize("case", CASES.values(), ids=CASES)


@cache
def page_of(case: str) -> str:
    """The page as it is without settings; drawing its pictures takes a tenth of a second."""
    return CASES[case].to_html()


SECTIONS = ("The claim", "Privacy", "Fairness", "Coverage", "Not claimed", "Which model")


class Outline(HTMLParser):
    """Tags in order, and whether they are closed."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.text: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        if tag not in {"meta", "path", "use", "br"}:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        if tag not in {"meta", "path", "use", "br"}:
            assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text.append(data)


def outline(page: str) -> Outline:
    parsed = Outline()
    parsed.feed(page)
    assert parsed.open == []
    return parsed


@pytest.mark.parametrize("name", CASES)
def test_a_page_is_whole_needs_nothing_else_and_can_be_read_aloud(name: str) -> None:
    case, page = CASES[name], page_of(name)
    parsed = outline(page)
    names = [tag for tag, _ in parsed.tags]
    assert page.startswith("<!DOCTYPE html>")
    assert not {"script", "link", "iframe", "img", "a", "b-"} & set(names)
    assert not re.search(r"https?:|url\((?!#)|@import", page)
    assert names.count("h1") == names.count("main") == names.count("title") == 1
    text = " ".join("".join(parsed.text).split())
    for section in SECTIONS:
        assert section in text
    # Symbols and their figures are kept on one line, in a tag of their own.
    assert " ".join(case.sentence.split()) in text
    assert case.model_digest in page
    # Headings go down by one level at most; tables and pictures are named.
    levels = [int(tag[1]) for tag in names if re.fullmatch(r"h\d", tag)]
    assert levels[0] == 1
    assert all(after <= before + 1 for before, after in itertools.pairwise(levels))
    assert names.count("table") == names.count("caption")
    for tag, attributes in parsed.tags:
        if tag == "svg":
            assert attributes["role"] == "img"
            assert attributes["aria-label"]
        if tag == "th":
            assert attributes["scope"] in ("col", "row")
    assert not re.search(r"<th[^>]*>\s*</th>", page)


def test_ids_in_pictures_do_not_clash() -> None:
    page = page_of("two notions")
    found = re.findall(r'\bid="([^"]+)"', page)
    assert found
    assert len(found) == len(set(found))
    for reference in re.findall(r'(?:href="#|url\(#)([^")]+)', page):
        assert reference in found


@every_case
def test_values_are_text_and_never_markup(case: Certificate) -> None:
    page, card = case.to_html(title=HOSTILE), case.to_model_card(title=HOSTILE)
    assert "<b>a" not in page
    assert "&lt;b&gt;a|b&lt;/b&gt; &amp; *c*" in page
    assert "<b>" not in card.replace("\\<b\\>", "")
    widths = [line.replace("\\|", "").count("|") for line in card.splitlines() if line[:1] == "|"]
    tables = re.split(r"\n\n", card)
    for table in (t.splitlines() for t in tables if t.startswith("|")):
        assert len({line.replace("\\|", "").count("|") for line in table}) == 1
    assert widths


@every_case
def test_a_card_says_what_the_page_says(case: Certificate) -> None:
    card = case.to_model_card()
    for section in SECTIONS:
        assert f"## {section}" in card
    assert case.sentence in card.replace("\\", "")


def test_rates_have_exact_intervals() -> None:
    first, _ = group_rates(claim())
    # Clopper-Pearson, 300 of 1000 at 95 %: R's binom.test(300, 1000)$conf.int
    assert (round(first.low, 4), round(first.high, 4)) == (0.2717, 0.3295)
    assert "0.271 to 0.330" in page_of("ordinary")


def test_rates_without_a_sampling_law_have_no_interval() -> None:
    for case in ("noisy", "answered"):
        rates = group_rates(CASES[case].fairness[0])
        assert all(item.low is item.high is None for item in rates)
    noisy = group_rates(CASES["noisy"].fairness[0])
    assert (noisy[0].rate, noisy[1].rate) == (0.0, None)
    assert "no rows" in page_of("noisy")
    assert "Successes (noisy)" in page_of("noisy")


def test_an_observed_gap_of_zero_is_drawn_whole() -> None:
    figure, ax = plt.subplots()
    draw_bounds([claim(estimate=0.0)], ax)
    (circle,) = (line for line in ax.lines if line.get_marker() == "o")
    assert (ax.get_xlim()[0], circle.get_clip_on()) == (0.0, False)
    plt.close(figure)


def test_a_picture_speaks_of_rates_where_rates_are_compared() -> None:
    X, y, group = rows()
    numbers = certify(Column(), X, y, sensitive_features=group, notion="mean_gap", holdout="public")
    for claims, words in (numbers.fairness, "difference between"), ([claim()], "of rates between"):
        figure, ax = plt.subplots()
        assert words in draw_bounds(claims, ax).get_xlabel()
        plt.close(figure)


def test_the_quality_in_plain_words_tells_872_from_875() -> None:
    texts = [
        certificate(accuracy=Accuracy(2_000, right, 1_500, 20.0, noisy=False)).to_model_card()
        for right in (1_744, 1_750)
    ]
    assert "about 87.2 of 100 people" in texts[0]
    assert "about 87.5 of 100 people" in texts[1]


def test_means_of_probabilities_have_hoeffding_intervals() -> None:
    first, _ = group_rates(CASES["random predictions"].fairness[0])
    assert first.high - first.rate == pytest.approx(0.13581, abs=1e-5)  # sqrt(log(40) / 200)


def test_coverage_is_found_in_the_assumptions() -> None:
    assert "14 of 20 queries were answered" in page_of("answered")
    assert "count the model&#x27;s answers to all held-out rows" in page_of("ordinary")


def test_what_was_asked_for_is_answered() -> None:
    page = CASES["ordinary"].to_html(epsilon=1.0, tolerance=0.05)
    assert "Privacy loss of at most ε = 1: kept." in page
    assert "at most 0.05: NOT shown by this certificate for the model as it is deployed." in page
    assert "at most 0.05: NOT shown" in CASES["ordinary"].to_model_card(tolerance=0.05)
    assert "What was asked for" not in page_of("ordinary")
    assert "ε = 0.5: NOT kept" in CASES["ordinary"].to_html(epsilon=0.5)


def test_other_notions_are_not_claimed() -> None:
    assert "may violate: accuracy parity, equal opportunity, equalized odds" in (
        page_of("ordinary")
    )
    assert "nothing is promised to the people" in page_of("void")


def test_a_ledger_adds_its_totals_and_last_entries(tmp_path: Path) -> None:
    ledger = PrivacyLedger(tmp_path / "ledger.db", HOSTILE)
    for _ in range(45):
        with ledger.charge(PrivacyGuarantee(0.1, 0.0, "zero-out"), activity="fit", estimator="E"):
            pass
    page = CASES["ordinary"].to_html(ledger=ledger)
    assert "Privacy ledger" in page
    assert "45 committed entries" in page
    assert "The last 40 of 45 entries" in page
    assert "fit 45" in page
    assert ">fit 5<" not in page
    assert "<b>a" not in page
    assert "Privacy ledger" in CASES["ordinary"].to_model_card(ledger=ledger.path)


def test_a_page_without_matplotlib_lacks_pictures_and_nothing_else(monkeypatch) -> None:
    with_pictures = page_of("ordinary")
    for name in [n for n in sys.modules if n.split(".")[0] == "matplotlib"]:
        monkeypatch.setitem(sys.modules, name, None)
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    without = CASES["ordinary"].to_html()
    assert "<svg" in with_pictures
    assert "<svg" not in without
    assert "0.271 to 0.330" in without


def test_a_page_is_the_same_each_time() -> None:
    assert page_of("two notions") == CASES["two notions"].to_html()


# -- in a browser ---------------------------------------------------------------------


@pytest.fixture(scope="module")
def filed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A long page."""
    folder = tmp_path_factory.mktemp("filed")
    ledger = PrivacyLedger(folder / "ledger.db", "people")
    for _ in range(30):
        with ledger.charge(PrivacyGuarantee(0.1, 0.0, "zero-out"), activity="fit", estimator="E"):
            pass
    case = replace(
        CASES["two notions"],
        facts=tuple(
            Fact(f"what {i} is about", "income, debt, purpose, " * 5, "public") for i in range(6)
        ),
        accuracy=Accuracy(10, 9, 5, 2.0, noisy=False, table=((5, 0), (1, 4))),
    )
    (folder / "page.html").write_text(
        case.to_html(ledger=ledger, epsilon=1.0, tolerance=0.05), encoding="utf-8"
    )
    return folder / "page.html"


def test_a_browser_asks_nobody_for_anything(browser: Any, filed: Path) -> None:
    page = browser.new_page()
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url))
    page.goto(filed.as_uri())
    assert asked == [filed.as_uri()]
    page.close()


@pytest.mark.parametrize("width", [360, 800, 1400])
def test_a_page_fits_phones_and_desks(browser: Any, filed: Path, width: int) -> None:
    page = browser.new_page(viewport={"width": width, "height": 800})
    page.goto(filed.as_uri())
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    page.close()


def test_a_phone_shows_rates_and_intervals_without_scrolling(browser: Any, filed: Path) -> None:
    page = browser.new_page(viewport={"width": 390, "height": 800})
    page.goto(filed.as_uri())
    ends = "all => all.map(e => [e.textContent, e.getBoundingClientRect().right])"
    seen = page.eval_on_selector_all("thead th", ends)
    named = [(name, right) for name, right in seen if name in ("Rate", "Ratio", "95 % interval")]
    assert len(named) == 6
    assert max(right for _, right in named) <= 390
    page.close()


def test_a_page_passes_the_accessibility_check(browser: Any, filed: Path) -> None:
    axe = pytest.importorskip("axe_playwright_python.sync_playwright", reason="needs axe-core")
    page = browser.new_page()
    page.goto(filed.as_uri())
    results = axe.Axe().run(page)
    found = [(v["id"], v["nodes"][0]["html"][:120]) for v in results.response["violations"]]
    assert found == []
    page.close()


def test_printing_cuts_no_picture_and_no_row(browser: Any, filed: Path) -> None:
    page = browser.new_page()
    page.goto(filed.as_uri())
    page.emulate_media(media="print")
    style = "e => [e.tagName, e.className, getComputedStyle(e).breakInside]"
    parts = page.eval_on_selector_all("table, tr, figure, .claim", f"all => all.map({style})")
    assert {"TABLE", "TR", "FIGURE", "P"} == {tag for tag, _, _ in parts}
    cut = [(tag, kind) for tag, kind, inside in parts if inside != "avoid"]
    assert {kind for _, kind in cut} == {"long"}  # between rows, with headings repeated
    # Nothing that must not be cut is longer than an A4 page within its margins (at 96 dpi).
    heights = page.eval_on_selector_all(
        "table:not(.long), tr, figure", "all => all.map(e => e.getBoundingClientRect().height)"
    )
    assert max(heights) < (297 - 34) / 25.4 * 96
    page.set_viewport_size({"width": 672, "height": 994})  # such a page
    (end,) = page.eval_on_selector_all(".summary", "all => all.map(e => e.clientHeight)")
    assert 400 < end < 994 - 100, end  # the title stands above it
    pdf = page.pdf(prefer_css_page_size=True)
    assert pdf.startswith(b"%PDF")
    page.close()


def of_thirty_groups() -> Certificate:
    groups = tuple(f"region {i}" for i in range(30))
    counts = tuple(CellCount(group, "", 300 + i, 1000) for i, group in enumerate(groups))
    return certificate(fairness=(claim(groups=groups, counts=counts),))


def of_fifteen_numbers() -> Certificate:
    X, _, group = rows()
    return certify(Column(), X, sensitive_features=group, count_epsilon=1.0)


@pytest.mark.parametrize(("made", "least"), [(of_thirty_groups, 700), (of_fifteen_numbers, 300)])
def test_a_picture_of_many_rates_is_whole_on_screens_and_on_paper(
    browser: Any, tmp_path: Path, made: Callable[[], Certificate], least: int
) -> None:
    file = tmp_path / "page.html"
    file.write_text(made().to_html(), encoding="utf-8")
    page = browser.new_page(viewport={"width": 672, "height": 994})  # A4 within its margins
    page.goto(file.as_uri())
    outside = """all => all.filter(e => {
        const text = e.getBoundingClientRect(), all = e.closest("svg").getBoundingClientRect();
        return text.left < all.left - 1 || text.right > all.right + 1;
    }).map(e => e.textContent)"""
    assert page.eval_on_selector_all("svg text", outside) == []
    page.emulate_media(media="print")
    heights = page.eval_on_selector_all(
        "figure", "all => all.map(e => e.getBoundingClientRect().height)"
    )
    assert least < max(heights) < 994
    page.close()
