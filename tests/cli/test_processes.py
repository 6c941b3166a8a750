"""The command as the system meets it: signals, pipes, closed streams, terminals and names that are not Unicode."""

import os
import signal
import subprocess
import sys

import pytest

COUNTERMAX = [sys.executable, "-m", "countermax.cli"]
COMPARE = [*COUNTERMAX, "compare", "--factual", "0.3,0.7", "--counterfactual", "0.5,0.5", "--seen", "b", "--labels"]
WAITING = """
import sys, time
from countermax import Worlds
Worlds.compare = lambda *_, **__: (print("ready", flush=True), time.sleep(60))
sys.argv[1:] = ["compare", "--factual", "1", "--counterfactual", "1", "--seen", "0"]
from countermax.cli import main
main()
"""


@pytest.mark.parametrize(("number", "status"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_signal_is_the_exit_status(number, status):
    with subprocess.Popen(
        [sys.executable, "-c", WAITING], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        process.stdout.readline()
        process.send_signal(number)
        _, error = process.communicate(timeout=30)
    assert (process.returncode, error) == (status, "countermax: interrupted\n")


def test_readers_who_leave_and_streams_that_are_closed_or_full_are_no_crash():
    asked = " ".join(f"'{each}'" for each in [*COMPARE, "a,b"])
    script = (
        f"{asked} | true; echo ${{PIPESTATUS[0]}}\n"
        f"{asked} >&-; echo $?\n"
        "cm() { " + " ".join(COUNTERMAX) + ' "$@"; }\n'
        "cm --help | true; echo ${PIPESTATUS[0]}\n"
        "cm --help >&- <&-; echo $?\n"
        "cm --version >/dev/full; echo $?\n"
    )
    done = subprocess.run(["bash", "-c", script], capture_output=True, text=True)
    assert done.stdout.split() == ["141", "0", "141", "0", "1"]
    assert done.stderr == "countermax: cannot write to standard output: no space left on device\n"


def test_terminals_show_what_they_can_and_names_are_bytes(tmp_path):
    label, picture = b"caf\xc3\xa9", os.fsencode(tmp_path) + b"/\xff.png"
    plain = {**os.environ, "PYTHONIOENCODING": "ascii"}
    done = subprocess.run([*COMPARE, label + b",b", "--plot", picture], capture_output=True, env=plain)
    assert done.returncode == 0, done.stderr
    assert done.stderr == b""
    assert rb"caf\xe9" in done.stdout
    assert b"written: " + picture + b"\n" in done.stdout
    assert max(done.stdout.replace(b"\xff", b"")) < 128
    assert os.listdir(os.fsencode(tmp_path)) == [b"\xff.png"]
    refused = subprocess.run([*COMPARE, b"\xfe,b", "--plot", tmp_path], capture_output=True, env=plain)
    assert refused.returncode == 2
    assert len(refused.stderr.splitlines()) == 1


def test_faults_before_any_command_are_one_line_too():
    code = "import sys, typer.core\ntyper.core.TyperGroup.invoke = None\nsys.argv[1:] = {}\n"
    code += "from countermax.cli import main\nmain()"
    done = [
        subprocess.run([sys.executable, "-c", code.format(each)], capture_output=True, text=True)
        for each in (["demo"], ["demo", "--debug"])
    ]
    assert [each.returncode for each in done] == [1, 1]
    assert len(done[0].stderr.splitlines()) == 1
    assert "unexpected TypeError" in done[0].stderr
