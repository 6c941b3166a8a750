"""The page as people use it: mouse, keyboard, phone, dark and light, links and exports."""

import csv
import io
import json
import re
from urllib.parse import urlencode

import numpy as np
import pytest

from countermax import Trial, Worlds
from countermax.couplings._words import NAMES
from countermax.explorer import page_path

PHONE = {"viewport": {"width": 360, "height": 740}, "has_touch": True, "is_mobile": True}
SCHEMES = ("light", "dark")

SAME_LAW = ("comonotone", "vector-quantile")  # as the inverse CDF by score, where there is one score


def _state(page):
    return page.evaluate("Explorer.state()")


def _settled(page):
    """Waits for the intervals, which are computed in slices; a policy of the page forbids waiting by text."""
    for _ in range(600):
        if page.evaluate("!Explorer.state().counts || Explorer.intervals() !== null"):
            page.wait_for_timeout(50)
            return
        page.wait_for_timeout(50)
    raise AssertionError("no intervals within half a minute")


def _painted(page):
    page.evaluate("new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))")


def test_it_is_one_small_file_that_names_no_other():
    text = page_path().read_text()
    assert len(text.encode()) < 200_000
    addresses = set(re.findall(r"""(?:https?:)?//[\w.-]+\.\w+[^\s"'`<]*""", text))
    assert addresses == {"http://www.w3.org/2000/svg"}  # a name, not a place: nothing is fetched
    assert not re.search(r"\b(fetch|XMLHttpRequest|WebSocket|EventSource|sendBeacon|importScripts)\b\s*\(", text)
    assert "default-src 'none'" in text


def test_intervals_follow_the_hand_and_no_old_ones_are_shown(open_page):
    """They are computed at once, or when the hand rests; never those of other counts beside new ones."""
    page = open_page()
    _settled(page)
    for count in range(60, 70):
        page.fill('[data-number="0,0"]', str(count))
        shown, now = page.evaluate("[Explorer.intervals(), Intervals.solve(Explorer.state())]")
        assert shown in (None, now)
    _settled(page)
    assert page.inner_text("#facts").count("95 % confidence interval:") == 3


def test_dragging_a_slider_redraws_every_picture(open_page):
    page = open_page()
    page.click("[data-preset=churn]")
    _painted(page)
    parts = ("facts", "mechanisms", "ranges", "flows", "matrix", "dial", "table", "race", "python")
    before = {part: page.inner_html(f"#{part}") for part in parts}
    slider = page.locator('[data-share="1,0"]')
    box = slider.bounding_box()
    page.mouse.move(box["x"] + box["width"] * 0.1, box["y"] + box["height"] / 2)
    page.mouse.down()
    page.mouse.move(box["x"] + box["width"] * 0.7, box["y"] + box["height"] / 2, steps=4)
    _painted(page)
    assert [part for part in parts if page.inner_html(f"#{part}") == before[part]] == []
    page.mouse.up()
    q = _state(page)["q"]
    assert 0.6 < q[0] < 0.8
    assert sum(q) == pytest.approx(1, abs=1e-5)
    assert q[1] / q[2] == pytest.approx(0.16 / 0.6, abs=1e-4)  # the others share what is left as they did


def test_a_slider_of_counts_does_not_run_away_from_the_hand(open_page):
    page = open_page()
    slider = page.locator('[data-share="0,0"]')
    most, box = float(slider.get_attribute("max")), slider.bounding_box()
    page.mouse.move(box["x"] + box["width"] * 0.3, box["y"] + box["height"] / 2)
    page.mouse.down()
    page.mouse.move(box["x"] + box["width"] + 20, box["y"] + box["height"] / 2, steps=12)
    assert _state(page)["p"] == [most, 84, 96, 108]
    page.mouse.up()
    assert float(slider.get_attribute("max")) > most


def test_everything_can_be_done_with_the_keyboard(open_page):
    page = open_page()
    page.click("[data-preset=churn]")
    page.focus('[data-share="0,1"]')
    before = _state(page)["p"][1]
    for _ in range(3):
        page.keyboard.press("ArrowRight")
    assert _state(page)["p"][1] == pytest.approx(before + 0.015, abs=1e-6)
    page.focus('[name=seen][value="0"]')
    page.keyboard.press("ArrowDown")
    assert _state(page)["x"] == 1
    page.focus('[name=mechanism][value="Gumbel-max"]')
    page.keyboard.press("ArrowDown")
    assert _state(page)["mechanism"] == "inverse CDF"
    page.focus("#rho")
    page.keyboard.press("Home")
    assert (_state(page)["rho"], _state(page)["mechanism"]) == (0, "dial")
    page.focus("#next")
    page.keyboard.press("Enter")
    assert _state(page)["draw"] == 1
    page.focus("#x")
    page.keyboard.press("ArrowDown")
    assert _state(page)["x"] == 2


