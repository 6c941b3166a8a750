"""Studies of the library: the paper's experiments and ours, each a plan of cells that are stored one by one.

`python -m studies NAME` computes what is not stored yet, and draws what is.
"""
