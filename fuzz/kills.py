"""Kills at random moments: real processes, two of them in one folder, ended by signals and started again.

In the end there must be the bits of a run that nobody disturbed, and nothing else.
"""

import os
import random
import re
import shutil
import signal
import subprocess
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fuzz.case import Failure, command
from fuzz.hands import Hands

_CONFIG = """[task]
pairs = "independent"
num_outcomes = 4
[recipe]
gadget = "gadget-2"
steps = 300
num_latents = 8
hidden = [16]
batch_size = 16
[repeats]
held_out = 16
evaluate_every = 10
seeds = 2
"""
_ROWS = 120_000
_SIGNALS = (signal.SIGKILL, signal.SIGKILL, signal.SIGINT, signal.SIGTERM)
_AFTER_SIGNAL = {signal.SIGINT: {130}, signal.SIGTERM: {130, 143}}
_STARTED = 0.5  # seconds until a process can be expected to listen to signals
_MOST_SECONDS = 600
_VOLATILE = re.compile(rb'"(seconds|date)": *[^,}\n]*')
_SUMS = re.compile(rb'"(sha256|checksum)": *"[^"]*"')


@dataclass(frozen=True)
class Scenario:
    """A command, the files it reads, and where its results go."""

    name: str
    argv: tuple[str, ...]
    inputs: Callable[[], dict[str, bytes]]
    out: str
    """A file, or a folder with a slash at its end."""
    spare: tuple[str, ...] = ()
    """Results that tell the time, or are a means to the end: they need not be the same."""


def table(rows: int = _ROWS) -> dict[str, bytes]:
    """A table that takes a while."""
    rng = random.Random(0)
    lines = ["id,status,p_a,p_b,p_c,q_a,q_b,q_c"]
    for index in range(rows):
        cuts = [sorted((rng.randint(0, 1000), rng.randint(0, 1000))) for _ in range(2)]
        worlds = [[low + 1, high - low + 1, 1000 - high + 1] for low, high in cuts]
        numbers = ",".join(str(each) for world in worlds for each in world)
        lines.append(f"{index:07d},{rng.choice('abc')},{numbers}")
    return {"rows.csv": ("\n".join(lines) + "\n").encode()}


_ASK = ("rows.csv", "--outcome=status", "--factual=p_", "--counterfactual=q_", "--normalise")
SCENARIOS = (
    Scenario("counterfactuals", ("counterfactuals", *_ASK, "--out=out.csv"), table, "out.csv"),
    Scenario("train", ("train", "run.toml", "--out=run"), lambda: {"run.toml": _CONFIG.encode()}, "run/"),
    Scenario("transitions", ("transitions", *_ASK, "--num-resamples=50", "--out=cells.csv"), table, "cells.csv"),
    Scenario(
        "studies",
        ("studies", "couplings", "--preset=quick", "--out=results"),
        dict,
        "results/",
        spare=("results/index.html",),
    ),
)


@dataclass(frozen=True)
class Reference:
    """A run that nobody disturbed."""

    files: dict[str, bytes]
    seconds: float


