"""Experiments whose results are stored beside the code that made them."""
