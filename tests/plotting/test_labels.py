import pytest

from countermax._plotting._labels import shortened, wrapped


def test_short_labels_stay_as_they_are():
    assert shortened(["dead", "ill", "well"]) == ["dead", "ill", "well"]


@pytest.mark.parametrize("longest", [8, 16, 24])
def test_long_labels_are_cut_and_stay_different(longest):
    labels = [f"an outcome with a long name, number {number}" for number in range(12)]
    labels += [f"{number}: the difference comes first in this long name" for number in range(12)]
    labels += [f"the middle {number} is where these differ, nowhere else at all" for number in range(12)]
    short = shortened(labels, longest)
    assert len(set(short)) == len(labels)
    assert max(map(len, short)) <= longest


def test_wrapped_labels_have_few_lines_and_stay_different():
    labels = ["discharged home in good health", "discharged home in poor health", "a$b"]
    lines = wrapped(labels, 12)
    assert len(set(lines)) == 3
    assert all(each.count("\n") < 3 for each in lines)
    assert lines[2] == r"a\$b"