def test_tab_reaches_every_control_in_the_order_of_the_page(open_page):
    page = open_page()
    reached = []
    for _ in range(90):
        page.keyboard.press("Tab")
        name = page.evaluate("(document.activeElement.id || document.activeElement.getAttribute('aria-label') || '')")
        if name == "copy-python":
            break
        reached.append(name)
    assert {"theme", "x", "y", "add", "rho", "next", "seed", "copy-link", "save-png", "save-csv"} <= set(reached)
    assert "Count of dead under placebo" in reached


def test_what_was_seen_can_be_clicked_in_the_flows(open_page):
    page = open_page()
    page.click('#flows [data-x="2"] text')
    assert _state(page)["x"] == 2
    assert page.locator('[name=seen][value="2"]').is_checked()


def test_outcomes_can_be_named_added_and_removed_from_two_to_eight(open_page):
    page = open_page()
    page.fill('[data-name="0"]', 'lost & "found" <b>')
    _painted(page)
    assert 'lost & "found" <b>' in page.inner_text("#legend")
    while page.locator("#add").is_enabled():
        page.click("#add")
    assert len(_state(page)["names"]) == 8
    while page.locator("[data-remove]").first.is_enabled():
        page.locator("[data-remove]").first.click()
    assert len(_state(page)["names"]) == 2


def test_a_row_of_counts_can_be_pasted(open_page):
    page = open_page()
    page.click("[data-preset=token]")
    page.fill("#paste0", "12\t30;5, 7")
    page.keyboard.press("Tab")
    page.click("#confirm")
    state = _state(page)
    assert (state["counts"], state["p"], len(state["q"]), len(state["names"])) == (True, [12, 30, 5, 7], 4, 4)
    page.fill("#paste1", "3 4 5 half")
    page.keyboard.press("Tab")
    assert "whole numbers" in page.inner_text("#complaint")
    assert _state(page)["q"] == state["q"]


@pytest.mark.parametrize("preset", ["trial", "churn", "token"])
def test_a_link_holds_the_whole_state(open_page, preset):
    page = open_page()
    page.click(f"[data-preset={preset}]")
    page.fill('[data-name="1"]', "ein & zwei = #3")
    page.check('[name=mechanism][value="maximal"]')
    page.fill("#seed", "7")
    page.click("#many")
    page.wait_for_timeout(300)
    state, link = _state(page), page.evaluate("location.hash")
    assert link[1:] == page.evaluate("Explorer.link()")
    again = open_page(link)
    other = _state(again)
    state.pop("about")
    other.pop("about")
    assert other == state
    assert again.inner_html("#facts").split("<small>")[0] == page.inner_html("#facts").split("<small>")[0]


def _link(**values):
    asked = {"o": "ab", "w": "pq", "p": "1 1", "q": "1 1", "score": "0 1", "x": 0, "y": 1, "m": "maximal", **values}
    return "#" + urlencode(asked, doseq=True).replace("o=ab", "o=a&o=b").replace("w=pq", "w=p&w=q")


@pytest.mark.parametrize(
    "fragment",
    [
        "#p=1",
        "#%ff",
        "#x",
        _link(p="1 x"),
        _link(m="toString"),
        _link(score="0 1e300"),
        _link(p="1e14 1", counts=1),
        _link(p="3.7 1", counts=1),
        _link(o=["a", "a "]),
        _link(w=["p", "p"]),
    ],
)
def test_a_link_that_cannot_be_read_is_told(open_page, fragment):
    page = open_page(fragment)
    assert "could not be read" in page.inner_text("#complaint")
    assert _state(page)["names"][0] == "dead"


def _by_coupling(text):
    return {row["coupling"]: row for row in csv.DictReader(io.StringIO(text))}


