"""A patient died. Would another policy have saved her, and how much of the answer is the coupling's doing?

Run it as `python examples/patient.py [FOLDER]`; the picture goes to the folder.
"""

import sys
from dataclasses import replace
from pathlib import Path

import jax

from countermax._plotting import picture
from countermax.mdp import Cohort, Posterior, Story, estimate, policy_iteration, simulate
from countermax.mdp._estimation import restricted, softened
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

    # What can be learned from it: a process, and the best policy among actions that were seen often enough.
    model = estimate(log, absorbing=ENDS)
    known = estimate(log, absorbing=ENDS, least_visits=20, discount=hospital.discount)
    policy, _ = restricted(model, policy_iteration(known).policy)

    outcomes = sepsis.projected_outcomes()
    # The model is doubted when the story is told; to pick a patient it is taken as given.
    given = Posterior(num_draws=0)
    ranking = Cohort(log, policy, process=model, outcomes=outcomes, posterior=given).rank(["gumbel-max"]).to_frame()
    died = ranking["observed"] < 0
    unsettled = ranking["effect_upper"] - ranking["effect_lower"] > 0.3
    patient = int(ranking.loc[died & unsettled, "episode"].iloc[0])

    story = Cohort(log, policy, process=model, outcomes=outcomes).explain(patient, features=sepsis.projected_features())
    print(*story.findings, sep="\n")
    (folder / "patient.png").write_bytes(picture(story.plot()))
    return story


if __name__ == "__main__":
    main(Path(sys.argv[1] if len(sys.argv) > 1 else "."))
