"""What a policy is worth, from the log of another one."""

from countermax.mdp.evaluation._estimates import Estimate as Estimate
from countermax.mdp.evaluation._estimates import PolicyEvaluation as PolicyEvaluation
from countermax.mdp.evaluation._estimates import evaluate_policy as evaluate_policy
from countermax.mdp.evaluation._estimates import restricted as restricted
from countermax.mdp.evaluation._importance import ImportanceEstimates as ImportanceEstimates
from countermax.mdp.evaluation._importance import doubly_robust as doubly_robust
from countermax.mdp.evaluation._importance import effective_sample_size as effective_sample_size
from countermax.mdp.evaluation._importance import importance_estimates as importance_estimates
from countermax.mdp.evaluation._importance import importance_ratios as importance_ratios
from countermax.mdp.evaluation._ranking import Ranking as Ranking
from countermax.mdp.evaluation._ranking import rank_episodes as rank_episodes