@pytest.mark.parametrize("preset", ["trial", "churn"])
def test_csv_and_python_lines_give_the_same_numbers(open_page, preset):
    page = open_page()
    page.click(f"[data-preset={preset}]")
    spoken = {}
    exec(page.evaluate("Explorer.python()").replace("print(result)", ""), spoken)
    compared, limits = _compared(page, spoken["result"])
    assert compared > 40
    assert limits > 80 or preset == "churn"


def test_an_answer_opens_in_the_explorer_with_its_own_numbers(open_page, tmp_path):
    names, score = ["dead", "ill & <b> = #3", "well"], {"dead": 0, "ill & <b> = #3": 1.5, "well": 2}
    numbers = dict(zip(names, (30, 40, 31), strict=True)), dict(zip(names, (10, 30, 60), strict=True))
    trial = Trial.from_counts(*numbers, score=score, names=("usual care", "drug"))
    worlds = Worlds([0.3, 0.1, 0.6], [0.1, 0.3, 0.6], labels=names, score=score)
    for answer in (trial.compare(names[1], couplings="all", level=0.9), worlds.compare(names[0])):
        page = open_page(file=answer.explore(tmp_path / "explorer.html", overwrite=True))
        assert page.inner_text("#complaint") == ""
        assert page.evaluate(
            "document.querySelector('#python').scrollWidth <= document.querySelector('#python').clientWidth"
        )
        state = _state(page)
        assert state["about"].startswith("From an answer")
        assert (state["names"], state["worlds"], state["x"]) == (names, list(answer.worlds), answer.seen)
        assert state["counts"] == (answer.level is not None)
        compared, limits = _compared(page, answer)
        assert compared > 15
        assert limits > 40 or answer.level is None


def _compared(page, answer):
    """Holds the page's numbers to those of an answer; returns how many there were, and how many limits of intervals."""
    _settled(page)
    got = _by_coupling(page.evaluate("Explorer.csv()"))
    compared = limits = 0
    for row in answer.rows:
        own, here = row.quantity.startswith("P("), row.about == "this person"
        if row.about == "two people" or (here and row.quantity in ("better", "worse", "same")):
            continue  # not among the columns of the page
        column = row.quantity[2:-1] if own else row.quantity.replace(" ", "_")
        name = row.coupling
        cells = {name: row.value} if row.lower is None else {f"{name}, lower": row.lower, f"{name}, upper": row.upper}
        for line, value in cells.items():
            assert float(got[line][column]) == pytest.approx(value, abs=1e-12), (line, column)
            compared += 1
        for side, limit in (("lower", row.ci_lower), ("upper", row.ci_upper)):
            if limit is not None:
                shown = got[name if row.lower is None else f"{name}, {side}"][f"{column}_ci_{side}"]
                assert float(shown) == pytest.approx(limit, abs=1e-7), (name, column, side)
                limits += 1
    return compared, limits


def test_python_lines_name_the_dial_where_it_is_chosen(open_page):
    page = open_page()
    page.click("[data-preset=churn]")
    page.fill("#rho", "0.3")
    for _ in range(200):  # drawn with the next frame, which a busy machine is late with
        lines = page.inner_text("#python")
        if "SharedGumbelMax(0.3)" in lines:
            break
        page.wait_for_timeout(50)
    assert '"dial": countermax.SharedGumbelMax(0.3)' in lines
    assert all(f'"{name}"' in lines for name in NAMES if name not in SAME_LAW)
    compile(lines, "python", "exec")


def test_copied_python_keeps_the_names_of_outcomes_and_arms(open_page):
    page = open_page()
    page.fill("#world0", 'usual "care"')
    page.fill('[data-name="0"]', "  ")
    _settled(page)
    spoken = {}
    exec(page.evaluate("Explorer.python()").replace("print(result)", ""), spoken)
    assert spoken["result"].seen == 0
    assert 'usual "care"' in str(spoken["result"])
    assert "outcome 1" in str(spoken["result"])


@pytest.mark.parametrize(("button", "name"), [("save-png", "countermax.png"), ("save-csv", "countermax.csv")])
def test_files_are_saved(open_page, button, name, tmp_path):
    page = open_page(accept_downloads=True)
    with page.expect_download() as waiting:
        page.click(f"#{button}")
    waiting.value.save_as(tmp_path / name)
    data = (tmp_path / name).read_bytes()
    assert waiting.value.suggested_filename == name
    if name.endswith("png"):
        assert data.startswith(b"\x89PNG")
        assert len(data) > 50_000
        assert int.from_bytes(data[16:20], "big") == 2400
    else:
        assert data.decode() == page.evaluate("Explorer.csv()")


