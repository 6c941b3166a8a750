"""Sampling uncertainty: confidence intervals, from resamples and from tests that are inverted."""

from countermax.intervals._interval import Interval as Interval
