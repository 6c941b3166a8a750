"""The page in a browser, and its formulas in Node.js; where there is no browser, a loud line says so."""

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))

import browsers

from countermax.explorer import page_path

_NODE = """
const fs = require("fs"), vm = require("vm");
const { code, call, questions } = JSON.parse(fs.readFileSync(0));
vm.runInThisContext(code);
const solve = vm.runInThisContext(call);
process.stdout.write(JSON.stringify(questions.map((each) => solve(each))));
"""


def pytest_terminal_summary(terminalreporter):
    missing = browsers.missing()
    if missing:
        also = "" if shutil.which("node") else "; without Node.js JavaScript is compared with Python in a browser alone"
        terminalreporter.write_line(f"\n{missing}{also}\n", red=True, bold=True)


@pytest.fixture(scope="session")
def browser():
    yield from browsers.started()


@pytest.fixture
def open_page(browser):
    """Opens the page; when the test ends, nothing may be on the console and nobody else may have been asked."""
    opened, heard, asked = [], [], []

    def start(fragment="", file=None, **settings):
        context = browser.new_context(**{"viewport": {"width": 1360, "height": 900}, **settings})
        page = context.new_page()
        page.on("console", lambda message: heard.append(message.text))
        page.on("pageerror", lambda error: heard.append(str(error)))
        context.on("request", lambda request: asked.append(request.url))
        page.goto(f"{(file or page_path()).as_uri()}{fragment}")
        page.wait_for_selector("#table tbody tr")
        opened.append(context)
        return page

    yield start
    for context in opened:
        context.close()
    assert heard == []
    assert [url for url in asked if not url.startswith(("file:", "data:", "blob:"))] == []


@pytest.fixture
def axe():
    return browsers.axe_faults


@pytest.fixture(params=["browser", "node"])
def calculate(request):
    """Applies a JavaScript function of the page to many questions."""
    if request.param == "node":
        if shutil.which("node") is None:
            pytest.skip("there is no Node.js")

        def in_node(call, questions):
            code = page_path().read_text().split('<script id="core">')[1].split("</script>")[0]
            sent = json.dumps({"code": code, "call": call, "questions": questions})
            done = subprocess.run(["node", "-e", _NODE], input=sent, capture_output=True, text=True, check=True)
            return json.loads(done.stdout)

        return in_node
    page = request.getfixturevalue("open_page")()
    return lambda call, questions: page.evaluate(f"(questions) => questions.map({call})", questions)
