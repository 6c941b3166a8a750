"""What to be careful about when a policy is evaluated from the log of another one."""

from countermax.mdp._arrays import Floats
from countermax.mdp._process import FiniteMDP
from countermax.mdp.estimation import visits
from countermax.mdp.evaluation.importance import effective_sample_size, visit_shares
from countermax.mdp.log import EpisodeLog
from countermax.mdp.planning import state_distributions
from countermax.mdp.policies import restricted

_FEW_EPISODES = 30
_THIN_VISITS = 10
_LARGE_SHARE = 0.01
_LARGE_THIN_SHARE = 0.1


def doubts(log: EpisodeLog, process: FiniteMDP, target: Floats, ratios: Floats, horizon: int) -> tuple[str, ...]:
    """What makes the estimates doubtful, in words."""
    found = []
    size = effective_sample_size(ratios)
    if size < _FEW_EPISODES:
        matching = int((ratios[:, -1] > 0).sum())
        found.append(
            f"importance sampling rests on {size:.1f} effective episodes ({matching} of {len(log)} have any weight); "
            "its estimates and their intervals are not to be trusted"
        )
    counts = visits(log)
    unseen = float(visit_shares(log) @ (target * (counts == 0)).sum(axis=1))
    if unseen > _LARGE_SHARE:
        found.append(
            f"in {unseen:.1%} of the logged steps the target policy would do what nobody ever did in that state"
        )
    within, left_out = restricted(process, target)
    occupancy = state_distributions(process, within, horizon)[:-1].sum(axis=0) * ~process.absorbing
    occupancy /= max(occupancy.sum(), 1e-300)
    beyond = float(occupancy @ left_out)
    if beyond > _LARGE_SHARE:
        found.append(
            f"for {beyond:.1%} of the target policy's own steps the model knows no such action; the model-based and "
            "counterfactual estimates do there what was done most often"
        )
    thin = float((occupancy[:, None] * within * (counts < _THIN_VISITS)).sum())
    if thin > _LARGE_THIN_SHARE:
        found.append(
            f"{thin:.0%} of the target policy's own steps rest on rows of fewer than {_THIN_VISITS} visits; where data "
            "are thin a policy that was optimised on them looks too good"
        )
    return tuple(found)
