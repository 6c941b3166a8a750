# %% [markdown]
# # One patient's trajectory
#
# A patient with sepsis was treated for several steps and died. Another policy would have treated her differently. What would have become of *her*, and how much of the answer
# is assumed rather than known?
#
# The patients are simulated by the sepsis process of Oberst and Sontag (2019), and seen as a clinician sees them, without glucose. From the log of 1,000 of them we estimate a model,
# and a policy that uses only actions that were seen often enough. The process is in the repository, not in the package: run this in a clone.

# %%
from countermax import Cohort, Posterior
from studies.processes import sepsis
from studies.trajectories import cautious_policy, sepsis_log, true_value

log, model, simulator = sepsis_log(as_published=False, num_episodes=1000, seed=0)
policy = cautious_policy(log, model)
outcomes = sepsis.projected_outcomes()  # what two worlds have in common: the vital signs
print(f"{log.lengths.size} patients, {log.lengths.sum()} steps")

# %% [markdown]
# ## Everybody first
#
# A cohort is the log beside the policy; it is checked once, and can be asked many things. `replay` computes what would have become of each logged patient, exactly: no trajectory is drawn. The bounds say how far any coupling could be from the two shown here.

# %%
cohort = Cohort(log, policy, process=model, outcomes=outcomes, discount=1.0, posterior=Posterior(num_draws=40))
print(cohort)
for coupling in ("gumbel-max", "inverse-cdf"):
    print(f"{coupling:<11} mean outcome {cohort.replay(coupling).mean:+.3f}")
bounds = cohort.bounds()
print(f"any coupling between {bounds.lower.mean():+.3f} and {bounds.upper.mean():+.3f}")
print(f"seen in the log {log.returns(1.0).mean():+.3f}")
print(f"in truth, by the simulator {true_value(simulator, policy):+.3f}")

# %% [markdown]
# On average the two couplings agree. The truth lies well below both, and below the bounds: the model is an estimate that cannot see glucose. The bounds are over couplings; they take the model as given. That is why the story below includes model uncertainty: 40 transition models drawn from the posterior given the counts (by default 100).
#
# ## Whose case is open?

# %%
ranking = cohort.rank(["gumbel-max"])
open_cases = [place for place in ranking.order if ranking.observed[place] < 0 and ranking.bounds.width[place] > 0.3]
patient = ranking.episodes[open_cases[0]]
print(ranking.summary())
print(f"{len(open_cases)} died, and the couplings differ by more than 0.3 about them; the first is {patient}")

# %% [markdown]
# ## Her story

# %%
story = cohort.explain(patient, features=sepsis.projected_features())
print(story.summary())
print(*story.notes, sep="\n")

# %%
story.plot()

# %% [markdown]
# Black is what happened, colours are what would have happened, and the grey band is the range over all couplings. Dots are treatments that were given, rings those that the other policy
# would have given. The bars show the effect of the coupling assumption at each step, and the records behind it.
#
# ## Which decision mattered?
#
# Change one action at a time and leave the others as they were:

# %%
story.plot_decisions()

# %% [markdown]
# Filled marks rest on five visits or more, hollow ones on fewer. A decision is called robust only if every coupling says so, with 95 % confidence in the model too.
#
# Next: [whole trajectories](../trajectories.md), [what another policy is worth](../policies.md), [the sepsis process](../sepsis_process.md).
