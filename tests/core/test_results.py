"""What every result can do, and plain values."""

import importlib
import json
import pkgutil

import numpy as np
import pytest

import countermax
from countermax._core.results import AbstractOldResult, plain
from countermax.bounds import Bounds

pytestmark = pytest.mark.filterwarnings("ignore")  # of libraries that are imported on the way
_PARTS = ("to_frame", "to_dict", "to_json", "plot", "__rich__")


def _results():
    for module in pkgutil.walk_packages(countermax.__path__, "countermax."):
        if not module.name.endswith("__main__"):
            importlib.import_module(module.name)
    found = [each for each in AbstractOldResult.__subclasses__() if each.__module__.startswith("countermax")]
    assert len(found) >= 10
    return found


def test_every_result_is_final_and_has_every_form():
    for cls in _results():
        assert getattr(cls, "__final__", False), f"{cls.__name__} is not final"
        assert not getattr(cls, "__abstractmethods__", None), cls.__name__
        assert all(callable(getattr(cls, part)) for part in _PARTS), cls.__name__


def test_no_two_public_classes_have_one_name():
    homes = {}
    for module in pkgutil.walk_packages(countermax.__path__, "countermax."):
        if module.name.endswith("__main__"):
            continue
        for name, value in vars(importlib.import_module(module.name)).items():
            if isinstance(value, type) and value.__module__.startswith("countermax") and not name.startswith("_"):
                homes.setdefault(value.__name__, set()).add(value.__module__)
    assert {name: found for name, found in homes.items() if len(found) > 1 and not name.startswith("_")} == {}


def test_plain_values_are_what_json_can_hold():
    value = {"a": np.array([1.0, np.nan]), 2: Bounds(np.float64(0.5), np.inf), "c": (True, None, "x", np.int64(3))}
    assert plain(value) == {"a": [1.0, None], "2": {"lower": 0.5, "upper": None}, "c": [True, None, "x", 3]}
    json.dumps(plain(value), allow_nan=False)
