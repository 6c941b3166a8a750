"""The one exception that says: what you handed in cannot be right."""


class InputError(ValueError):
    """Something handed in cannot be right; the message says what, and what to do."""
