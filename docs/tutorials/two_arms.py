# %% [markdown]
# # A trial, step by step
#
# A clinical trial compared a drug with placebo after a stroke, with 400 patients in each arm. One patient died on placebo. Would she have lived on the drug?
#
# The trial comes with the library. It is invented, and looks like a real one: one row for each patient.

# %%
from importlib.resources import files

import matplotlib.pyplot as plt
import pandas as pd

from countermax import Design, Trial

plt.rcParams["figure.dpi"] = 70
people = pd.read_csv(files("countermax") / "data/stroke_trial.csv")
people.groupby("arm")["outcome"].value_counts().unstack()

# %% [markdown]
# Fewer die on the drug: 64 against 112. But these are different people. The table says how many died in each arm; it does not say *who* would have.
#
# Ask the question. `score` says how good each outcome is, from 0 to 1.

# %%
order = ["dead", "hospital", "nursing home", "home"]
score = {"dead": 0, "hospital": 0.35, "nursing home": 0.6, "home": 1}
columns = {"outcome": "outcome", "arm": "arm", "control": "placebo", "treated": "drug"}
trial = Trial(people, labels=order, score=score, **columns)
answer = trial.compare("dead", couplings="all")
print(trial, answer.summary(), sep="\n\n")
answer.plot()

# %% [markdown]
# Each dot is one coupling's answer. All of them fit the trial perfectly, and they disagree.
#
# - **Gumbel-max** changes an outcome only where the drug made another one relatively likelier.
# - **Inverse CDF** keeps ranks: whoever does worst on placebo does worst on the drug.
# - **Independent** forgets what was seen.
#
# The black lines show what *any* coupling could say. More patients would shorten the thin lines, which are sampling uncertainty, but not the black ones.

# %% [markdown]
# ## How far apart are the couplings?
#
# Each coupling is a joint law of both worlds: rows are placebo, columns are the drug, and all of them have the same sums.

# %%
answer.plot_couplings()

# %% [markdown]
# ## What can be said whatever the coupling?
#
# Those who do not want to assume a coupling read the bounds.

# %%
dead = answer.row("P(dead)", "any coupling")
better = answer.row("better", "any coupling", "everybody")
print(f"She would have died on the drug too: at most {dead.upper:.0%}")
print(f"... with 95 % confidence about the sample: at most {dead.ci_upper:.0%}")
print(f"Of everybody, {better.ci_lower:.0%} to {better.ci_upper:.0%} would do better on the drug (95 % confidence)")

# %% [markdown]
# ## What if we knew more about her?
#
# The answer is for a patient of whom only the arm and the outcome are known. Within strata of severity the arms can be compared again, and each stratum counts as often as it occurs:

# %%
stratified = Trial(people, labels=order, score=score, design=Design(strata="severity"), **columns)
by_severity = stratified.compare("dead")
print(*by_severity.notes, sep="\n")

# %% [markdown]
# ## The noise made visible
#
# Under Gumbel-max each outcome has a clock that runs at a speed of its own, and the clock that rings first wins. Both worlds share the clocks; only the speeds differ. Draw the clocks many times,
# keep the draws in which "dead" wins on placebo, and count who wins on the drug: the draws settle at the exact answer, which needs no draws at all.

# %%
import numpy as np

from countermax import GumbelMax

shares = people.groupby("arm")["outcome"].value_counts(normalize=True).unstack()[order]
p, q = (np.log(shares.loc[arm].to_numpy()) for arm in ("placebo", "drug"))
exact = GumbelMax().counterfactual_probs(p, q, 0)

clocks = np.random.default_rng(0).exponential(size=(20_000, 4))
on_placebo, on_drug = (clocks / np.exp(p)).argmin(axis=1), (clocks / np.exp(q)).argmin(axis=1)
winners = on_drug[on_placebo == 0]
running = np.cumsum(winners[:, None] == np.arange(4), axis=0) / np.arange(1, len(winners) + 1)[:, None]

figure, axes = plt.subplots(figsize=(6, 3))
for place, label in enumerate(order):
    (line,) = axes.plot(running[:, place], label=label)
    axes.axhline(float(exact[place]), color=line.get_color(), linestyle=":")
axes.set(xscale="log", xlabel="draws in which she dies on placebo", ylabel="share on the drug", ylim=(0, 1))
axes.legend(loc="upper right", ncols=2)
figure.tight_layout()
plt.show()

# %% [markdown]
# Next: [what every number means](../two_arms.md), [which coupling to choose](../choosing.md), [the closed form](../closed_form.md) behind the dotted lines.