def test_the_race_is_the_same_for_one_seed_and_tends_to_the_exact_answer(open_page):
    page = open_page()
    page.click("#many")
    first = page.inner_html("#race")
    page.click("#next")
    assert page.inner_html("#race") != first
    again = open_page(f"#{page.evaluate('Explorer.link()').replace('draw=1001', 'draw=1000')}")
    assert again.inner_html("#race") == first
    last = open_page(f"#{page.evaluate('Explorer.link()').replace('draw=1001', 'draw=19999')}")
    words = re.search(r"far, ([\d,]+) gave .*? these, ([\d,]+) gave .*Gumbel-max: (\d\.\d+)", last.inner_text("#tally"))
    seen, asked, exact = (float(each.replace(",", "")) for each in words.groups())
    # Six standard errors and the rounding of what is shown: a false alarm in five hundred million.
    assert abs(asked / seen - exact) < 6 * np.sqrt(exact * (1 - exact) / seen) + 0.005


def test_the_next_draw_that_gives_what_was_seen_does(open_page):
    page = open_page()
    for _ in range(3):
        page.click("#next-seen")
        assert "dead under placebo" in page.inner_text("#race-caption")


def test_every_caption_names_the_mechanism_and_what_is_left_out(open_page):
    page = open_page()
    for preset in ("trial", "churn"):
        page.click(f"[data-preset={preset}]")
        page.check('[name=mechanism][value="maximal"]')
        _painted(page)
        for caption in ("ranges-caption", "coupling-caption"):
            assert "maximal" in page.inner_text(f"#{caption}")
        for caption in ("ranges-caption", "coupling-caption", "dial-caption", "effect-caption", "leftout"):
            assert re.search("[Ss]ampl", page.inner_text(f"#{caption}"))
        assert "which mechanism is true" in page.inner_text("#leftout")
        assert "says nothing of other mechanisms" in page.inner_text("#dial-caption")


@pytest.mark.parametrize("preset", ["trial", "churn", "token"])
def test_a_phone_needs_no_sideways_scrolling_and_has_room_for_fingers(open_page, preset):
    page = open_page(**PHONE)
    page.tap(f"[data-preset={preset}]")
    _painted(page)
    assert page.evaluate("document.documentElement.scrollWidth") <= 360
    too_wide = page.evaluate(
        """() => Array.from(document.querySelectorAll("main svg, main input, main button, main p, main pre"))
            .filter((each) => each.getBoundingClientRect().right > innerWidth + 1 && !each.closest(".scroll, pre"))
            .map((each) => each.outerHTML.slice(0, 80))"""
    )
    assert too_wide == []
    sizes = page.evaluate(
        """() => Array.from(document.querySelectorAll("button, input[type=range]")).filter((each) => each.offsetParent
            && !each.classList.contains("skip") && !each.disabled).map((each) => each.getBoundingClientRect().height)"""
    )
    assert min(sizes) >= 24


_NAMELESS = """() => Array.from(document.querySelectorAll(
    "button, input, select, textarea, svg[role=img], [tabindex='0']"))
  .filter((each) => !each.closest("[aria-hidden=true]"))
  .filter((each) => !((each.getAttribute("aria-label") || "").trim() || (each.labels && Array.from(each.labels)
    .some((label) => label.textContent.trim())) || (each.tagName === "BUTTON" && each.textContent.trim())))
  .map((each) => each.outerHTML.slice(0, 120))"""


def test_every_control_and_picture_has_an_accessible_name(open_page):
    page = open_page()
    page.click("#add")
    _painted(page)
    assert page.evaluate(_NAMELESS) == []
    repeated = page.evaluate(
        """() => { const names = Array.from(document.querySelectorAll("#worlds input, #worlds button"))
            .map((each) => each.type + (each.getAttribute("aria-label") || each.labels && each.labels[0]
              && each.labels[0].textContent || each.textContent));
            return names.filter((each, i) => names.indexOf(each) !== i); }"""
    )
    assert repeated == []
    tree = page.locator("main").aria_snapshot()
    assert 'slider "Count of dead under placebo"' in tree
    assert 'radio "dead was seen under placebo"' in tree
    assert page.evaluate("document.documentElement.lang") == "en"
    assert page.locator("h1").count() == 1


