"""A trial with three outcomes in DoWhy: Gumbel-max against inverse CDF against what data alone allow.

python examples/trial_in_dowhy.py [FOLDER FOR THE PICTURE]
"""

import sys
from pathlib import Path

import networkx as nx
import numpy as np
import pandas as pd
from dowhy import gcm
from sklearn.linear_model import LogisticRegression

from countermax import GumbelMax, InverseCDF, Worlds
from countermax.integrations.dowhy import CategoricalMechanism, counterfactual_probabilities

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

    outcome = model.causal_mechanism("outcome")
    both = [outcome.probabilities(patient.assign(arm=arm)[["age", "arm"]].to_numpy())[0] for arm in ("placebo", "drug")]
    worlds = Worlds(*both, labels=OUTCOMES, names=("placebo", "drug"))  # hers, by the classifier
    compared = worlds.compare("died", couplings=["gumbel-max", "inverse-cdf"])
    well = compared.row("P(well)", "any coupling")
    print(f"Data alone allow anything from {well.lower:.2f} to {well.upper:.2f} for 'well'.")
    compared.plot().savefig(folder / "trial_in_dowhy.png", dpi=150)
    return answers


if __name__ == "__main__":
    main(Path(sys.argv[1] if len(sys.argv) > 1 else "."))
