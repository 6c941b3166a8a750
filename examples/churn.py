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

from countermax.plotting import picture
from countermax.tables import Predicted, TransitionTable, counterfactuals, transition_table

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


def main(folder: Path) -> TransitionTable:
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

    table = transition_table(without, **question)
    show(table)
    low, high = (ends[0, 2] for ends in table.counts_interval or (table.counts, table.counts))
    least, most = (ends[0, 2] for ends in table.bounds)
    show(
        f"Of {table.seen[0]:.0f} who churned, {table.counts[0, 2]:.0f} would have stayed with a discount under "
        f"Gumbel-max ({low:.0f} to {high:.0f} if other customers had been seen); any mechanism says {least:.0f} to "
        f"{most:.0f}."
    )
    figure = table.plot("Without a discount, and what a discount would have done")
    (folder / "churn.png").write_bytes(picture(figure))
    return table


if __name__ == "__main__":
    main(Path(sys.argv[1] if len(sys.argv) > 1 else "."))
