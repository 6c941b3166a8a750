"""Processes that come with the library."""
