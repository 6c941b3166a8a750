"""Judges must be able to fail: each kind of fault, forged, is told."""

import json
from dataclasses import replace

import pytest

from fuzz.case import Case, Failure, keep, read_case
from fuzz.hands import Outcome
from fuzz.judges import judged
from fuzz.second.questions import words

_COMPARE = Case(
    "compare",
    argv=("compare", "--factual=0.2,0.3,0.5", "--counterfactual=0.6,0.3,0.1", "--seen=2", "--score=0,1,2", "--json"),
)
_ROWS = Case(
    "counterfactuals",
    argv=(
        "counterfactuals",
        "x.csv",
        "--outcome=s",
        "--factual=p_",
        "--counterfactual=q_",
        "--out=o.csv",
        "--bounds=none",
    ),
    files={"x.csv": b"id,s,p_01,p_1,q_01,q_1\n007,01,0.5,0.5,0.2,0.8\n"},
)
_LINE = b"007,01,0.5,0.5,0.2,0.8,0.4,0.6,1,True\n"
_NEW = (b"01", b"1", b"most_likely", b"coupling_matters")
_HEAD = b"id,s,p_01,p_1,q_01,q_1," + b",".join(b"counterfactual_" + each for each in _NEW) + b"\n"


@pytest.fixture(scope="module")
def answer(hands):
    return hands.run(_COMPARE)


def test_a_right_answer_is_right(answer):
    assert judged(_COMPARE, answer) is None


@pytest.mark.parametrize(
    ("path", "change"),
    [
        (("P(1)", "this person", "Gumbel-max", "value"), 1e-8),
        (("joints", "Gumbel-max", 0, 0), 1e-8),
        (("agreement", "everybody", "Gumbel-max", "value"), 1e-8),
        (("effect variance", "everybody", "Gumbel-max", "value"), 1e-7),
        (("better", "this person", "Gumbel-max", "value"), 1e-8),
        (("P(0)", "this person", "any coupling", "upper"), 1e-8),
        (("P(0)", "this person", "stable couplings", "lower"), -1e-3),
        (("effect", "this person", "any coupling", "lower"), 1e-7),
        (("worse", "this person", "any coupling", "upper"), 1e-8),
        (("p", 0), 1e-8),
    ],
)
def test_any_number_that_is_off_is_found(answer, path, change):
    content = json.loads(answer.stdout)
    node = next(
        (row for row in content["rows"] if (row["quantity"], row["about"], row["coupling"]) == path[:3]), content
    )
    for key in path[:-1] if node is content else ():
        node = node[key]
    node[path[-1]] += change
    found = judged(_COMPARE, replace(answer, stdout=json.dumps(content).encode()))
    assert found is not None
    assert found.kind == "wrong answer"


@pytest.mark.parametrize(
    ("kind", "outcome"),
    [
        ("traceback", Outcome(status=None, trouble='Traceback (most recent call last):\nValueError: "x"')),
        ("traceback", Outcome(status=1, stderr=b"Traceback (most recent call last):\n  x\nValueError: x\n")),
        ("never ends", Outcome(trouble="never ends: nothing after 9 seconds")),
        ("died", Outcome(trouble="died: the process ended with status -6")),
        ("status", Outcome(status=3, stderr=b"countermax: x\n")),
        ("not one line", Outcome(status=2, stderr=b"countermax: x\nand y\n")),
        ("not one line", Outcome(status=2)),
        ("noise", Outcome(status=0, stderr=b"RuntimeWarning: overflow\n")),
        (
            "unexpected",
            Outcome(status=1, stderr=b"countermax: unexpected KeyError; this is a fault of countermax\n"),
        ),
        ("refused", Outcome(status=2, stderr=b"countermax: no\n")),
        ("partial output", Outcome(status=2, stderr=b"countermax: no\n", files={"half.png": b""})),
        ("left behind", Outcome(status=0, files={".answers.x8": b""})),
    ],
)
def test_every_untidy_end_is_found(kind, outcome):
    found = judged(_COMPARE, outcome)
    assert found is not None
    assert found.kind == kind


_LOGITS = (
    b"countermax: --factual must hold logits, and looks like probabilities: no number is negative, and the sum is 1\n"
)


def test_a_notice_is_no_noise_where_it_belongs():
    case = Case("plain", argv=("compare", "--factual=0.5,0.5", "--counterfactual=0.2,0.8", "--seen=0", "--logits"))
    assert judged(case, Outcome(status=0, stderr=_LOGITS)) is None
    assert judged(case, Outcome(status=0, stderr=_LOGITS + b"and more\n")).kind == "noise"
    assert judged(replace(case, argv=case.argv[:-1]), Outcome(status=0, stderr=_LOGITS)).kind == "noise"
    assert judged(case, Outcome(status=2, stderr=_LOGITS + b"countermax: no\n")) is None
    assert judged(case, Outcome(status=2, stderr=_LOGITS)).kind == "not one line"


def test_words_in_quotes_keep_their_spaces():
    assert words('a, b ," c ","d ""e"""') == ["a", "b", " c ", 'd "e"']


def test_what_must_be_refused_is_not_accepted(answer):
    bad = replace(_COMPARE, argv=tuple(each.replace("0.5", "0.9") for each in _COMPARE.argv))
    assert judged(bad, answer).kind == "accepted"


def _written(content):
    return Outcome(status=0, files={**_ROWS.files, "o.csv": content})


def test_a_table_is_right_only_if_labels_and_zeros_are_kept():
    assert judged(_ROWS, _written(_HEAD + _LINE.replace(b",1,True", b",1,True"))) is None
    for wrong in (
        _LINE.replace(b"007", b"7"),
        _LINE.replace(b"0.4,0.6", b"0.6,0.4"),
        _LINE.replace(b",1,True", b",01,True"),
        _LINE.replace(b"True", b"False"),
        _LINE + _LINE,
    ):
        assert judged(_ROWS, _written(_HEAD + wrong)).kind == "wrong answer"


def test_objects_in_json_have_no_order_of_columns():
    """A name that only a later line has stands behind the answers of the first one."""
    first = '{"s":"a","p_a":0.5,"p_b":0.5,"q_a":0.2,"q_b":0.8'
    second = first.replace("{", '{"id":"7",')
    answer = ', "counterfactual_a":0.4,"counterfactual_b":0.6,"counterfactual_most_likely":"b"'
    case = replace(
        _ROWS,
        argv=tuple(each.replace(".csv", ".jsonl") for each in _ROWS.argv),
        files={"x.jsonl": f"{first}}}\n{second}}}\n".encode()},
    )

    def found(after):
        lines = "".join(f'{line}{answer},"counterfactual_coupling_matters":true}}\n' for line in (first, after))
        return judged(case, Outcome(status=0, files={**case.files, "o.jsonl": lines.encode()}))

    assert found(second) is None
    assert found(first).kind == "wrong answer"
    assert found(second.replace('"7"', '"8"')).kind == "wrong answer"


def test_inputs_stay_as_they_are():
    outcome = Outcome(status=2, stderr=b"countermax: no\n", files={"x.csv": b"<html>"})
    assert judged(_ROWS, outcome).kind == "input changed"


def test_a_case_is_kept_whole(tmp_path):
    case = replace(
        _ROWS, files={**_ROWS.files, "b.npz": b"\xff\x00", "n\udce9.csv": b""}, means={"a": [1]}, process=True
    )
    assert read_case(keep(case, Failure("refused", "x"), "here", tmp_path)) == case
