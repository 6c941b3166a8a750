"""Sampling uncertainty: how far an answer would move with other data of the same kind."""

from countermax.intervals._interval import Interval as Interval
