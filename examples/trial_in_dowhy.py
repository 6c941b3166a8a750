"""A trial with three outcomes in DoWhy: Gumbel-max against inverse CDF against what data alone allow.

python examples/trial_in_dowhy.py [FOLDER FOR THE PICTURE]
"""

import sys
from pathlib import Path

import networkx as nx
import numpy as np
import pandas as pd
from dowhy import gcm
from matplotlib.figure import Figure
from sklearn.linear_model import LogisticRegression

from countermax import Bounds, GumbelMax, InverseCDF
from countermax.integrations.dowhy import CategoricalMechanism, counterfactual_probabilities, counterfactual_table

OUTCOMES = ["died", "ill", "well"]


def patients(count: int = 800) -> pd.DataFrame:
    """Simulated: the drug helps, age does not."""
    rng = np.random.default_rng(0)
    arm, age = np.where(rng.random(count) < 0.5, "drug", "placebo"), rng.normal(60, 10, count)
    drug, old = (arm == "drug").astype(float), (age - 60) / 10
    logits = np.stack([0.5 * old, 0.3 - 0.2 * drug, 0.1 + 1.1 * drug - 0.3 * old], axis=1)
    outcome = np.array(OUTCOMES)[(logits + rng.gumbel(size=logits.shape)).argmax(axis=1)]
    return pd.DataFrame({"arm": arm, "age": age, "outcome": outcome})


def fitted(data: pd.DataFrame, mechanism: GumbelMax | InverseCDF) -> gcm.InvertibleStructuralCausalModel:
    """Arm and age cause the outcome; the mechanism says how worlds are coupled."""
    model = gcm.InvertibleStructuralCausalModel(nx.DiGraph([("arm", "outcome"), ("age", "outcome")]))
    model.set_causal_mechanism("arm", gcm.EmpiricalDistribution())
    model.set_causal_mechanism("age", gcm.EmpiricalDistribution())
    classifier = LogisticRegression(max_iter=1000)
    model.set_causal_mechanism("outcome", CategoricalMechanism(classifier, mechanism, labels=OUTCOMES))
    gcm.fit(model, data)
    return model


def main(folder: Path) -> dict[str, np.ndarray]:
    """One patient who died on placebo: would the drug have saved them?"""
    gcm.config.disable_progress_bars()
    gcm.util.general.set_random_seed(0)
    data = patients()
    patient = data[(data["arm"] == "placebo") & (data["outcome"] == "died")].head(1)
    with_drug = {"arm": lambda _: "drug"}

    answers = {}
    for name, mechanism in (("Gumbel-max", GumbelMax()), ("inverse CDF", InverseCDF())):
        model = fitted(data, mechanism)
        answers[name] = counterfactual_probabilities(model, with_drug, patient)["outcome"].probabilities.to_numpy()[0]
        same_patient = pd.concat([patient] * 1000, ignore_index=True)
        samples = gcm.counterfactual_samples(model, with_drug, same_patient)["outcome"]
        shares = samples.value_counts(normalize=True).reindex(OUTCOMES, fill_value=0)
        for outcome, exact, share in zip(OUTCOMES, answers[name], shares, strict=True):
            print(f"{name:<12} {outcome:<5} exactly {exact:.3f}, in 1,000 samples of DoWhy {share:.3f}")

    bounds = {}
    for kind in ("any", "stable"):
        table = counterfactual_table(model, with_drug, patient, "outcome", bounds=kind)
        lower, upper = (
            table[[f"counterfactual_{outcome}_{limit}" for outcome in OUTCOMES]].to_numpy()[0]
            for limit in ("lower", "upper")
        )
        bounds[kind] = Bounds(lower, upper)
    print(f"Data alone allow anything from {bounds['any'].lower[2]:.2f} to {bounds['any'].upper[2]:.2f} for 'well'.")

    picture(answers, bounds).savefig(folder / "trial_in_dowhy.png", dpi=150)
    return answers


def picture(answers: dict[str, np.ndarray], bounds: dict[str, Bounds]) -> Figure:
    """What each mechanism says, and what data alone allow."""
    figure = Figure(figsize=(7, 4), layout="constrained")
    axes, places = figure.add_subplot(), np.arange(len(OUTCOMES))
    for shift, (name, probabilities) in zip((-0.3, -0.1), answers.items(), strict=True):
        axes.bar(places + shift, probabilities, 0.18, label=name)
    for shift, color, (kind, each) in zip((0.1, 0.25), ("C2", "C3"), bounds.items(), strict=True):
        axes.vlines(places + shift, each.lower, each.upper, lw=6, colors=color, label=f"{kind} coupling")
    axes.set_xticks(places, OUTCOMES)
    axes.set(ylim=(0, 1), ylabel="probability", title="Died on placebo. What would the drug have done?")
    figure.legend(loc="outside right upper")
    return figure


if __name__ == "__main__":
    main(Path(sys.argv[1] if len(sys.argv) > 1 else "."))
