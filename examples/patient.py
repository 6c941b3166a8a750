"""A patient died. Would another policy have saved her, and how much of the answer is the coupling's doing?

Run it in a clone as `PYTHONPATH=. python examples/patient.py [FOLDER]`; the picture goes to the folder.
"""

import sys
from dataclasses import replace
from pathlib import Path

import jax

from countermax.mdp import Cohort, Posterior, Story, estimate, policy_iteration, simulate, softened
from studies.processes import sepsis

ENDS = [sepsis.DEATH, sepsis.DISCHARGE]


def main(folder: Path) -> Story:
    """Picks a patient whose case is open, among those whom the model would save, and tells the story."""
    # A log of 1,000 patients, who were treated nearly as well as can be, as a clinician sees them.
    hospital = sepsis.process()
    done = softened(policy_iteration(hospital).policy, 0.95)
    episodes = simulate(hospital, done, num_episodes=1000, horizon=20, key=jax.random.key(0))
    log = episodes.with_states(sepsis.projection(), sepsis.NUM_PROJECTED, state_names=sepsis.projected_names())
    log = replace(log, action_names=sepsis.action_names())

    # What can be learned from it: the best policy among actions that were seen often enough.
    known = estimate(log, absorbing=ENDS, least_visits=20, discount=hospital.discount)
    policy = policy_iteration(known).policy

    # To pick a patient, the model is taken as given; the story includes its uncertainty.
    asked = {"process": estimate(log, absorbing=ENDS), "outcomes": sepsis.projected_outcomes()}
    ranking = Cohort(log, policy, posterior=Posterior(num_draws=0), **asked).rank(["gumbel-max"])
    died, unsettled = ranking.observed < 0, ranking.bounds.width > 0.3
    patient = next(ranking.episodes[place] for place in ranking.order if died[place] and unsettled[place])

    story = Cohort(log, policy, **asked).explain(patient, features=sepsis.projected_features())
    print(story)
    story.plot().savefig(folder / "patient.png", dpi=200)
    return story


if __name__ == "__main__":
    main(Path(sys.argv[1] if len(sys.argv) > 1 else "."))
