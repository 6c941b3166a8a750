"""The site that `make docs` built, served and from its folder, in a browser."""

import threading
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import browsers
import pytest

SITE = Path(__file__).parents[2] / "site"


def pytest_terminal_summary(terminalreporter):
    if missing := browsers.missing():
        terminalreporter.write_line(f"\n{missing}\n", red=True, bold=True)


@pytest.fixture(scope="session")
def browser():
    yield from browsers.started()


@pytest.fixture(scope="session")
def site():
    if not (SITE / "index.html").exists():
        pytest.fail("there is no site; `make docs` builds it, and `make test-site` does both")
    return SITE


class _Quiet(SimpleHTTPRequestHandler):
    def log_message(self, *_):
        """Nothing: a test says what it found."""


@pytest.fixture(scope="session")
def served(site):
    """The address of the site, as a server gives it."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(_Quiet, directory=str(site)))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    server.server_close()


@pytest.fixture
def open_page(browser):
    """Opens pages, one after the other; whatever they ask for has to come from where they are."""
    opened, asked = [], []

    def start(width=1280, **settings):
        context = browser.new_context(viewport={"width": width, "height": 900}, **settings)
        context.on("request", lambda request: asked.append(request.url))
        opened.append(context)
        return context.new_page()

    yield start
    for context in opened:
        context.close()
    assert [url for url in asked if not url.startswith(("file:", "data:", "blob:", "http://127.0.0.1"))] == []
