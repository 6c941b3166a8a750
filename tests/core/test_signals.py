"""Signals that wait for a good moment, and are never lost."""

import signal
import threading

import pytest

from countermax._core import interruption as signals
from countermax._core.interruption import deferred_signals


class Told(Exception):
    """A handler was called."""


@pytest.fixture
def handler():
    def tell(number, frame):
        raise Told(number)

    before = {each: signal.signal(each, tell) for each in (signal.SIGINT, signal.SIGTERM)}
    yield tell
    for each, old in before.items():
        signal.signal(each, old)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_waits_until_it_is_asked_for(number, handler):
    done = []

    def work():
        with deferred_signals() as handle:
            handle()
            signal.raise_signal(number)
            done.append("not half")
            handle()
            done.append("never")

    with pytest.raises(Told):
        work()
    assert done == ["not half"]
    assert signal.getsignal(number) is handler


def test_a_signal_in_a_destructor_is_not_lost(handler):
    """An exception there would only be printed."""

    class Last:
        def __del__(self):
            signal.raise_signal(signal.SIGINT)

    def work():
        with deferred_signals() as handle:
            last = Last()
            del last
            handle()

    with pytest.raises(Told):
        work()


def test_what_still_waits_at_the_end_is_handled_there(handler):
    done = []

    def work():
        with deferred_signals():
            signal.raise_signal(signal.SIGTERM)
            done.append("all")

    with pytest.raises(Told):
        work()
    assert done == ["all"]


def test_a_second_signal_does_not_wait_but_an_echo_does(handler, monkeypatch):
    done = []

    def work():
        with deferred_signals():
            signal.raise_signal(signal.SIGINT)
            signal.raise_signal(signal.SIGINT)
            done.append("an echo")
            monkeypatch.setattr(signals, "_ECHO", -1.0)
            signal.raise_signal(signal.SIGINT)
            done.append("never")

    with pytest.raises(Told):
        work()
    assert done == ["an echo"]


def test_elsewhere_than_in_the_main_thread_and_where_signals_are_ignored_nothing_changes(handler):
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    with deferred_signals() as handle:
        assert signal.getsignal(signal.SIGTERM) is signal.SIG_IGN
        handle()
    seen = []

    def work():
        with deferred_signals() as handle:
            handle()
            seen.append(signal.getsignal(signal.SIGINT))

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert seen == [handler]
