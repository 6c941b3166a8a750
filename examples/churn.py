"""Customers who churned: how many would a discount have kept? With a classifier of scikit-learn.

python examples/churn.py [FOLDER FOR THE PICTURE]
"""

import sys
from pathlib import Path

import numpy as np
import pandas as pd
from rich import print as show
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from countermax._plotting import picture
from countermax.tables import Predicted, Transitions, counterfactuals, transitions

STATUS = ["churned", "downgraded", "stayed"]
FEATURES = ["months", "calls", "discount"]


def customers(count: int = 4000) -> pd.DataFrame:
    """Simulated: discounts keep people, calls to the hotline announce that they leave."""
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"months": rng.integers(1, 60, count), "calls": rng.poisson(1.5, count)})
    frame["discount"] = rng.random(count) < 0.4
    logits = np.stack(
        [
            0.6 * frame["calls"] - 0.03 * frame["months"] - 0.9 * frame["discount"],
            0.2 * frame["calls"] - 0.5 + 0.2 * frame["discount"],
            0.02 * frame["months"] + 0.6 * frame["discount"],
        ],
        axis=1,
    )
    frame["status"] = np.array(STATUS)[(logits + rng.gumbel(size=logits.shape)).argmax(axis=1)]
    return frame.set_index(pd.Index([f"customer {row}" for row in range(count)]))


def main(folder: Path) -> Transitions:
    """Asks the classifier twice, with the treatment column changed, and adds the answers up."""
    data = customers()
    model = make_pipeline(StandardScaler(), LogisticRegression()).fit(data[FEATURES], data["status"])
    without = data[~data["discount"]]
    question = {
        "outcome": "status",
        "factual": model,
        "counterfactual": Predicted(model, {"discount": True}),
        "labels": STATUS,
    }

    rows = counterfactuals(without, **question, prefix="")
    show(rows.loc[rows["status"] == "churned", [*FEATURES, *STATUS]].head())

    result = transitions(without, **question)
    show(result)
    interval, bounds = result.counts_interval, result.bounds
    churned, stayed = STATUS.index("churned"), STATUS.index("stayed")
    show(
        f"Of {result.seen[churned]:.0f} who churned, {result.counts[churned, stayed]:.0f} would have stayed with a "
        f"discount under {result.coupling} ({interval.lower[churned, stayed]:.0f} to "
        f"{interval.upper[churned, stayed]:.0f} if other customers had been seen and the classifier were exact); other "
        f"couplings say {bounds.lower[churned, stayed]:.0f} to {bounds.upper[churned, stayed]:.0f}."
    )
    figure = result.plot("Without a discount, and what a discount would have done")
    (folder / "churn.png").write_bytes(picture(figure))
    return result


if __name__ == "__main__":
    main(Path(sys.argv[1] if len(sys.argv) > 1 else "."))
