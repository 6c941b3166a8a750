"""Logged episodes under another policy: exactly, drawn, bounded, step by step."""

from countermax.mdp.replays._bounds import feature_bounds as feature_bounds
from countermax.mdp.replays._bounds import trajectory_bounds as trajectory_bounds
from countermax.mdp.replays._decisions import SMALL as SMALL
from countermax.mdp.replays._decisions import Decision as Decision
from countermax.mdp.replays._decisions import Decisions as Decisions
from countermax.mdp.replays._decisions import single_decisions as single_decisions
from countermax.mdp.replays._drawn import SampledReplay as SampledReplay
from countermax.mdp.replays._drawn import sample_replay as sample_replay
from countermax.mdp.replays._exact import Replay as Replay
from countermax.mdp.replays._exact import replay as replay
from countermax.mdp.replays._exact import replayed_values as replayed_values
from countermax.mdp.replays._questions import TransitionCoupling as TransitionCoupling
from countermax.mdp.replays._step_bounds import step_bounds as step_bounds
