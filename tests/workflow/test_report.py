"""The page in a real browser, with the network blocked: complete, equal to the tables, reachable by keyboard."""

import itertools
import re
import shutil

import pandas as pd
import pytest

from tests.conftest import SMOKE

selenium = pytest.importorskip("selenium.webdriver", reason="selenium is not installed")
BROWSER, DRIVER = (shutil.which(name) for name in ("chromium", "chromedriver"))
pytestmark = [
    pytest.mark.workflow,
    pytest.mark.skipif(not (BROWSER and DRIVER), reason="needs Debian's chromium and chromium-driver"),
]
BLOCKED = "MAP * ~NOTFOUND"
OPTIONS = [
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    f"--host-resolver-rules={BLOCKED}",
]


@pytest.fixture(scope="module")
def browser(smoke, tmp_path_factory):
    """Chromium on the report's file, without any name resolution."""
    options = selenium.ChromeOptions()
    options.binary_location = BROWSER
    for option in [*OPTIONS, f"--user-data-dir={tmp_path_factory.mktemp('browser')}"]:
        options.add_argument(option)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    driver = selenium.Chrome(options, selenium.ChromeService(DRIVER))
    driver.set_window_size(1200, 900)
    driver.get((smoke.results / "report.html").as_uri())
    yield driver
    driver.quit()


def rows(smoke, name):
    return pd.read_csv(smoke.results / "tables" / f"{name}.csv")


def texts(browser, selector):
    return [element.get_attribute("textContent").strip() for element in browser.find_elements("css selector", selector)]


def test_it_loads_alone(smoke, browser):
    """No error in the console, and nothing in the file points to the network."""
    assert "Rank in Attention" in browser.title
    assert [entry for entry in browser.get_log("browser") if entry["level"] == "SEVERE"] == []
    html = (smoke.results / "report.html").read_text(encoding="utf-8")
    assert not re.findall(r"""(?:src|href)\s*=\s*["']https?:""", html)
    assert not re.findall(r"@import|url\(\s*['\"]?http", html)


def test_every_claim_is_shown_with_the_numbers_of_the_table(smoke, browser):
    claims = rows(smoke, "claims")
    assert texts(browser, "tr[data-claim] code") == list(claims["id"])
    for claim in claims.to_dict("records"):
        row = browser.find_element("id", f"claim-{claim['id']}")
        assert claim["verdict"] in row.text and claim["statement"] in row.text
        shown = row.find_element("css selector", ".value").text.split(" ")[0]
        if pd.notna(claim["value"]):
            assert float(shown) == pytest.approx(claim["value"], rel=1e-3)
        else:
            assert shown == ""
    decided = claims[claims["decidable"]]
    good = (decided["verdict"] == "reproduced").sum()
    assert browser.find_element("id", "headline").text.startswith(f"{good} of {len(decided)} claims")


def test_every_figure_is_shown_with_its_values(smoke, browser):
    names = [path.stem for path in sorted((smoke.results / "figures").glob("*.svg"))]
    assert sorted(e.get_attribute("data-figure") for e in browser.find_elements("css selector", "article")) == names
    for name in names:
        article = browser.find_element("id", f"figure-{name}")
        svg = article.find_element("css selector", "figure svg")
        assert svg.size["width"] > 200 and svg.size["height"] > 100
        assert article.find_element("css selector", "figcaption").text
        values = rows(smoke, f"figure_{name}")
        cells = texts(browser, f"#figure-{name} details:first-of-type tbody tr td:first-child")
        assert len(cells) == len(values)


def test_marker_values_are_those_of_the_table(smoke, browser):
    """Every marker of rank_depth says a value of the table, and each table row has its marker."""
    values = rows(smoke, "figure_rank_depth")
    labels = [e.get_attribute("aria-label") for e in browser.find_elements("css selector", "#figure-rank_depth .point")]
    own = [float(label.rsplit(" ", 1)[1]) for label in labels][: len(values)]
    assert sorted(own) == pytest.approx(sorted(values["published_min"]), rel=1e-3)


def test_markers_are_reachable_by_keyboard(browser):
    from selenium.webdriver.common.keys import Keys

    point = browser.find_element("css selector", "#figure-rank_depth .point")
    browser.execute_script("arguments[0].focus()", point)
    readout = browser.find_element("css selector", "#figure-rank_depth .readout")
    first = readout.text
    assert first == point.get_attribute("aria-label")
    browser.switch_to.active_element.send_keys(Keys.TAB)
    assert browser.switch_to.active_element.get_attribute("class") == "point"
    assert readout.text and readout.text != first


def test_a_phone_needs_no_sideways_scrolling(browser):
    """At 390 pixels nothing but the tables' own boxes is wider than the page."""
    browser.execute_cdp_cmd(
        "Emulation.setDeviceMetricsOverride", {"width": 390, "height": 800, "deviceScaleFactor": 1, "mobile": True}
    )
    width = browser.execute_script("return document.documentElement.scrollWidth")
    browser.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})
    assert width <= 390


def test_headings_and_alternative_texts(browser):
    levels = [int(e.tag_name[1]) for e in browser.find_elements("css selector", "h1, h2, h3")]
    assert levels[0] == 1 and levels.count(1) == 1
    assert all(b - a <= 1 for a, b in itertools.pairwise(levels))
    assert all(e.get_attribute("aria-label") for e in browser.find_elements("css selector", "figure[role=group]"))


def test_texts_are_escaped(smoke, tmp_path):
    """A statement with markup in it is shown, not executed."""
    from rankattn.report.build import build

    out = tmp_path / "smoke"
    shutil.copytree(smoke.results, out, ignore=shutil.ignore_patterns("runs", "logs"))
    claims = pd.read_csv(out / "tables" / "claims.csv")
    claims.loc[0, "statement"] = "<script>alert(1)</script>"
    claims.to_csv(out / "tables" / "claims.csv", index=False)
    figures = [path.stem for path in (out / "figures").glob("*.svg")]
    html = build("smoke", out, figures, ["rank_depth"])
    assert "<script>alert" not in html and "&lt;script&gt;alert" in html


def test_snakemakes_own_report_is_made_without_network(smoke, snakemake, tmp_path):
    """``--report`` finds every caption and lists every figure and the page."""
    done = snakemake(smoke.folder, *SMOKE, "--report", tmp_path / "workflow.html")
    assert done.returncode == 0, done.stdout[-2000:]
    text = (tmp_path / "workflow.html").read_text(encoding="utf-8")
    assert all(f"{path.stem}.png" in text for path in (smoke.results / "figures").glob("*.svg"))
