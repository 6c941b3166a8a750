"""Finite Markov decision processes: planning, logs, estimation, simulation, and the sepsis process."""

from countermax.mdp._estimation import estimate as estimate
from countermax.mdp._estimation import estimate_policy as estimate_policy
from countermax.mdp._estimation import visits as visits
from countermax.mdp._finite import FiniteMDP as FiniteMDP
from countermax.mdp._icu_sepsis import ICUSepsis as ICUSepsis
from countermax.mdp._icu_sepsis import icu_sepsis as icu_sepsis
from countermax.mdp._log import EpisodeLog as EpisodeLog
from countermax.mdp._log import Steps as Steps
from countermax.mdp._planning import Plan as Plan
from countermax.mdp._planning import action_values as action_values
from countermax.mdp._planning import as_policy as as_policy
from countermax.mdp._planning import deterministic as deterministic
from countermax.mdp._planning import policy_iteration as policy_iteration
from countermax.mdp._planning import policy_matrix as policy_matrix
from countermax.mdp._planning import policy_value as policy_value
from countermax.mdp._planning import policy_values as policy_values
from countermax.mdp._planning import softened as softened
from countermax.mdp._planning import state_distributions as state_distributions
from countermax.mdp._queries import Query as Query
from countermax.mdp._queries import query as query
from countermax.mdp._replay import Replay as Replay
from countermax.mdp._replay import replay as replay
from countermax.mdp._rollout import simulate as simulate
from countermax.mdp._sampled_replay import SampledReplay as SampledReplay
from countermax.mdp._sampled_replay import sample_replay as sample_replay