_CONTRASTS = """() => {
  const numbers = (text) => (text.match(/[\\d.]+/g) || []).map(Number);
  const parse = (text) => [...numbers(text), 1].slice(0, 4);
  const hex = (text) => [1, 3, 5].map((i) => parseInt(text.slice(i, i + 2), 16));
  const over = (top, under) => top.slice(0, 3).map((v, i) => v * top[3] + under[i] * (1 - top[3]));
  const behind = (element) => {
    const layers = [];
    for (let each = element; each; each = each.parentElement) {
      layers.push(parse(getComputedStyle(each).backgroundColor));
    }
    return layers.reverse().reduce((under, top) => over(top, under), [255, 255, 255]);
  };
  const linear = (v) => (v / 255 <= 0.04045 ? v / 255 / 12.92 : ((v / 255 + 0.055) / 1.055) ** 2.4);
  const light = (c) => c.map(linear)
    .reduce((sum, v, i) => sum + v * [0.2126, 0.7152, 0.0722][i], 0);
  const found = [];
  const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  while (walker.nextNode()) {
    const element = walker.currentNode.parentElement, style = getComputedStyle(element);
    if (!walker.currentNode.textContent.trim() || element.closest("script, style, noscript, option, title")) continue;
    if (!element.getClientRects().length || style.visibility === "hidden") continue;
    const inPicture = element.closest("svg");
    const under = element.dataset.on ? hex(element.dataset.on) : behind(inPicture ? inPicture.parentElement : element);
    const ink = over(parse(inPicture ? style.fill : style.color), under);
    const [a, b] = [light(ink), light(under)], ratio = (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
    const large = parseFloat(style.fontSize) >= 24;
    if (ratio < (large ? 3 : 4.5)) found.push([walker.currentNode.textContent.trim().slice(0, 40), ratio.toFixed(2)]);
  }
  for (const input of document.querySelectorAll("input[type=text], input[type=number], select")) {
    const [a, b] = [light(parse(getComputedStyle(input).color).slice(0, 3)), light(behind(input))];
    if ((Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05) < 4.5) found.push([input.outerHTML.slice(0, 60), "input"]);
  }
  return found;
}"""


@pytest.mark.parametrize("scheme", SCHEMES)
@pytest.mark.parametrize("device", [{}, PHONE], ids=["desktop", "phone"])
def test_text_has_the_contrast_that_aa_asks_for(open_page, scheme, device):
    page = open_page(color_scheme=scheme, **device)
    for preset in ("trial", "token"):
        page.click(f"[data-preset={preset}]")
        for _ in range(2):
            page.click("#add")
        _settled(page)
        assert page.evaluate(_CONTRASTS) == []


def test_dark_and_light_follow_the_system_and_the_button(open_page):
    page = open_page(color_scheme="dark")

    def paper():
        return page.evaluate("getComputedStyle(document.body).backgroundColor")

    dark = paper()
    page.click("#theme")
    assert paper() != dark
    assert page.evaluate(_CONTRASTS) == []
    page.click("#theme")
    assert paper() == dark


def test_impossible_outcomes_and_nobody_are_answered_in_words(open_page):
    values = {"p": "0 3 5", "q": "2 0 4", "score": "0 1 2", "x": 0, "y": 1, "counts": 1, "m": "Gumbel-max"}
    page = open_page(
        "#" + urlencode([*(("o", each) for each in "abc"), ("w", "here"), ("w", "there"), *values.items()])
    )
    _settled(page)
    assert "say nothing about such a person" in page.inner_text("#lead")
    assert "NaN" not in page.inner_text("body")
    page.click("#next-seen")
    assert "impossible there" in page.inner_text("#tally")
    page.check('[name=seen][value="1"]')
    _settled(page)
    assert "NaN" not in page.inner_text("body")
    json.dumps(page.evaluate("Explorer.intervals()"), allow_nan=False)


def test_a_world_cannot_be_emptied(open_page):
    page = open_page(
        "#"
        + urlencode(
            [
                ("o", "a"),
                ("o", "b"),
                ("w", "here"),
                ("w", "there"),
                ("p", "1 0"),
                ("q", "1 1"),
                ("score", "0 1"),
                ("x", 0),
                ("y", 1),
                ("counts", 1),
                ("m", "maximal"),
            ]
        )
    )
    page.fill('[data-number="0,0"]', "0")
    assert "must be possible" in page.inner_text("#complaint")
    assert _state(page)["p"] == [1, 0]


