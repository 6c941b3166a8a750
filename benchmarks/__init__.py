"""Measurements behind the speed claims: `make bench`."""
