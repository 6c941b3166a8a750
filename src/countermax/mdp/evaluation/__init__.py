"""What a policy is worth, from the log of another one; importance sampling alone is in `importance`."""

from countermax.mdp.evaluation._distribution import ReturnDistribution as ReturnDistribution
from countermax.mdp.evaluation._distribution import return_distribution as return_distribution
from countermax.mdp.evaluation._estimates import evaluate_policy as evaluate_policy
from countermax.mdp.evaluation._ranking import Ranking as Ranking
from countermax.mdp.evaluation._ranking import rank_episodes as rank_episodes
from countermax.mdp.evaluation._results import Estimate as Estimate
from countermax.mdp.evaluation._results import PolicyEvaluation as PolicyEvaluation
