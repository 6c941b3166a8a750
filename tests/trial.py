"""A trial with categorical outcomes, and a model of it in DoWhy."""

import networkx as nx
import numpy as np
import pandas as pd
import pytest
from sklearn.linear_model import LogisticRegression

from countermax import GumbelMax

gcm = pytest.importorskip("dowhy.gcm")
from countermax.integrations.dowhy import CategoricalMechanism  # noqa: E402

gcm.config.disable_progress_bars()
gcm.config.set_default_n_jobs(1)

CLASSES = ["dead", "ill", "well"]
TO_B = {"drug": lambda _: "B"}


def trial(count=300):
    """A drug (text), age (a number) and status (text, one class rare), whether at home (boolean), and what it cost."""
    rng = np.random.default_rng(0)
    drug, age = np.where(rng.integers(0, 2, count), "B", "A"), rng.normal(size=count)
    better = (drug == "B").astype(float)
    logits = np.stack([0 * age - 0.5 * age, 0.5 + 0.8 * better, 1.5 * better + 0.3 * age], axis=1)
    status = np.array(CLASSES)[(logits + rng.gumbel(size=(count, 3))).argmax(axis=1)]
    status[:4] = "lost"
    home = rng.random(count) < np.where(status == "well", 0.8, 0.3)
    cost = 3.0 * (status == "ill") + 5 * (status == "dead") + age + rng.normal(size=count)
    return pd.DataFrame({"drug": drug, "age": age, "status": status, "home": home, "cost": cost})


DATA = trial()
GRAPH = [("drug", "status"), ("age", "status"), ("status", "home"), ("status", "cost"), ("age", "cost")]


def fitted(mechanism=GumbelMax(), data=DATA, **options):  # noqa: B008
    model = gcm.InvertibleStructuralCausalModel(nx.DiGraph(GRAPH))
    for root in ("drug", "age"):
        model.set_causal_mechanism(root, gcm.EmpiricalDistribution())
    model.set_causal_mechanism("cost", gcm.AdditiveNoiseModel(gcm.ml.create_linear_regressor()))
    classifier = LogisticRegression(max_iter=300)
    model.set_causal_mechanism("status", CategoricalMechanism(classifier, mechanism, **options))
    model.set_causal_mechanism("home", CategoricalMechanism(LogisticRegression(), **options))
    gcm.fit(model, data)
    return model
