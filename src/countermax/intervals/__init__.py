"""Sampling uncertainty: how far an answer would move with other data of the same kind."""

from countermax.intervals._design import ResampledSampling as ResampledSampling
from countermax.intervals._interval import Interval as Interval
from countermax.intervals._interval import check_level as check_level
from countermax.intervals._interval import percentile_interval as percentile_interval
from countermax.intervals._interval import ratio_error as ratio_error
from countermax.intervals._interval import standard_error as standard_error
from countermax.intervals._inversion import NUM_CANDIDATES as NUM_CANDIDATES
from countermax.intervals._inversion import NUM_DRAWS as NUM_DRAWS
from countermax.intervals._inversion import inverted_intervals as inverted_intervals
from countermax.intervals._inversion import resampled_intervals as resampled_intervals
from countermax.intervals._pieces import reaching as reaching
from countermax.intervals._portable import DRAWS as DRAWS
from countermax.intervals._portable import Stream as Stream
from countermax.intervals._resampling import Bootstrap as Bootstrap
from countermax.intervals._sampling import PROPOSED as PROPOSED
from countermax.intervals._sampling import AbstractSampling as AbstractSampling
from countermax.intervals._sampling import CountSampling as CountSampling
from countermax.intervals._sampling import as_counts as as_counts
from countermax.intervals._sampling import divergence as divergence
from countermax.intervals._sampling import errors_when_drawn as errors_when_drawn
from countermax.intervals._sampling import normalised as normalised
from countermax.intervals._sampling import plausible as plausible
from countermax.intervals._sampling import proposals as proposals
