"""The explorer: one page that asks every fixed coupling in a browser, without a server and offline."""

from countermax.explorer._page import PAGE as PAGE
from countermax.explorer._page import page_path as page_path
from countermax.explorer._page import write_page as write_page
