"""`python -m fuzz`: random calls, damaged files and kills for a minute, an hour, or as many as you like."""

import argparse
import json
import sys
import time
from collections.abc import Callable
from pathlib import Path

from fuzz import calls, files
from fuzz.case import KEPT, Case, Failure, keep, read_case
from fuzz.hands import Hands
from fuzz.hygiene import refused
from fuzz.judges import judged
from fuzz.kills import Kills
from fuzz.report import Tally, store
from fuzz.shelf import Shelf
from fuzz.shrink import shrunk

_SHARES = {"calls": 0.5, "files": 0.25, "kills": 0.25}
_MINUTE, _HOUR = 60, 3600
_TOLD_EVERY = 30.0  # seconds, where nobody watches
_EACH = 2  # cases that are kept of failures that look alike

Maker = Callable[[int, int, Shelf], Case]


def main(arguments: list[str] | None = None) -> int:
    """Runs what was asked for; the exit status says whether anything failed."""
    options = _options().parse_args(arguments)
    if options.replay:
        return _replay(options.replay)
    counts = {"calls": options.calls, "files": options.files, "kills": options.kills}
    counted = any(each is not None for each in counts.values())
    names = options.fuzzers or [name for name in _SHARES if not counted or counts[name] is not None]
    seconds = options.seconds or (_HOUR if options.long else None if counted else _MINUTE)
    seed = options.seed
    share = sum(_SHARES[name] for name in names)
    print(f"seed {seed}")
    failed = 0
    with Hands() as hands:
        for name in names:
            limit = None if seconds is None else seconds * _SHARES[name] / share
            run = _Run(hands, Tally(name, seed), counts[name], limit, Path(options.cases))
            run.kills() if name == "kills" else run.cases(calls.make if name == "calls" else files.make)
            print(run.tally.line())
            for words, count in run.tally.failures.most_common():
                print(f"  {count} times {words}")
            failed += run.tally.failed
            if options.store:
                store(run.tally)
    return 1 if failed else 0


def _options() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m fuzz", description=__doc__)
    parser.add_argument(
        "fuzzers", nargs="*", choices=[*_SHARES, []], help="calls, files, kills; by default all of them"
    )
    parser.add_argument("--seconds", type=float, help="how long, all in all; by default a minute")
    parser.add_argument("--long", action="store_true", help="an hour")
    parser.add_argument("--seed", type=int, default=0, help="what is tried depends on this number alone")
    parser.add_argument("--calls", type=int, help="how many calls, however long it takes")
    parser.add_argument("--files", type=int, help="how many damaged files")
    parser.add_argument("--kills", type=int, help="how many kills, at least")
    parser.add_argument("--cases", default=str(KEPT), help="the folder that failures are kept in")
    parser.add_argument("--store", action="store_true", help="write fuzz/results, which documents take numbers from")
    parser.add_argument("--replay", nargs="+", type=Path, metavar="CASE", help="run kept cases again")
    return parser


class _Run:
    """One fuzzer at work."""

    def __init__(self, hands: Hands, tally: Tally, count: int | None, seconds: float | None, folder: Path):
        self._hands, self.tally, self._count, self._seconds, self._folder = hands, tally, count, seconds, folder
        self._start = self._told = time.monotonic()
        self._kept: dict[str, int] = {}

    def cases(self, make: Maker) -> None:
        """Calls, or damaged files."""
        shelf = Shelf(self._hands)
        while self._more(self.tally.tried):
            case = make(self.tally.seed, self.tally.tried, shelf)
            outcome = self._hands.run(case)
            failure = judged(case, outcome)
            where = f"python -m fuzz {self.tally.name} --seed {self.tally.seed}, number {self.tally.tried}"
            self.tally.tried += 1
            self.tally.kinds[f"{case.judge}{', a process of its own' if case.process else ''}"] += 1
            if failure is not None:
                self._note(
                    failure,
                    lambda case=case, failure=failure, where=where: keep(
                        *shrunk(case, failure, self._hands), where, self._folder
                    ),
                )
            elif refused(outcome):
                self.tally.refused += 1
            else:
                self.tally.answered += 1
            self._tell()
        self._end()

    def kills(self) -> None:
        """Stories of kills; counted are the kills."""
        kills = Kills(self._hands, self.tally.seed)
        index = 0
        while self._more(kills.count):
            told, failure = kills.run(index)
            index += 1
            self.tally.tried = kills.count
            self.tally.kinds.clear()
            self.tally.kinds.update(kills.by_scenario)
            self.tally.kinds.update({f"by {name}": count for name, count in kills.by_signal.items()})
            if failure is not None:
                self._note(failure, lambda told=told, failure=failure: self._keep_story(told, failure))
            else:
                self.tally.answered += 1
            self._tell()
        self._end()

    def _more(self, done: int) -> bool:
        if self._count is not None and done >= self._count:
            return False
        return self._seconds is None or time.monotonic() - self._start < self._seconds

    def _note(self, failure: Failure, write: Callable[[], Path]) -> None:
        self.tally.failures[failure.signature] += 1
        self._kept[failure.signature] = self._kept.get(failure.signature, 0) + 1
        if self._kept[failure.signature] <= _EACH:
            path = write()
            self._clear()
            print(f"{failure.kind}: {failure.words[:160]!r}\n  {path}")

    def _keep_story(self, told: dict[str, object], failure: Failure) -> Path:
        self._folder.mkdir(parents=True, exist_ok=True)
        path = self._folder / f"story-{told['scenario']}-{told['seed']}-{told['index']}.json"
        path.write_text(json.dumps({"failed": vars(failure), **told}, indent=1) + "\n")
        return path

    def _tell(self) -> None:
        now = time.monotonic()
        alive = sys.stderr.isatty()
        if now - self._told > (0.2 if alive else _TOLD_EVERY):
            self._told = now
            rate = self.tally.tried / (now - self._start)
            line = f"{self.tally.name}: {self.tally.tried:,} tried, {self.tally.failed} failed, {rate:.1f}/s"
            sys.stderr.write(f"\r\033[K{line}" if alive else f"{line}\n")
            sys.stderr.flush()

    def _clear(self) -> None:
        if sys.stderr.isatty():
            sys.stderr.write("\r\033[K")

    def _end(self) -> None:
        self.tally.seconds = time.monotonic() - self._start
        self._clear()


def _replay(paths: list[Path]) -> int:
    failed = 0
    with Hands() as hands:
        for path in paths:
            case = read_case(path)
            failure = judged(case, hands.run(case))
            print(f"{path.name}: {'right' if failure is None else f'{failure.kind}: {failure.words}'}")
            failed += failure is not None
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
