"""What a result about causes says of one quantity, for tests: its bounds, its couplings and their intervals."""

from countermax.bounds import Bounds

FAMILIES = {"bounds": "any coupling", "stable_bounds": "stable couplings", "monotone_bounds": "monotone"}


class Quantity:
    """The rows about one quantity."""

    def __init__(self, result, name):
        self.name = name
        self.rows = {each.coupling: each for each in result.rows if each.quantity == name}
        assert self.rows or name in result.meanings, name

    def __getattr__(self, field):
        """Bounds over a family of couplings; None where there are none."""
        row = self.rows.get(FAMILIES[field])
        return None if row is None or row.lower is None else Bounds(row.lower, row.upper)

    def spans(self):
        """All bounds there are, by family of couplings."""
        return {name: getattr(self, field) for field, name in FAMILIES.items() if getattr(self, field) is not None}

    @property
    def by_coupling(self):
        """What single couplings say."""
        return {name: row.value for name, row in self.rows.items() if row.value is not None}

    def interval(self, coupling="any coupling"):
        """The confidence interval; None where there is none."""
        row = self.rows.get(coupling)
        return None if row is None or row.ci_lower is None else (row.ci_lower, row.ci_upper)


def quantity(result, name):
    """One of them."""
    return Quantity(result, name)


def quantities(result):
    """All of them, in their order."""
    return [Quantity(result, name) for name in result.meanings]