def test_a_negative_zero_in_a_link_is_a_zero(open_page):
    page = open_page(_link(p="-0 1", x=1))
    assert str(_state(page)["p"][0]) == "0"
    assert "NaN" not in page.inner_html("main")


_PASTED = """([id, words]) => {
  const held = new DataTransfer();
  held.setData("text", words);
  const event = new ClipboardEvent("paste", { clipboardData: held, bubbles: true, cancelable: true });
  document.getElementById(id).dispatchEvent(event);
}"""


@pytest.mark.parametrize(
    ("words", "first", "second"),
    [
        ("1,200 90 60 30", [1200, 90, 60, 30], None),
        ("1 200, 1,090, 60, 30", [1200, 1090, 60, 30], None),
        ("1,200;90;60;30", [1200, 90, 60, 30], None),
        ("1,200\t90\t60\t30", [1200, 90, 60, 30], None),
        ("120,90,60,300", [120, 90, 60, 300], None),
        ("1,200\n1,090\n60\n30", [1200, 1090, 60, 30], None),
        ("120\t90\t60\t30\n70\t80\t90\t1,060", [120, 90, 60, 30], [70, 80, 90, 1060]),
    ],
)
def test_cells_of_a_spreadsheet_are_whole_numbers_and_two_rows_two_arms(open_page, words, first, second):
    page = open_page()
    before = _state(page)["q"]
    page.evaluate(_PASTED, ["paste0", words])
    state = _state(page)
    assert (state["p"], state["q"]) == (first, second or before)


def test_more_numbers_than_outcomes_ask_before_they_add(open_page):
    page = open_page()
    before = _state(page)
    page.evaluate(_PASTED, ["paste0", "5 6 7 8 9"])
    assert "5 numbers for 4 outcomes: this would add 1 outcome" in page.inner_text("#asking")
    assert _state(page) == before
    page.click("#confirm")
    assert (_state(page)["p"], len(_state(page)["q"])) == ([5, 6, 7, 8, 9], 5)


def test_pasting_fewer_counts_than_outcomes_asks_before_it_deletes(open_page):
    page = open_page()
    before = _state(page)
    for answer in ("keep", "confirm"):
        page.fill("#paste0", "5, 6, 7")
        page.keyboard.press("Enter")
        assert "remove “home”" in page.inner_text("#asking")
        assert _state(page) == before
        page.click(f"#{answer}")
        assert page.is_hidden("#asking")
        assert (_state(page) == before) == (answer == "keep")
    assert (_state(page)["p"], _state(page)["q"]) == ([5, 6, 7], [64, 76, 108])
    page.click("#undo")
    assert _state(page) == before
    assert page.is_disabled("#undo")


def test_everything_can_be_undone_and_a_drag_at_once(open_page):
    page = open_page()
    states = [_state(page)]
    slider = page.locator('[data-share="0,0"]').bounding_box()
    page.mouse.move(slider["x"] + slider["width"] * 0.3, slider["y"] + slider["height"] / 2)
    page.mouse.down()
    page.mouse.move(slider["x"] + slider["width"] * 0.8, slider["y"] + slider["height"] / 2, steps=6)
    page.mouse.up()
    states.append(_state(page))
    page.locator('[data-name="1"]').press_sequentially(" ward")
    states.append(_state(page))
    page.click('[data-remove="2"]')
    states.append(_state(page))
    page.click("[data-preset=churn]")
    states.append(_state(page))
    page.click("#as-counts")
    assert len({json.dumps(each) for each in [*states, _state(page)]}) == 6
    for want in reversed(states):
        page.keyboard.press("Control+z")
        assert _state(page) == want


@pytest.mark.parametrize("typed", ["3.7", "-1", "1e14", "1000000001", ""])
def test_what_is_no_count_of_people_is_refused_where_it_is_typed(open_page, typed):
    page = open_page()
    box = page.locator('[data-number="1,2"]')
    before = _state(page)["q"]
    box.fill("")
    box.press_sequentially(typed)
    assert box.get_attribute("aria-invalid") == "true"
    assert "whole number of people" in page.inner_text("#complaint")
    said, beside = (page.locator(each).bounding_box() for each in ("#complaint", '[data-number="1,2"]'))
    assert 0 < said["y"] - beside["y"] < 80
    assert _state(page)["q"] == before
    box.blur()
    page.wait_for_timeout(50)
    assert box.input_value() == str(before[2])


