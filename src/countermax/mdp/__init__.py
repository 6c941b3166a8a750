"""Finite Markov decision processes: planning, logs, estimation, simulation, and what other policies would have done."""

from countermax.mdp._cohort import Cohort as Cohort
from countermax.mdp._decisions import Decision as Decision
from countermax.mdp._decisions import Decisions as Decisions
from countermax.mdp._distribution import ReturnDistribution as ReturnDistribution
from countermax.mdp._estimation import estimate as estimate
from countermax.mdp._estimation import estimate_policy as estimate_policy
from countermax.mdp._estimation import softened as softened
from countermax.mdp._evaluation import PolicyEvaluation as PolicyEvaluation
from countermax.mdp._files import read_log_and_policy as read_log_and_policy
from countermax.mdp._log import EpisodeLog as EpisodeLog
from countermax.mdp._planning import policy_iteration as policy_iteration
from countermax.mdp._planning import policy_value as policy_value
from countermax.mdp._planning import simulate as simulate
from countermax.mdp._planning import state_distributions as state_distributions
from countermax.mdp._posterior import Posterior as Posterior
from countermax.mdp._process import FiniteMDP as FiniteMDP
from countermax.mdp._replays._questions import logged_pairs as logged_pairs
from countermax.mdp._results import Ranking as Ranking
from countermax.mdp._results import Replay as Replay
from countermax.mdp._story import Story as Story
