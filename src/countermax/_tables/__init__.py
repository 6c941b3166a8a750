"""Frames of any library and tables in files: what every room that reads people's data stands on."""