def test_what_is_no_probability_or_no_score_is_refused(open_page):
    page = open_page()
    page.click("[data-preset=churn]")
    before = _state(page)
    page.fill('[data-number="0,1"]', "1.2")
    assert "from 0 to 1, got 1.2" in page.inner_text("#complaint")
    page.fill('[data-score="1"]', "1e300")
    assert "score is a number from" in page.inner_text("#complaint")
    assert _state(page) == before


@pytest.mark.parametrize(("field", "taken"), [('[data-name="0"]', "home"), ("#world1", "placebo")])
def test_a_name_that_is_taken_is_refused(open_page, field, taken):
    page = open_page()
    before = _state(page)
    page.fill(field, f" {taken} ")
    assert f"“{taken}” is taken" in page.inner_text("#complaint")
    assert page.locator(field).get_attribute("aria-invalid") == "true"
    assert _state(page) == before
    page.fill(field, f"{taken} 2")
    assert page.inner_text("#complaint") == ""
    assert f"{taken} 2" in (*_state(page)["names"], *_state(page)["worlds"])


LONG = [
    "Dead", "Vegetative state", "Lower severe disability", "Upper severe disability", "Lower moderate disability",
    "Upper moderate disability", "Lower good recovery", "Upper good recovery, back at work",
]  # fmt: skip
_EIGHT = _link(
    o=LONG, w=["decompressive craniectomy", "medical management"], p="10 20 30 40 50 60 0 80",
    q="80 70 60 50 40 30 20 10", score="0 1 2 3 4 5 6 7", counts=1, m="Gumbel-max",
)  # fmt: skip

_CROSSED = """() => ["ranges", "flows", "matrix", "dial", "race"].flatMap((id) => {
  const picture = document.getElementById(id);
  const texts = Array.from(picture.querySelectorAll("text")), frame = picture.getBoundingClientRect();
  const boxes = texts.map((each) => each.getBoundingClientRect());
  const out = texts.filter((_, i) => boxes[i].left < frame.left - 1 || boxes[i].right > frame.right + 1);
  const met = texts.filter((_, i) => boxes.some((other, j) => j < i && other.left + 1 < boxes[i].right
    && boxes[i].left + 1 < other.right && other.top + 4 < boxes[i].bottom && boxes[i].top + 4 < other.bottom));
  return [...out, ...met].map((each) => `${picture.id}: ${each.textContent}`);
})"""


@pytest.mark.parametrize("device", [{"viewport": {"width": 1280, "height": 900}}, PHONE], ids=["desktop", "phone"])
def test_eight_long_names_are_shown_whole_and_apart(open_page, device):
    page = open_page(_EIGHT, **device)
    _settled(page)
    assert page.evaluate("document.documentElement.scrollWidth") <= device["viewport"]["width"]
    assert page.evaluate(_CROSSED) == []
    for picture in ("ranges", "flows", "matrix", "race"):
        words = "".join(page.locator(f"#{picture} text").all_text_contents())
        letters = re.sub(r"\s", "", words)
        assert [each for each in LONG if re.sub(r"\s", "", each) not in letters] == []
        assert "…" not in words
    cut = page.evaluate(
        """() => Array.from(document.querySelectorAll("#worlds input[type=text]:not([id^=paste]), .world span"))
            .filter((each) => each.scrollWidth > each.clientWidth + 1).map((each) => each.value || each.textContent)"""
    )
    assert cut == []


_ENDLESS = ["x" * 3000, "x" * 2999 + "y", "word " * 600, "ö<b>" * 750, "W" * 41, "dead"]


