"""What to be careful about when a policy is evaluated from the log of another one."""

from countermax.mdp._arrays import Floats, Ints
from countermax.mdp._process import FiniteMDP
from countermax.mdp.cautions import told_of_labels, told_of_undone
from countermax.mdp.estimation import visits
from countermax.mdp.evaluation.importance import effective_sample_size, visit_shares
from countermax.mdp.log import EpisodeLog
from countermax.mdp.planning import state_distributions

_FEW_EPISODES = 30
_THIN_VISITS = 10
_LARGE_THIN_SHARE = 0.1
_SMALL_SHARE = 1e-9  # rounding


def doubts(
    log: EpisodeLog,
    process: FiniteMDP,
    target: Floats,
    policy: Floats,
    left_out: Floats,
    ratios: Floats,
    steps: Ints,
    horizon: int,
) -> tuple[str, ...]:
    """What makes the estimates doubtful, in words.

    Args:
        log: Logged episodes.
        process: The model.
        target: The policy that was asked about.
        policy: The same among the actions that the model knows.
        left_out: [state]: how much of the target policy the model does not know.
        ratios: Ratios up to each step, no further than the horizon.
        steps: Number of steps over which each episode is compared.
        horizon: Number of steps.
    """
    found = [*told_of_labels(log), *weight_doubts(log, target, ratios)]
    counts = visits(log)
    occupancy = state_distributions(process, policy, horizon)[:-1].sum(axis=0) * ~process.absorbing
    occupancy /= max(occupancy.sum(), 1e-300)
    beyond = float(occupancy @ left_out)
    if beyond > _SMALL_SHARE:
        found.append(
            f"for {100 * beyond:.2g}% of the target policy's own steps the model knows no such action; every estimate "
            "is of the policy that chooses among the actions that it knows, and where it knows none that the "
            "target policy wants, does what was done most often"
        )
    thin = float((occupancy[:, None] * policy * (counts < _THIN_VISITS)).sum())
    if thin > _LARGE_THIN_SHARE:
        found.append(
            f"{thin:.0%} of the target policy's own steps rest on rows of fewer than {_THIN_VISITS} visits; where data "
            "are thin a policy that was optimised on them looks too good"
        )
    return (*found, *censoring_doubts(steps, horizon))


def weight_doubts(log: EpisodeLog, target: Floats, ratios: Floats) -> tuple[str, ...]:
    """What makes importance sampling doubtful.

    Args:
        log: Logged episodes.
        target: The policy that was asked about.
        ratios: Ratios up to each step, no further than the horizon.
    """
    found = []
    size = effective_sample_size(ratios)
    if size < _FEW_EPISODES:
        matching = int((ratios[:, -1] > 0).sum())
        found.append(
            f"importance sampling rests on {size:.1f} effective episodes ({matching} of {len(log)} have any weight); "
            "its estimates and their intervals are not to be trusted"
        )
    unseen = float(visit_shares(log) @ (target * (visits(log) == 0)).sum(axis=1))
    if unseen > _SMALL_SHARE:
        found.append(
            f"in {100 * unseen:.2g}% of the logged steps the target policy would do what nobody ever did in that "
            f"state: {told_of_undone(log, target)}"
        )
    return tuple(found)


def censoring_doubts(steps: Ints, horizon: int) -> tuple[str, ...]:
    """How many episodes stop too early, if any do.

    Args:
        steps: Number of steps over which each episode is compared.
        horizon: Number of steps.
    """
    censored = int((steps < horizon).sum())
    if not censored:
        return ()
    return (
        f"{censored} of {len(steps)} episodes are censored: they stop before step {horizon} without reaching an "
        "absorbing state; each counts only as far as it was seen",
    )
