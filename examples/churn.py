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

from countermax import Predicted, Rows, Transitions

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
    discount = Predicted(model, {"discount": True})
    rows = Rows(without, outcome="status", factual=model, counterfactual=discount, labels=STATUS)

    answers = rows.counterfactuals(prefix="")
    show(answers.loc[answers["status"] == "churned", [*FEATURES, *STATUS]].head())

    result = rows.transitions()
    show(result)
    stay = result.row("count(stayed)", result.coupling, "seen churned")
    any_coupling = result.row("count(stayed)", "any coupling", "seen churned")
    churned = result.seen[STATUS.index("churned")]
    show(
        f"Of {churned:.0f} who churned, {stay.value:.0f} would have stayed with a discount under {result.coupling} "
        f"(95 % confidence interval {stay.ci_lower:.0f} to {stay.ci_upper:.0f}, classifier taken as known); other "
        f"couplings say {any_coupling.lower:.0f} to {any_coupling.upper:.0f}."
    )
    figure = result.plot(title="Without a discount, and what a discount would have done")
    figure.savefig(folder / "churn.png", dpi=200)
    return result


if __name__ == "__main__":
    main(Path(sys.argv[1] if len(sys.argv) > 1 else "."))