@pytest.mark.parametrize("width", [1280, 900, 390])
def test_names_of_thousands_of_letters_are_shortened_and_break_nothing(open_page, width):
    link = _link(
        o=_ENDLESS, w=["p" * 3000, "p" * 2999 + "q"], p="10 20 30 40 50 60", q="60 50 40 30 20 10",
        score="0 1 2 3 4 5", counts=1, m="Gumbel-max",
    )  # fmt: skip
    page = open_page(link, viewport={"width": width, "height": 900})
    _settled(page)
    assert page.evaluate("document.documentElement.scrollWidth") == width
    assert page.evaluate(_CROSSED) == []
    shown = page.locator("#legend li").all_inner_texts()
    assert len(set(shown)) == len(_ENDLESS)
    assert max(map(len, shown)) == 40
    assert shown[-1] == "dead"
    spoken = {}
    exec(page.evaluate("Explorer.python()").replace("print(result)", ""), spoken)
    assert spoken["labels"] == [each.strip() for each in _ENDLESS]  # what is computed with keeps its name


@pytest.mark.parametrize("width", [320, 640, 900, 1000, 1280])
def test_every_width_has_room_and_ranges_stay_in_one_line(open_page, width):
    page = open_page(viewport={"width": width, "height": 900})
    _settled(page)
    assert page.evaluate("document.documentElement.scrollWidth") == width
    texts = page.locator("#table td").all_inner_texts()
    assert any(re.fullmatch(r"0\.150 to 1\.000\s+0\.\d{3} to 1\.000", each) for each in texts)
    assert not any("–" in each for each in texts)
    wrapped = page.evaluate(
        """() => Array.from(document.querySelectorAll("#table td, #table td small, .facts .big")).filter((each) => {
          const range = document.createRange(), tops = new Set();
          each.childNodes.forEach((node) => { if (node.nodeType === 3) { range.selectNodeContents(node);
            for (const box of range.getClientRects()) tops.add(Math.round(box.top)); } });
          return tops.size > 1; }).map((each) => each.innerText)"""
    )
    assert wrapped == []
    assert "Optimal" not in page.inner_text("#effect-caption")
    room = page.locator("#worlds [data-name]").first.evaluate("(each) => each.clientWidth")
    assert room > 80


@pytest.mark.parametrize("fragment", ["", _EIGHT], ids=["trial", "eight"])
def test_print_cuts_no_number(open_page, fragment):
    page = open_page(fragment, viewport={"width": 718, "height": 1000})
    _settled(page)
    page.emulate_media(media="print")
    cut = "(all) => all.filter((each) => each.scrollWidth > each.clientWidth).map((each) => each.value)"
    assert page.locator("#outcomes input:not([type=range])").evaluate_all(cut) == []
    for row in page.locator("#outcomes .world").all():  # an arm and its count are in one line
        name, count = (row.locator(each).bounding_box() for each in ("span", "[data-number]"))
        assert name["y"] < count["y"] + count["height"] / 2 < name["y"] + name["height"]


@pytest.mark.parametrize("scheme", SCHEMES)
def test_print_keeps_counts_legend_and_columns_in_ink_on_paper(open_page, scheme):
    page = open_page(_EIGHT, color_scheme=scheme, viewport={"width": 718, "height": 1000})  # A4 at 96 dots an inch
    _settled(page)
    page.emulate_media(media="print")
    page.evaluate("dispatchEvent(new Event('beforeprint'))")
    assert page.evaluate(_CONTRASTS) == []
    assert page.locator("#outcomes [data-number]").evaluate_all("(all) => all.every((each) => each.offsetWidth > 20)")
    assert page.locator("#legend li").evaluate_all("(all) => all.every((each) => each.offsetHeight > 5)")
    assert page.evaluate("getComputedStyle(document.querySelector('.chip')).printColorAdjust") == "exact"
    paper = page.evaluate("document.documentElement.clientWidth")
    ends = page.locator("#table th, #table td, main svg").evaluate_all(
        "(all) => all.map((each) => each.getBoundingClientRect().right)"
    )
    assert max(ends) <= paper
    assert page.is_hidden("#undo")
    page.evaluate("dispatchEvent(new Event('afterprint'))")
    assert page.evaluate("document.documentElement.dataset.theme") is None


@pytest.mark.parametrize("scheme", SCHEMES)
@pytest.mark.parametrize("device", [{}, PHONE], ids=["desktop", "phone"])
def test_axe_finds_nothing(open_page, axe, scheme, device):
    page = open_page(_EIGHT, color_scheme=scheme, **device)
    _settled(page)
    assert axe(page) == []
    page.fill('[data-number="0,0"]', "3.7")
    assert axe(page) == []
    page.fill("#paste0", "1 2 3")
    page.keyboard.press("Enter")
    assert axe(page) == []
