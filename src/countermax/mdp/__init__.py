"""Finite Markov decision processes: planning, logs, estimation, simulation, and what other policies would have done.

Parts are in their modules: `policies`, `planning`, `estimation`, `log`, `files`, `replays`, `evaluation.importance`.
The processes that come with the library are in `processes.sepsis` and `processes.icu`.
"""

from countermax.mdp import processes as processes
from countermax.mdp._pairs import logged_pairs as logged_pairs
from countermax.mdp._process import FiniteMDP as FiniteMDP
from countermax.mdp._queries import Query as Query
from countermax.mdp._queries import query as query
from countermax.mdp._simulation import simulate as simulate
from countermax.mdp.doubt import Doubt as Doubt
from countermax.mdp.estimation import estimate as estimate
from countermax.mdp.estimation import estimate_policy as estimate_policy
from countermax.mdp.evaluation import Estimate as Estimate
from countermax.mdp.evaluation import PolicyEvaluation as PolicyEvaluation
from countermax.mdp.evaluation import Ranking as Ranking
from countermax.mdp.evaluation import ReturnDistribution as ReturnDistribution
from countermax.mdp.evaluation import evaluate_policy as evaluate_policy
from countermax.mdp.evaluation import rank_episodes as rank_episodes
from countermax.mdp.evaluation import return_distribution as return_distribution
from countermax.mdp.files import LoggedPolicy as LoggedPolicy
from countermax.mdp.files import read_log_and_policy as read_log_and_policy
from countermax.mdp.log import EpisodeLog as EpisodeLog
from countermax.mdp.planning import Plan as Plan
from countermax.mdp.planning import policy_iteration as policy_iteration
from countermax.mdp.planning import policy_value as policy_value
from countermax.mdp.planning import policy_values as policy_values
from countermax.mdp.replays import Decision as Decision
from countermax.mdp.replays import Decisions as Decisions
from countermax.mdp.replays import Replay as Replay
from countermax.mdp.replays import SampledReplay as SampledReplay
from countermax.mdp.replays import replay as replay
from countermax.mdp.replays import sample_replay as sample_replay
from countermax.mdp.replays import single_decisions as single_decisions
from countermax.mdp.replays import trajectory_bounds as trajectory_bounds
from countermax.mdp.story import Story as Story
from countermax.mdp.story import explain as explain
