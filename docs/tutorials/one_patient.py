# %% [markdown]
# # One patient's trajectory
#
# A patient with sepsis was treated for several steps and died. Another policy would have treated her differently. What would have become of *her*, and how much of the answer
# is assumed rather than known?
#
# The patients are simulated by the sepsis process of Oberst and Sontag (2019), and seen as a clinician sees them, without glucose. From the log of 1,000 of them we estimate a model,
# and a policy that uses only actions that were seen often enough. The process is in the repository, not in the package: run this in a clone.

# %%
from countermax import GumbelMax, InverseCDF
from countermax.mdp import Cohort, Posterior
from studies.processes import sepsis
from studies.trajectories import cautious_policy, sepsis_log, true_value

log, model, simulator = sepsis_log(as_published=False, num_episodes=1000, seed=0)
policy = cautious_policy(log, model)
outcomes = sepsis.projected_outcomes()  # what two worlds have in common: the vital signs
print(f"{log.lengths.size} patients, {log.lengths.sum()} steps")

# %% [markdown]
# ## Everybody first
#
# `replay` computes what would have become of each logged patient, exactly: no trajectory is drawn. The bounds say how far any coupling could be from the two shown here.

# %%
for coupling in (GumbelMax(), InverseCDF()):
    replayed = Cohort(log, policy, process=model, outcomes=outcomes, discount=1.0).replay(coupling)
    print(f"{type(coupling).__name__:<11} mean outcome {replayed.values.mean():+.3f}")
bounds = Cohort(log, policy, process=model, discount=1.0).bounds()
print(f"any coupling between {bounds.lower.mean():+.3f} and {bounds.upper.mean():+.3f}")
print(f"seen in the log {log.returns(1.0).mean():+.3f}")
print(f"in truth, by the simulator {true_value(simulator, policy):+.3f}")

# %% [markdown]
# On average the two couplings agree. The truth lies well below both, and below the bounds: the model is an estimate that cannot see glucose. The bounds are over couplings; they take the model as given. That is why the story below doubts the model too.
#
# ## Whose case is open?

# %%
given = Posterior(num_draws=0)  # to pick a patient, the model is taken as given
ranking = (
    Cohort(log, policy, process=model, outcomes=outcomes, discount=1.0, posterior=given).rank(["gumbel-max"]).to_frame()
)
open_cases = ranking[(ranking["observed"] < 0) & (ranking["effect_upper"] - ranking["effect_lower"] > 0.3)]
patient = int(open_cases["episode"].iloc[0])
open_cases[["episode", "observed", "effect_lower", "effect_upper"]].head(3).round(2)

# %% [markdown]
# ## Her story

# %%
story = Cohort(log, policy, process=model, outcomes=outcomes, discount=1.0, posterior=Posterior(num_draws=20)).explain(
    patient, features=sepsis.projected_features()
)
print(*story.findings, sep="\n")

# %%
story.plot()

# %% [markdown]
# Black is what happened, colours are what would have happened, and the grey band is what any coupling could say. Dots are treatments that were given, rings those that the other policy
# would have given. The bars show at which step the choice of coupling matters.
#
# ## Which decision mattered?
#
# Change one action at a time and leave the others as they were:

# %%
story.plot_decisions()

# %% [markdown]
# Filled marks rest on five visits or more, hollow ones on fewer. A decision is called robust only if every coupling says so, and other data would have said so too.
#
# Next: [whole trajectories](../trajectories.md), [what another policy is worth](../policies.md), [the sepsis process](../sepsis_process.md).
