"""Signals, in processes of their own."""

import signal
import subprocess
import sys

import pytest

SCRIPT = """
import os, sys, time
from countermax._core import interruption
from countermax._core.files import atomic_file, remove_unfinished

interruption.listen(remove_unfinished)

def busy(say="ready"):
    try:
        print(say, flush=True)
        for _ in range(300):  # a signal that comes just before a sleep is heard after it
            time.sleep(0.1)
    except:  # as some libraries do
        pass

"""
HEARD = "import signal\nsignal.signal(signal.SIGHUP, signal.SIG_DFL)\n"  # `nohup` has everything below it ignore that
ON_THE_SPOT = "with atomic_file(sys.argv[1]) as file:\n    file.write(b'half')\n    busy()\nprint('went on')\n"
UNWOUND = (
    "with interruption.unwinding():\n    try:\n        busy()\n        interruption.raise_if_stopped()\n"
    "    except KeyboardInterrupt:\n        print('put in order', flush=True)\n"
    "        os._exit(interruption.stop_status())\n"
)
LOST = (
    "class Lost:\n    def __del__(self):\n        print('ready', flush=True)\n        time.sleep(30)\n\n"
    + UNWOUND.replace("busy()", "Lost()")
)
INSISTING = (
    "with interruption.unwinding():\n    busy()\n    time.sleep(0.7)\n    busy('once more')\n    print('went on')\n"
)


def run(code, target, *signals):
    process = subprocess.Popen(
        [sys.executable, "-c", HEARD + SCRIPT + code, target], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    for number in signals:
        process.stdout.readline()
        process.send_signal(number)
    out, error = process.communicate(timeout=20)
    return process.returncode, out, error


@pytest.mark.parametrize(("number", "status"), [(signal.SIGINT, 130), (signal.SIGTERM, 143), (signal.SIGHUP, 129)])
def test_a_signal_ends_a_command_whoever_catches_exceptions_and_leaves_nothing(number, status, tmp_path):
    assert run(ON_THE_SPOT, tmp_path / "file", number) == (status, "", "countermax: interrupted\n")
    assert list(tmp_path.iterdir()) == []


def test_what_has_to_be_put_in_order_is_and_a_lost_exception_comes_back(tmp_path):
    for code in (UNWOUND, LOST):
        assert run(code, tmp_path, signal.SIGTERM) == (143, "put in order\n", "")


def test_a_second_signal_ends_what_the_first_one_did_not(tmp_path):
    status, out, _ = run(INSISTING, tmp_path, signal.SIGINT, signal.SIGTERM)
    assert (status, out) == (130, "")


def test_an_exception_never_falls_into_a_module_that_is_being_loaded(tmp_path):
    (tmp_path / "slow_module.py").write_text("from __main__ import busy\nbusy()\n")
    code = "sys.path.insert(0, sys.argv[1])\nwith interruption.unwinding():\n    import slow_module\nprint('went on')\n"
    assert run(code, tmp_path, signal.SIGINT) == (130, "", "countermax: interrupted\n")


def test_signals_that_are_ignored_stay_ignored(tmp_path):
    code = "import signal\nsignal.signal(signal.SIGINT, signal.SIG_IGN)\n" + SCRIPT
    code += "print('ready', flush=True)\nsys.stdin.readline()\nprint('went on')\n"
    process = subprocess.Popen([sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    process.stdout.readline()
    process.send_signal(signal.SIGINT)
    out, _ = process.communicate("\n", timeout=20)
    assert (process.returncode, out) == (0, "went on\n")
