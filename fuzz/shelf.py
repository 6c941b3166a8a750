"""Valid files that the library wrote itself, made once: what damage and stored couplings begin with."""

from collections.abc import Callable
from functools import cache
from typing import Any

from fuzz.case import Case
from fuzz.hands import ROOT, Hands
from fuzz.judges.stored import answer_of, kept_answer

COUPLINGS = {
    "gumbel.safetensors": ("GumbelMax()", {"law": "gumbel-max", "size": None}),
    "independent.safetensors": ("Independent()", {"law": "independent", "size": None}),
    "maximal.safetensors": ("Maximal()", {"law": "maximal", "size": None}),
    "line.safetensors": ("InverseCDF()", {"law": "inverse-cdf", "size": None}),
    "ordered.safetensors": ("InverseCDF(np.array([2, 0, 1]))", {"law": "comonotone", "score": [1, 2, 0], "size": 3}),
    "comonotone.safetensors": ("Comonotone([0.0, 1.0, 2.0], [2.0, 0.0, 1.0])", {"law": None, "size": 3}),
    "transport.safetensors": ("Optimal([[0.0, 1.0, 4.0], [1.0, 0.0, 1.0], [4.0, 1.0, 0.0]])", {"law": None, "size": 3}),
    "gadget1.safetensors": ("Gadget1(3, key=jax.random.key(0), hidden=(4,))", {"law": None, "size": 3}),
    "gadget1-published.safetensors": ("Gadget1.as_published(3, key=jax.random.key(0))", {"law": None, "size": 3}),
    "gadget2.safetensors": ("Gadget2(3, 4, key=jax.random.key(1), hidden=(4,))", {"law": None, "size": 3}),
    "gadget2-constant.safetensors": (
        "Gadget2(3, 4, key=jax.random.key(1), part=couplings.Constant(4, 3, key=jax.random.key(2)))",
        {"law": None, "size": 3},
    ),
    "gadget2-started.safetensors": (
        "Gadget2(3, 4, key=jax.random.key(1), hidden=(4,), "
        "start=couplings.BinnedInverseCDF(4, np.array([0.0, 1.0, 2.0])))",
        {"law": None, "size": 3},
    ),
}
"""Name of the file, how it is made, and what is known of its law."""

CONFIG = """[task]
pairs = "fixed"
p = [0.0, 0.5, -0.5]
q = [-0.5, 0.0, 1.0]
[recipe]
gadget = "gadget-2"
steps = 4
num_latents = 4
hidden = [4]
batch_size = 4
[repeats]
held_out = 4
evaluate_every = 2
"""
CELLS = ("couplings",)


class Shelf:
    """Files by name; made when they are first asked for."""

    def __init__(self, hands: Hands):
        self._hands = hands
        self._answers: dict[Any, str] = {}

    @cache  # noqa: B019 (lives as long as a run)
    def couplings(self) -> dict[str, bytes]:
        """One file for each kind of coupling."""
        source = "[" + ", ".join(f"couplings.save({each}, {name!r})" for name, (each, _) in COUPLINGS.items()) + "]"
        return self._written(source)

    @cache  # noqa: B019
    def training(self) -> dict[str, bytes]:
        """A folder that `countermax train` filled, by the name of each file."""
        outcome = self._hands.run(
            Case("plain", argv=("train", "run.toml", "--out", "run"), files={"run.toml": CONFIG.encode()})
        )
        return _checked(outcome, {name: each for name, each in outcome.files.items() if name.startswith("run/")})

    @cache  # noqa: B019
    def cells(self) -> dict[str, bytes]:
        """Stored results that can be drawn again."""
        folder = ROOT / "results" / "paper" / "best"
        return {
            f"results/{path.relative_to(folder)}": path.read_bytes()
            for name in CELLS
            for path in sorted((folder / "cells" / name).glob("*.json"))
        }

    def known(self) -> dict[str, Any]:
        """What judges know of the stored couplings."""
        return {name: known for name, (_, known) in COUPLINGS.items()}

    def answer(self, key: Any, make: Callable[[], Case]) -> str:
        """What is answered about an undamaged file, as a case keeps it."""
        if key not in self._answers:
            case = make()
            outcome = self._hands.run(case)
            if outcome.trouble or outcome.error or outcome.status not in (0, None):
                raise RuntimeError(f"the undamaged file is refused: {outcome.words} {outcome.stderr.decode()}")
            self._answers[key] = kept_answer(answer_of(case, outcome))
        return self._answers[key]

    def _written(self, source: str) -> dict[str, bytes]:
        outcome = self._hands.run(Case("plain", source=source))
        return _checked(outcome, dict(outcome.files))


def _checked(outcome: Any, files: dict[str, bytes]) -> dict[str, bytes]:
    if outcome.trouble or outcome.status not in (0, None) or not files:
        raise RuntimeError(f"valid files could not be made: {outcome.trouble} {outcome.stderr.decode()}")
    return files
