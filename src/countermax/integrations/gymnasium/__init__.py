"""Gymnasium: logs recorded from environments, and the sepsis process as one; importing this registers it.

gymnasium.make("countermax.integrations.gymnasium:countermax/Sepsis-v0")
"""

from countermax.integrations.gymnasium._recorders import EpisodeRecorder as EpisodeRecorder
from countermax.integrations.gymnasium._recorders import VectorEpisodeRecorder as VectorEpisodeRecorder
from countermax.integrations.gymnasium._sepsis import SepsisEnv as SepsisEnv
