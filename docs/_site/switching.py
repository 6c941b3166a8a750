"""Draws the picture of who switches in a nested model: `make figures`."""

import sys

import numpy as np

from countermax import NestedGumbelMax, switching_table

MODES = ["car", "cycle", "train", "bus", "tram"]
NESTS = {"public": ["train", {"street": ["bus", "tram"]}]}

if __name__ == "__main__":
    model = NestedGumbelMax(NESTS, {"public": 0.75, "street": 0.5}, labels=MODES)
    base = np.array([[0.9, -0.8, 0.4, 0.2, -0.1]])
    table = switching_table(base, base + [0, 0, 0, 0, 0.8], model, labels=MODES, weights=[10_000])
    title = "A faster tram: public (0.75) holds train and street (0.5), street holds bus and tram"
    table.plot(title).savefig(sys.argv[1], dpi=200)
