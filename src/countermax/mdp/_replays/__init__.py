"""Logged episodes under another policy, in one process: exactly, drawn, bounded, step by step."""
