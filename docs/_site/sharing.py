"""Draws the picture of how much two arms must share for an answer to turn: `make figures`."""

import sys
from importlib.resources import files

from countermax import Trial

SCORE = {"dead": 0, "hospital": 0.35, "nursing home": 0.6, "home": 1}

if __name__ == "__main__":
    data = files("countermax") / "data/stroke_trial.csv"
    trial = Trial(data, outcome="outcome", arm="arm", control="placebo", treated="drug", score=SCORE)
    trial.compare("dead", sharing=True).sharing.plot().savefig(sys.argv[1], dpi=200)
