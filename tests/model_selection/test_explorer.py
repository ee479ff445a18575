"""The explorer page: what it shows, that it needs nothing else, that everybody can use it."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from skfairdp.model_selection import explorer_page, pareto_frontier, save_explorer

HOSTILE = "</script><img src=x onerror=alert(1)> & 'x' $data"
WINDOWS = {
    "phone": {"viewport": {"width": 390, "height": 740}, "color_scheme": "dark"},
    "desktop": {"viewport": {"width": 1200, "height": 900}},
}


def results() -> pd.DataFrame:
    rng = np.random.default_rng(0)
    rows = []
    for kind in ("DP-SGD", "FairDP"):
        for epsilon in (0.5, 1.0, 2.0, float("inf")):
            for tolerance in (0.01, 0.05, 0.1):
                gap = float(tolerance + rng.uniform(0, 0.1))
                rows.append(
                    {
                        "mechanism": kind,
                        "epsilon": epsilon,
                        "tolerance": tolerance,
                        "accuracy": 0.85 - 0.01 / min(epsilon, 9) + gap / 10,
                        "demographic_parity": gap,
                        "equal_opportunity": gap / 2,
                    }
                )
    return pd.DataFrame(rows)


@pytest.fixture(scope="module", params=WINDOWS)
def window(request: Any, browser: Any) -> Iterator[Any]:
    """A window; `asked` and `troubles` list requests and errors."""
    opened = browser.new_page(**WINDOWS[request.param])
    opened.asked, opened.troubles = [], []
    opened.on("request", lambda sent: opened.asked.append(sent.url))
    opened.on("pageerror", lambda error: opened.troubles.append(str(error)))
    opened.on("console", lambda message: opened.troubles.append(message.text))
    yield opened
    opened.close()


@pytest.fixture
def page(window: Any, tmp_path: Path) -> Any:
    """The page, opened anew."""
    path = save_explorer(results(), tmp_path / "explorer.html", label="mechanism")
    window.asked.clear()
    window.troubles.clear()
    window.goto(path.as_uri())
    return window


def embedded(text: str) -> dict[str, Any]:
    found = re.search(r'<script type="application/json" id="data">(.*?)</script>', text, re.S)
    assert found is not None
    return json.loads(found[1])


def test_the_page_holds_the_results_and_no_reference_to_anything_else() -> None:
    text = explorer_page(results(), label="mechanism")
    data = embedded(text)
    assert len(data["rows"]) == 24
    assert data["rows"][9]["epsilon"] == "inf"
    assert data["rows"][0]["name"] == "DP-SGD, tolerance 0.01, ε 0.5"
    assert data["gaps"] == ["demographic_parity", "equal_opportunity"]
    addresses = set(re.findall(r"https?://[^\"'\s]+", text))
    assert addresses <= {"http://www.w3.org/2000/svg"}  # a name, never fetched
    assert not re.findall(r"(?:src|href)=[\"'](?!data:)", text)


def test_names_cannot_leave_their_place() -> None:
    rows = [{"model": HOSTILE, "accuracy": 1.0, "gap": 0.0, "epsilon": 1.0}]
    text = explorer_page(rows, title=HOSTILE, names="model", notes=HOSTILE)
    assert embedded(text)["rows"][0]["name"] == HOSTILE
    assert "<img" not in text
    assert text.count("</script>") == explorer_page(rows).count("</script>") == 2


@pytest.mark.parametrize(
    ("rows", "options", "message"),
    [
        ([{"accuracy": 1.0, "gap": 0.1}], {}, "'epsilon' is not a column"),
        ([{"accuracy": 1.0, "epsilon": 1.0}], {}, "need a gap and an accuracy"),
        (
            [{"accuracy": 1.0, "gap": 0.1, "epsilon": 1.0}],
            {"label": "kind"},
            "'kind' is not a column",
        ),
        (
            [{"accuracy": 1.0, "gap": 0.1, "epsilon": 1.0}],
            {"paths": "fit"},
            "'fit' is not a column",
        ),
        ([{"accuracy": np.nan, "gap": 0.1, "epsilon": 1.0}], {}, "'accuracy' must hold a number"),
    ],
)
def test_bad_results_are_refused(rows, options, message) -> None:
    with pytest.raises(ValueError, match=message):
        explorer_page(rows, **options)


def test_it_works_offline_without_an_error(page: Any) -> None:
    assert len(page.asked) == 1
    assert page.asked[0].startswith("file://")
    assert page.troubles == []
    assert page.locator("#plot .point").count() == 24


def test_every_mechanism_has_a_mark_of_its_own(browser: Any, tmp_path: Path) -> None:
    rows = [
        {"kind": f"mechanism {i}", "accuracy": 0.8 + i / 100, "gap": 0.01 * i, "epsilon": 1.0}
        for i in range(14)
    ]
    opened = browser.new_page()
    opened.goto(save_explorer(rows, tmp_path / "many.html", label="kind").as_uri())
    marks = "[...document.querySelectorAll('#plot .point')].map(p => p.getAttribute('d'))"
    assert len(set(opened.evaluate(marks))) == 14
    opened.close()


def test_axe_finds_no_violation_and_would_find_one(page: Any) -> None:
    axe = pytest.importorskip("axe_playwright_python.sync_playwright", reason="needs axe-core")
    found = axe.Axe().run(page)
    assert found.violations_count == 0, found.generate_report()
    page.evaluate("document.querySelector('label[for=gamma]').remove()")
    assert axe.Axe().run(page).violations_count > 0


def test_it_fits_the_window(page: Any) -> None:
    assert page.evaluate("document.documentElement.scrollWidth <= window.innerWidth")
    size = page.evaluate(
        "parseFloat(getComputedStyle(document.querySelector('#plot text')).fontSize)"
    )
    scale = page.evaluate(
        "(s => s.clientWidth / s.viewBox.baseVal.width)(document.querySelector('#plot svg'))"
    )
    assert size * scale >= 11.0  # readable without zooming


def test_the_limits_are_set_from_the_keyboard_and_the_table_is_the_frontier(page: Any) -> None:
    page.focus("#epsilon")
    page.keyboard.press("ArrowLeft")  # from 2, the largest finite one, to 1
    assert page.inner_text("#epsilonOut") == "1"
    page.focus("#gamma")
    for _ in range(10):
        page.keyboard.press("ArrowLeft")
    gamma = float(page.inner_text("#gammaOut"))
    frame = results()
    kept = frame[(frame["epsilon"] <= 1) & (frame["demographic_parity"] <= gamma)]
    assert 0 < len(kept) < 12
    best = pareto_frontier(kept, maximize=["accuracy"], minimize=["demographic_parity", "epsilon"])
    assert page.inner_text("#count").startswith(f"{len(kept)} of 24 models keep both limits; ")
    shown = [float(cell) for cell in page.locator("tbody td:nth-child(3)").all_inner_texts()]
    assert shown == [round(value, 3) for value in sorted(best["accuracy"], reverse=True)]


def test_epsilon_is_the_second_column_and_seen_without_scrolling(page: Any) -> None:
    assert page.locator("thead th").nth(1).inner_text() == "ε"
    for name in ("th:nth-child(2)", "th:nth-child(3)", "th:nth-child(4)"):
        box = page.locator(f"thead {name}").bounding_box()
        assert box["x"] + box["width"] <= page.viewport_size["width"]
    names = page.locator("tbody button").all_inner_texts()
    assert len(set(names)) == len(names) > 2


def test_models_of_one_name_are_told_apart() -> None:
    same = {"model": "a", "accuracy": 0.8, "gap": 0.1}
    rows = [{**same, "epsilon": e} for e in (1.0, 2.0, 2.0, float("inf"))]
    named = [row["name"] for row in embedded(explorer_page(rows, names="model"))["rows"]]
    assert named == ["a, ε 1", "a, ε 2 (1)", "a, ε 2 (2)", "a, ε ∞"]


def test_a_path_is_one_line_at_one_epsilon(browser: Any, tmp_path: Path) -> None:
    rows = [
        {"kind": "path", "fit": "first", "tolerance": gap, "accuracy": 0.8 + gap, "gap": gap}
        for gap in (0.02, 0.1, 0.05)
    ]
    rows = [{**row, "epsilon": 1.0} for row in rows]
    rows.append({"kind": "other", "accuracy": 0.7, "gap": 0.01, "epsilon": 2.0})
    opened = browser.new_page()
    path = save_explorer(rows, tmp_path / "path.html", label="kind", paths="fit")
    opened.goto(path.as_uri())
    (line,) = opened.locator("#plot .fit").all()
    numbers = [float(n) for n in re.findall(r"[\d.]+", line.get_attribute("d"))]
    assert len(numbers) == 6
    assert numbers[::2] == sorted(numbers[::2])  # by gap
    assert numbers[1::2] == sorted(numbers[1::2], reverse=True)  # accuracy grows upwards
    opened.uncheck("[data-kind=path]")
    assert opened.locator("#plot .fit").count() == 0
    opened.close()


def test_printed_epsilons_are_rounded_up(page: Any) -> None:
    printed = page.evaluate("[0.99841, 2.71451, 9.99951, 1, 0.1].map(v => show(v, 0))")
    assert printed == ["0.9985", "2.715", "10", "1", "0.1"]


def test_models_are_stepped_through_with_the_arrow_keys(page: Any) -> None:
    page.focus("#plot")
    said = []
    for key in ("ArrowRight", "ArrowRight", "ArrowLeft"):
        page.keyboard.press(key)
        said.append(page.inner_text("#chosen"))
    assert said[0] == said[2] != said[1]
    assert re.match(r"Chosen: .*ε = .*accuracy 0\.8", said[0])
    assert page.is_visible("#tip")
    page.keyboard.press("Escape")
    assert not page.is_visible("#tip")


def test_hovering_and_the_table_show_the_same_model(page: Any) -> None:
    page.locator("tbody button").first.click()
    assert page.locator("tr.on").count() == 1
    name = page.locator("tbody button").first.inner_text()
    assert page.inner_text("#chosen").startswith(f"Chosen: {name}, ε = ")
    page.locator("#plot .point").nth(3).hover(force=True)
    assert page.is_visible("#tip")


def test_nothing_within_the_limits_is_said_so(page: Any) -> None:
    page.focus("#gamma")
    page.keyboard.press("Home")
    assert page.inner_text("#count").startswith("0 of 24 models")
    assert page.inner_text("#caption") == "No model keeps both limits"
