"""Gymnasium: logs recorded from environments."""

from countermax.integrations.gymnasium._recorders import EpisodeRecorder as EpisodeRecorder
from countermax.integrations.gymnasium._recorders import VectorEpisodeRecorder as VectorEpisodeRecorder
