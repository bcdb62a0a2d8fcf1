"""The page's text, and its life in a real browser (marker ``browser``)."""

import json
import re
import shutil
from importlib.util import find_spec

import pytest

from tests.reporting.frames import frame, row, sweep
from zoology_bench.reporting import html as page_module
from zoology_bench.reporting import report
from zoology_bench.reporting.files import csv_bytes
from zoology_bench.reporting.report import write_report

EVIL = "<script>document.title='owned'</script><img src=x onerror=\"document.title='owned'\">"
CHROMIUM = next(
    (
        path
        for name in ("chromium", "chromium-browser", "google-chrome")
        if (path := shutil.which(name))
    ),
    None,
)
SWEPT = sweep(
    [("attention", "recipe"), ("base_conv", "recipe")],
    [(64, 4), (64, 8), (128, 4), (128, 8)],
    [32, 64],
    2,
    experiment=EVIL,
    command="zoology-bench run experiment=x seed=0",
)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    out = tmp_path_factory.mktemp("page")
    (out / "in.csv").write_bytes(csv_bytes(SWEPT))
    configs = {run_id: {"note": EVIL, "seed": 0} for run_id in set(SWEPT.run_id)}
    (out / "configs.json").write_text(json.dumps(configs))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(report, "_figures", lambda frame, summary, fits: {"a.svg": b"<svg/>"})
        write_report(out / "in.csv", out / "report")
    return out / "report"


@pytest.fixture(scope="module")
def text(folder):
    return (folder / "index.html").read_text(encoding="utf-8")


def data_of(text):
    (found,) = re.findall(
        r'<script type="application/json" id="data">(.*?)</script>', text, re.DOTALL
    )
    return json.loads(found)


def test_names_from_configurations_are_text_everywhere(text):
    ours = text.partition('id="data">')[0]
    assert "<script>document.title" not in text
    assert "<img src=x" not in text
    assert "&lt;script&gt;document.title" in ours
    assert data_of(text)["configs"][SWEPT.run_id.iloc[0]]["note"] == EVIL


def test_every_line_opens_its_runs_with_command_and_configuration(text):
    data = data_of(text)
    buttons = re.findall(r'data-line="(\d+)"', text)
    assert [int(index) for index in buttons] == list(range(len(data["lines"])))
    for line in data["lines"]:
        assert line["runs"], line["title"]
        for run in line["runs"]:
            assert run["command"].startswith("zoology-bench run")
            assert run["run_id"] in data["configs"]
    attention = next(line for line in data["lines"] if line["title"].startswith("attention"))
    assert [run["seed"] for run in attention["runs"]] == [0, 1]


def test_the_page_asks_for_nothing_outside_itself(text):
    without_plotly = re.sub(r"<script>/\*\*?\s*\* plotly.*?</script>", "", text, flags=re.DOTALL)
    assert "default-src 'none'" in text
    assert not re.findall(r'(?:src|href)="(?!data:)', without_plotly)


def test_without_plotly_the_figures_are_the_reports_own(monkeypatch, tmp_path):
    monkeypatch.setattr(page_module, "find_spec", lambda name: None)
    monkeypatch.setattr(report, "_figures", lambda frame, summary, fits: {"a.svg": b"<svg/>"})
    (tmp_path / "in.csv").write_bytes(csv_bytes(frame(row())))
    write_report(tmp_path / "in.csv", tmp_path / "out")
    text = (tmp_path / "out" / "index.html").read_text()
    assert "data:image/svg+xml;base64,PHN2Zy8+" in text
    assert data_of(text)["figures"] == []


@pytest.fixture(scope="module")
def browser():
    if find_spec("playwright") is None:
        pytest.skip("playwright is not installed: pip install 'zoology-bench[dev]'")
    if CHROMIUM is None:
        pytest.skip("no chromium, chromium-browser or google-chrome: apt-get install chromium")
    from playwright.sync_api import sync_playwright

    with sync_playwright() as driver:
        started = driver.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield started
        started.close()


@pytest.fixture(params=[(1280, 900), (390, 844)], ids=["desktop", "phone"])
def page(browser, folder, request):
    """The page from disk, with no network, and whatever it complained about."""
    width, height = request.param
    context = browser.new_context(viewport={"width": width, "height": height}, offline=True)
    opened = context.new_page()
    opened.complaints = []
    opened.on("console", lambda m: opened.complaints.append(m.text) if m.type == "error" else None)
    opened.on("pageerror", lambda error: opened.complaints.append(str(error)))
    opened.goto((folder / "index.html").as_uri())
    yield opened
    context.close()


def column(page, index):
    """Sort values of a column, of the lines that are shown."""
    return page.eval_on_selector_all(
        f"#results tbody tr:not([hidden]) td:nth-child({index + 1})",
        "cells => cells.map(cell => cell.dataset.value)",
    )


@pytest.mark.browser
@pytest.mark.slow
def test_it_loads_sorts_filters_and_opens_runs_without_a_complaint(page):
    rows = page.locator("#results tbody tr")
    assert rows.count() == len(data_of(page.content())["lines"])
    page.click("#results th:nth-child(4) button")
    rising = [float(value) for value in column(page, 3)]
    page.click("#results th:nth-child(4) button")
    falling = [float(value) for value in column(page, 3)]
    assert rising == sorted(rising) and falling == sorted(rising, reverse=True)
    assert rising != falling
    assert page.get_attribute("#results th:nth-child(4)", "aria-sort") == "descending"
    page.fill("#filter", "attention p=8")
    assert 0 < page.locator("#results tbody tr:visible").count() < rows.count()
    assert set(column(page, 0)) == {"attention (recipe)"}
    page.fill("#filter", "")
    page.select_option("#cell", label="T=128 P=4")
    assert set(column(page, 2)) == {"T=128 P=4"}
    page.locator("#results tbody tr:visible td button").first.click()
    assert page.locator("#runs").is_visible()
    shown = page.locator("#run-list").inner_text()
    assert "zoology-bench run experiment=x seed=0" in shown
    page.click("#close")
    assert page.complaints == []


@pytest.mark.browser
@pytest.mark.slow
def test_a_script_in_a_name_stays_text(page):
    assert "owned" not in page.title() or "<script>" in page.title()
    assert page.locator("h1").inner_text().find("<script>document.title") >= 0
    page.locator("#results td button").first.click()
    page.locator("#run-list summary").first.click()
    assert "<script>document.title" in page.locator("#run-list").inner_text()
    assert page.evaluate("document.title") != "owned"
    assert page.locator("img[src=x]").count() == 0
    assert page.complaints == []


@pytest.mark.browser
@pytest.mark.slow
def test_nothing_is_wider_than_the_window_and_figures_are_drawn(page):
    widths = page.evaluate("[document.documentElement.scrollWidth, window.innerWidth]")
    assert widths[0] <= widths[1]
    if find_spec("plotly") is None:
        assert page.locator("figure img").count() == 1
    else:
        page.wait_for_selector(".plot .main-svg")
        assert page.locator(".plot").count() == page.locator(".plot:has(.main-svg)").count() >= 4
    assert page.complaints == []