class Kills:
    """Kills processes, and looks at what they leave."""

    def __init__(self, hands: Hands, seed: int, *, practice: int = 1):
        """Before a run is timed, it is practised: the first one compiles."""
        self._hands, self._seed, self._practice = hands, seed, practice
        self._references: dict[str, Reference] = {}
        self._inputs: dict[str, dict[str, bytes]] = {}
        self.count = 0
        """How many processes were killed while they ran."""
        self.by_scenario: dict[str, int] = {}
        self.by_signal: dict[str, int] = {}

    def run(self, index: int, scenarios: tuple[Scenario, ...] = SCENARIOS) -> tuple[dict[str, Any], Failure | None]:
        """One story of kills and restarts: how it can be told again, and what was wrong."""
        rng = random.Random(f"kills {self._seed} {index}")
        scenario = scenarios[index % len(scenarios)]
        reference = self._reference(scenario)
        folder = self._folder(scenario)
        told: dict[str, Any] = {"scenario": scenario.name, "seed": self._seed, "index": index, "kills": []}
        try:
            for _ in range(rng.choice((1, 1, 2))):
                failure = self._kill(rng, scenario, reference, folder, told["kills"])
                if failure is not None:
                    return told, failure
            return told, self._finish(scenario, reference, folder, pair=rng.random() < 0.3)
        finally:
            shutil.rmtree(folder, ignore_errors=True)

    def _reference(self, scenario: Scenario) -> Reference:
        if scenario.name not in self._references:
            for _ in range(self._practice + 1):
                folder = self._folder(scenario)
                start = time.monotonic()
                (process,) = self._start(scenario, folder, 1)
                status, words = _ended(process)
                seconds = time.monotonic() - start
                if status != 0:
                    raise RuntimeError(f"{scenario.name} fails undisturbed: {words}")
                files = _results(folder, scenario)
                shutil.rmtree(folder)
            self._references[scenario.name] = Reference(files, seconds)
        return self._references[scenario.name]

    def _kill(
        self, rng: random.Random, scenario: Scenario, reference: Reference, folder: Path, told: list[dict[str, Any]]
    ) -> Failure | None:
        """Starts one process or two, and ends them at random moments."""
        processes = self._start(scenario, folder, rng.choice((1, 2)))
        moments = sorted(
            (
                (rng.uniform(_STARTED, reference.seconds * len(processes)), rng.choice(_SIGNALS), each)
                for each in processes
                if rng.random() < 0.8 or len(processes) == 1
            ),
            key=lambda each: each[0],
        )
        start = time.monotonic()
        sent: dict[int, signal.Signals] = {}
        for moment, sign, process in moments:
            time.sleep(max(0.0, start + moment - time.monotonic()))
            if process.poll() is None:
                process.send_signal(sign)
                sent[process.pid] = sign
                self.count += 1
                self.by_scenario[scenario.name] = self.by_scenario.get(scenario.name, 0) + 1
                self.by_signal[sign.name] = self.by_signal.get(sign.name, 0) + 1
                told.append({"after": round(moment, 2), "signal": sign.name, "processes": len(processes)})
        for process in processes:
            status, words = _ended(process)
            failure = _wrong_end(status, words, sent.get(process.pid), alone=len(processes) == 1)
            if failure is not None:
                return failure
        return _half_done(scenario, reference, folder)

    def _finish(self, scenario: Scenario, reference: Reference, folder: Path, *, pair: bool) -> Failure | None:
        """The same command again, until it is done."""
        ends = [_ended(process) for process in self._start(scenario, folder, 2 if pair else 1)]
        good = [status == 0 for status, _ in ends]
        if not any(good) or (not all(good) and not pair):
            return Failure("does not resume", f"{scenario.name}: {ends}")
        for status, words in ends:
            if status != 0 and (status != 2 or len(words.strip().splitlines()) != 1):
                return Failure("two in one folder", f"{scenario.name}: status {status}; {words[-300:]}")
        found = _results(folder, scenario)
        if set(found) != set(reference.files):
            more, less = sorted(set(found) - set(reference.files)), sorted(set(reference.files) - set(found))
            return Failure(
                "left behind" if more else "partial output", f"{scenario.name}: too many {more}, missing {less}"
            )
        for name, content in found.items():
            if content != reference.files[name]:
                return Failure("other bits", f"{scenario.name}: {name} is not what an undisturbed run writes")
        return None

    def _folder(self, scenario: Scenario) -> Path:
        folder = self._hands.folder()
        if scenario.name not in self._inputs:
            self._inputs[scenario.name] = scenario.inputs()
        for name, content in self._inputs[scenario.name].items():
            (folder / name).write_bytes(content)
        return folder

    def _start(self, scenario: Scenario, folder: Path, count: int) -> list["subprocess.Popen[bytes]"]:
        return [
            subprocess.Popen(
                command(scenario.argv),
                cwd=folder,
                env=self._hands.environment,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.PIPE,
            )
            for _ in range(count)
        ]


def _ended(process: "subprocess.Popen[bytes]") -> tuple[int, str]:
    """The exit status and what it complained of."""
    try:
        _, err = process.communicate(timeout=_MOST_SECONDS)
    except subprocess.TimeoutExpired:
        process.kill()
        _, err = process.communicate()
        return -1, f"never ends; {err.decode(errors='replace')}"
    return process.returncode, err.decode(errors="replace")


def _wrong_end(status: int, words: str, sign: signal.Signals | None, *, alone: bool) -> Failure | None:
    """What is wrong with how a process ended."""
    if sign == signal.SIGKILL:
        return None
    if "Traceback" in words:
        return Failure("traceback", f"after {sign.name if sign else 'no signal'}: {words[-300:]}")
    if sign is None:
        if status == 0 or (status == 2 and not alone and len(words.strip().splitlines()) == 1):
            return None
        return Failure("status", f"nobody killed it, status {status}; {words[-300:]}")
    if status == 0 or status == -sign:  # it was done already, or had not begun to listen
        return None
    if status in _AFTER_SIGNAL[sign] and len(words.strip().splitlines()) <= 1:
        return None
    if status == 2 and not alone:
        return None
    return Failure("status", f"after {sign.name}: status {status}; {words[-300:]}")


def _half_done(scenario: Scenario, reference: Reference, folder: Path) -> Failure | None:
    """Whatever looks like a result must be the whole one."""
    for name, content in _results(folder, scenario).items():
        looks = not re.search(r"(^|/)\.|checkpoint|\.lock$", name)
        if looks and content != reference.files.get(name) and not name.endswith("index.html"):
            return Failure("partial output", f"{scenario.name}: {name} looks finished, and is not what it should be")
    return None


def _results(folder: Path, scenario: Scenario) -> dict[str, bytes]:
    """Every file beside the inputs, without what tells the time."""
    found = {}
    inputs = set(scenario.inputs()) if scenario.out.endswith("/") else {"rows.csv"}
    for path in sorted(folder.rglob("*")):
        name = os.fspath(path.relative_to(folder))
        if path.is_file() and name not in inputs:
            content = path.read_bytes()
            if name.endswith(".json"):
                content = _SUMS.sub(b"", _VOLATILE.sub(b"", content))
            found[name] = b"" if name in scenario.spare else content
    return found
