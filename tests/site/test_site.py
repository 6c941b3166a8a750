"""The site as people read it: on a wide screen and a phone, in light and dark, from a server and from a folder."""

import re
from collections import Counter
from html import unescape
from importlib.resources import files
from urllib.parse import unquote, urljoin, urlsplit

import browsers
import pytest

from countermax import Cohort, Posterior, Trial

PHONE = 390
DATA = files("countermax") / "data"


@pytest.fixture(scope="module")
def pages(site):
    """Every page, without those of the repository that are only copied, and the explorer, which has its own tests."""
    found = [path.relative_to(site).as_posix() for path in sorted(site.rglob("*.html"))]
    return [page for page in found if not page.startswith(("repository/", "explorer/")) and page != "404.html"]


@pytest.fixture(scope="module")
def written(pages):
    """Pages that somebody wrote: not the entries of the reference."""
    return [page for page in pages if not page.startswith("api/")]


def test_every_picture_and_every_link_within_the_site_is_there(site, pages):
    missing = []
    for page in pages:
        for address in re.findall(r'(?:src|href)="([^"]*)"', (site / page).read_text()):
            target = urlsplit(urljoin(f"http://site/{page}", unescape(address)))
            if target.netloc == "site" and not (site / unquote(target.path).lstrip("/")).exists():
                missing.append(f"{page}: {address}")
    assert missing == []


def test_no_two_pages_share_a_title(site, pages):
    titles = Counter(re.search(r"<title>(.*?)</title>", (site / page).read_text())[1] for page in pages)
    assert [title for title, number in titles.items() if number > 1] == []


_SHOWN = "pre, pre code, table, img, math"
_WRAPPED = "pre:not(.columns *), pre code:not(.columns *), img, math"  # tables, and outputs in columns, scroll
_CUT = """(what) => Array.from(document.querySelectorAll(what))
  .filter((each) => each.offsetParent
    && (each.scrollWidth > each.clientWidth + 1 && each.tagName !== "IMG"
        || each.getBoundingClientRect().right > innerWidth + 1
        || each.getBoundingClientRect().left < each.closest("article, body").getBoundingClientRect().left - 1))
  .map((each) => each.outerHTML.slice(0, 100))"""


def test_nothing_is_cut_at_1280_pixels(open_page, served, pages):
    page = open_page()
    cut = {}
    for name in pages:
        page.goto(f"{served}/{name}")
        cut[name] = page.evaluate(_CUT, _SHOWN)
    assert {name: found for name, found in cut.items() if found} == {}


def test_no_page_is_wider_than_a_phone(open_page, served, pages):
    page = open_page(PHONE, is_mobile=True, has_touch=True)
    wide, cut = [], {}
    for name in pages:
        page.goto(f"{served}/{name}")
        if page.evaluate("document.documentElement.scrollWidth") > PHONE:
            wide.append(name)
        cut[name] = page.evaluate(_CUT, _WRAPPED)
    assert wide == []
    assert {name: found for name, found in cut.items() if found} == {}


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_axe_finds_nothing(open_page, served, written, scheme):
    page = open_page(color_scheme=scheme)
    faults = {}
    for name in [*written, "api/countermax.trial.html", "api/commands.html"]:
        page.goto(f"{served}/{name}")
        page.wait_for_timeout(100)  # the theme adds buttons when it has loaded
        faults[name] = browsers.axe_faults(
            page, None if scheme == "light" else ["color-contrast", "link-in-text-block"]
        )
    assert {name: found for name, found in faults.items() if found} == {}


@pytest.mark.parametrize("start", ["served", "site"])
@pytest.mark.parametrize(
    ("words", "leads_to"),
    [
        ("mRS", "glossary"),
        ("noncompliance", "glossary"),
        ("intention to treat", "glossary"),
        ("attributable fraction", "glossary"),
        ("effect variance", "glossary"),
        ("win ratio", "glossary"),
        ("Gumbel-max", "glossary"),
    ],
)
def test_words_that_people_search_for_lead_somewhere_also_from_a_folder(request, open_page, start, words, leads_to):
    where = request.getfixturevalue(start)
    page = open_page()
    page.goto(f"{where if start == 'served' else where.as_uri()}/index.html")
    page.keyboard.press("/")
    page.keyboard.type(words)
    page.wait_for_selector(".md-search-result__item a")
    page.wait_for_timeout(300)
    found = page.locator(".md-search-result__item a").evaluate_all("(all) => all.map((each) => each.href)")
    assert any(f"/{leads_to}.html" in address for address in found[:4])


def test_formulas_are_typeset(open_page, served):
    page = open_page()
    for name in ("closed_form", "stability", "sharing", "bounds", "prior_art", "impossible"):
        page.goto(f"{served}/{name}.html")
        sizes = page.locator("math").evaluate_all("(all) => all.map((each) => each.getBoundingClientRect().height)")
        assert sizes
        assert min(sizes) > 5
        prose = page.evaluate(
            """() => { const body = document.querySelector("article").cloneNode(true);
                body.querySelectorAll("pre, code").forEach((each) => each.remove()); return body.textContent; }"""
        )
        assert not re.search(r"\\[a-z]+|\$", prose)


def test_the_explorer_is_live_pictured_at_home_and_a_copied_link_leads_there(open_page, served):
    page = open_page(permissions=["clipboard-read", "clipboard-write"])
    page.goto(f"{served}/index.html")
    assert page.locator("article a img").first.evaluate("(each) => each.naturalWidth") > 1000
    page.locator("article a:has(img)").first.click()
    page.wait_for_selector("#table tbody tr")
    page.click("[data-preset=churn]")
    page.click("#copy-link")
    page.wait_for_selector("#done:not(:empty)")
    link = page.evaluate("navigator.clipboard.readText()")
    assert link.startswith(f"{served}/explorer/index.html#")
    again = open_page()
    again.goto(link)
    assert again.evaluate("Explorer.state().names[0]") == "cancels"


def test_the_home_page_says_where_to_start(open_page, served):
    page = open_page()
    page.goto(f"{served}/index.html")
    heads = page.locator("article table").first.locator("th").all_inner_texts()
    assert heads == ["you have", "you want", "start here"]
    for address in (
        page.locator("article table").first.locator("a").evaluate_all("(all) => all.map((each) => each.href)")
    ):
        assert page.request.get(address).ok


@pytest.fixture(scope="module")
def reports(tmp_path_factory):
    folder = tmp_path_factory.mktemp("reports")
    score = {"dead": 0, "hospital": 0.35, "nursing home": 0.6, "home": 1}
    columns = {"outcome": "outcome", "arm": "arm", "control": "placebo", "treated": "drug"}
    trial = Trial(DATA / "stroke_trial.csv", score=score, **columns)
    ward = Cohort(DATA / "ward_log.csv", DATA / "ward_policy.csv", posterior=Posterior(num_draws=0))
    answers = {"compare": trial.compare("dead"), "causes": trial.causes("dead"), "story": ward.explain("52")}
    for name, answer in answers.items():
        answer.write_page(folder / f"{name}.html")
    return folder


@pytest.mark.parametrize("name", ["compare", "causes", "story"])
@pytest.mark.parametrize("width", [1280, PHONE])
def test_a_report_fits_the_screen(open_page, reports, name, width):
    page = open_page(width, is_mobile=width == PHONE)
    page.goto((reports / f"{name}.html").as_uri())
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    assert browsers.axe_faults(page) == []
    if width > PHONE:
        assert page.evaluate(_CUT, _SHOWN) == []
