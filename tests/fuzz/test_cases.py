"""What failed once must not fail again."""

import pytest

from fuzz.case import KEPT, read_case
from fuzz.judges import judged

_PATHS = sorted(path for path in KEPT.glob("*.json") if not path.name.startswith("story-"))


@pytest.mark.parametrize("path", _PATHS, ids=lambda path: path.stem)
def test_a_kept_case_is_right(hands, path):
    case = read_case(path)
    assert judged(case, hands.run(case)) is None
