"""Choosing a coupling for a score, and seeing the variance of the effect fall.

python examples/choosing.py [FOLDER FOR THE PICTURE]
"""

import sys
from pathlib import Path

import jax
import numpy as np
import pandas as pd
from rich import print as show

from countermax import Gadget2, Rows, TableEffects
from countermax.learning import Training

OUTCOMES = ["hospital", "home with care", "home", "rehabilitation"]
COMFORT = {"hospital": -1.2, "home with care": 1.0, "home": 0.6, "rehabilitation": -0.6}
COST = {"hospital": 0.9, "home with care": 0.8, "home": -1.4, "rehabilitation": -0.5}


def patients(count: int = 500) -> pd.DataFrame:
    """Simulated: what outcomes are likely for each patient on either of two treatments."""
    rng = np.random.default_rng(0)
    severity = rng.normal(size=(count, 1))
    standard = rng.normal(0, 0.3, (count, 4)) + severity * [1.0, 0.3, -1.0, 0.2]
    intensive = standard + [-0.8, 0.2, 0.6, 0.4] + rng.normal(0, 0.3, (count, 4))
    frame = pd.DataFrame(index=pd.RangeIndex(count, name="patient"))
    for world, logits in (("standard", standard), ("intensive", intensive)):
        weights = np.exp(logits)
        frame[[f"{world}: {outcome}" for outcome in OUTCOMES]] = weights / weights.sum(axis=1, keepdims=True)
    return frame


def main(folder: Path) -> tuple[TableEffects, TableEffects]:
    """One score needs an order; two scores need a coupling that is fitted or learned, and fitting does here."""
    frame = patients()
    worlds = {"factual": "standard: ", "counterfactual": "intensive: "}
    one = Rows(frame, **worlds, score=COMFORT).effects()
    show(one)

    gadget = Gadget2(len(OUTCOMES), 16, key=jax.random.key(0), hidden=(16, 16))
    both = Rows(frame, **worlds, score={"comfort": COMFORT, "cost": COST}).effects(
        learn=gadget, training=Training(steps=80, batch_size=32, num_held_out=64)
    )
    show(both)
    figure = both.plot(title="A vector quantile beats every order")
    figure.savefig(folder / "choosing.png", dpi=200)
    return one, both


if __name__ == "__main__":
    main(Path(sys.argv[1] if len(sys.argv) > 1 else "."))
