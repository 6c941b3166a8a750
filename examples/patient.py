"""A patient died. Would another policy have saved her, and how much of the answer is the mechanism's doing?

Run it as `python examples/patient.py [FOLDER]`; the picture goes to the folder.
"""

import sys
from pathlib import Path

from countermax import GumbelMax
from countermax.experiments.trajectories import cautious_policy, sepsis_log
from countermax.mdp import Explanation, explain, rank_episodes
from countermax.mdp.processes import sepsis
from countermax.plotting import picture


def main(folder: Path) -> Explanation:
    """Picks a patient whose case is open, among those whom the model would save, and tells the story."""
    log, model, _ = sepsis_log(faithful=False, num_episodes=1000, seed=0)
    policy, outcomes = cautious_policy(log, model), sepsis.projected_outcomes()
    ranking = rank_episodes(
        model, log, policy, mechanisms={"Gumbel-max": GumbelMax()}, outcomes=outcomes, discount=1.0
    ).to_frame()
    died = ranking["observed"] < 0
    unsettled = ranking["most effect"] - ranking["least effect"] > 0.3
    patient = int(ranking.loc[died & unsettled, "episode"].iloc[0])

    story = explain(model, log, patient, policy, features=sepsis.projected_features(), outcomes=outcomes)
    print(*story.findings, sep="\n")
    (folder / "patient.png").write_bytes(picture(story.plot()))
    return story


if __name__ == "__main__":
    main(Path(sys.argv[1] if len(sys.argv) > 1 else "."))
