"""The one exception that says: what you handed in cannot be right; and the warning that says: probably it is not."""


class InputError(ValueError):
    """Something handed in cannot be right; the message says what, and what to do."""


class ProbabilitiesAsLogitsWarning(UserWarning):
    """Logits were asked for, and what was handed in looks like probabilities."""
