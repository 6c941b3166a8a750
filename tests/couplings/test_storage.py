"""One file for a coupling: what comes back, and what is refused."""

import copy
import dataclasses
import json
import os

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
import safetensors.numpy

from countermax import (
    Comonotone,
    Gadget1,
    Gadget2,
    GumbelMax,
    InputError,
    InverseCDF,
    NestedGumbelMax,
    Optimal,
    SharedGumbelMax,
    VectorQuantile,
    load,
    save,
)
from countermax._core.archive import _checksum, pack, unpack
from countermax.couplings import BinnedInverseCDF, Constant, Diagonal, Perceptron, ReferenceTransport
from countermax.couplings._parts import Started
from countermax.couplings._storage import CLASSES

KEY = jax.random.key(0)
POINTS = np.random.default_rng(0).normal(size=(7, 2)).astype(np.float32)
COUPLINGS = {
    "GumbelMax": GumbelMax(),
    "SharedGumbelMax": SharedGumbelMax(0.25),
    "NestedGumbelMax": NestedGumbelMax({"a": [0, {"b": [1, 2]}]}, [0.5, 0.25], labels=4),
    "InverseCDF": InverseCDF([2, 0, 1, 3]),
    "InverseCDF without an order": InverseCDF(),
    "Comonotone": Comonotone([2.0, 0.0, 1.0, 3.0], [1.0, 2.0, 0.0, 4.0]),
    "Optimal": Optimal(np.abs(np.arange(4.0)[:, None] - np.arange(4.0)).astype(np.float32)),
    "VectorQuantile": VectorQuantile(POINTS[:3], POINTS[3:], weights=[1.0, 2.0, 3.0]),
    "Gadget1": Gadget1(4, key=KEY, hidden=(8,)),
    "Gadget1 with a start": Gadget1(4, key=KEY, start=Diagonal(4), part=Constant(4, 4, key=KEY), shared=True),
    "Gadget2": Gadget2(4, 3, key=KEY, part=Perceptron(3, 4, key=KEY, hidden=(8,), activation="tanh")),
    "Gadget2 with a start": Gadget2(4, 3, key=KEY, start=BinnedInverseCDF(3, [3.0, 1.0, 2.0, 0.0]), hidden=(8,)),
    "Gadget2 with points": Gadget2(
        4, 3, key=KEY, start=ReferenceTransport(POINTS[:3], POINTS[3:]), part=Constant(3, 4, key=KEY)
    ),
}


@pytest.fixture
def path(tmp_path):
    return tmp_path / "coupling.safetensors"


@pytest.mark.parametrize("name", COUPLINGS)
def test_what_is_saved_comes_back(name, path):
    coupling = COUPLINGS[name]
    again = load(save(coupling, path))
    assert eqx.tree_equal(coupling, again)
    p, q = np.random.default_rng(0).normal(size=(2, 4)).astype(np.float32)
    joint = eqx.filter_jit(lambda each: each.joint(p, q))
    np.testing.assert_array_equal(joint(coupling), joint(again))


def test_files_are_safetensors_and_the_same_coupling_has_the_same_bytes(path):
    content = save(COUPLINGS["Gadget2"], path).read_bytes()
    arrays = safetensors.numpy.load(content)
    assert {each.dtype for each in arrays.values()} == {np.dtype(np.float32)}
    header, _ = unpack(path, "coupling")
    assert header["kind"] == "coupling"
    assert save(COUPLINGS["Gadget2"], path, overwrite=True).read_bytes() == content


def test_every_class_with_fields_says_what_they_must_hold():
    assert set(CLASSES) == {type(part).__name__ for each in COUPLINGS.values() for part in _modules(each)} | {
        "Independent",
        "Maximal",
    }
    for each in CLASSES.values():
        assert not dataclasses.fields(each) or "__check_init__" in vars(each), each


def _modules(value):
    if isinstance(value, eqx.Module):
        yield value
        for field in dataclasses.fields(value):
            yield from _modules(getattr(value, field.name))


# What a file may not say, with a checksum that is right: for each class, changes of one field.

_FLOATS = {
    "NaN": lambda array: _first(array, np.nan),
    "an infinity": lambda array: _first(array, -np.inf),
    "what is infinite in single precision": lambda array: _first(array.astype(np.float64), 1e300),
    "whole numbers": lambda array: array.astype(np.int32),
    "half precision": lambda array: array.astype(np.float16),
    "another number of dimensions": lambda array: array[None],
    "a number more": lambda array: np.concatenate([array, array[-1:]]),
    "nothing": lambda array: array[:0],
    "a single number": lambda array: array.ravel()[0],
}
_ORDERS = {
    "an outcome twice": lambda array: _first(array, array[1]),
    "a negative outcome": lambda array: _first(array, -1),
    "an outcome that is not there": lambda array: _first(array, 99),
    "an outcome that would wrap around": lambda array: array.astype(np.int64) + 2**32,
    "fractions": lambda array: array.astype(np.float32),
    "truths": lambda array: array.astype(bool),
    "another number of dimensions": lambda array: array[None],
    "nothing": lambda array: array[:0],
}
_NO_COUNT = (None, True, 0, -1, 2.0, 2**31, 10**40, "3", "")
_NO_NUMBER = (None, True, "1", 1e300, -1e300, 10**400)
_NO_WORD = (None, True, 0, "", "other")
_CHANGES = {
    "InverseCDF": {"order": _ORDERS},
    "Comonotone": {"order": _ORDERS, "other_order": _ORDERS},
    "NestedGumbelMax": {
        "home": {key: change for key, change in _ORDERS.items() if key != "an outcome twice"},
        "numbers": _FLOATS,
        "parents": (None, True, 0, "0"),
        "names": (None, True, 0, "a"),
        "is_limit": (None, 0, "true", True),
    },
    "Optimal": {"loss": _FLOATS},
    "Gadget1": {"size": (*_NO_COUNT, 5), "part": _NO_WORD, "other_part": (True, 0, "", 1.5)},
    "Gadget2": {
        "latent_logits": {**_FLOATS, "huge": lambda array: _first(array, 1e38)},
        "size": (*_NO_COUNT, 5),
        "part": _NO_WORD,
        "learn_latents": (None, 0, 1, "true"),
        "rounds": (None, True, -1, 2.0, 10**6, 10**9, "3"),
        "relaxation": (*_NO_NUMBER, 0, -1.0, 2.5),
        "momentum": (*_NO_NUMBER, -0.5, 1.0),
        "correction": _NO_WORD,
    },
    "Perceptron": {
        "weights": {**_FLOATS, "huge": lambda array: np.full_like(array, 3e38)},
        "biases": {**_FLOATS, "huge": lambda array: np.full_like(array, 3e38)},
        "num_rows": (*_NO_COUNT, 2, 6),
        "activation": _NO_WORD,
        "features": (*_NO_WORD, "probabilities"),
    },
    "Constant": {"values": {**_FLOATS, "huge": lambda array: _first(array, 1e38)}},
    "Diagonal": {"num_outcomes": (*_NO_COUNT, 5, 10**9), "strength": _NO_NUMBER},
    "BinnedInverseCDF": {
        "order": _ORDERS,
        "num_latents": (*_NO_COUNT, 4, 10**9),
        "leak": (*_NO_NUMBER, 0, 0.0, 1e-40, 2.0),
    },
    "ReferenceTransport": {
        "points": {**_FLOATS, "huge": lambda array: _first(array, 1e38)},
        "scores": {**_FLOATS, "zeros": np.zeros_like, "tiny": lambda array: 1e-30 * array},
        "blur": (*_NO_NUMBER, 0.0, -1.0, 1e-38),
    },
    "Started": {"start": _NO_WORD, "part": _NO_WORD},
}


def _first(array, value):
    changed = array.copy()
    changed.flat[0] = value
    return changed


def _owner(name):
    return next(each for each in COUPLINGS.values() if any(type(part).__name__ == name for part in _modules(each)))


def _find(node, name):
    if node.get("class") == name:
        return node
    inside = [*node.get("fields", {}).values(), *node.get("items", [])]
    return next((found for each in inside if (found := _find(each, name))), None)


@pytest.mark.parametrize("name", _CHANGES)
def test_no_field_may_hold_what_its_class_does_not_allow(name, path, as_users_call):
    header, arrays = unpack(save(_owner(name), path), "coupling")

    def refuse(tree, arrays, what):
        path.write_bytes(pack("coupling", {"tree": tree}, arrays))
        said = None
        try:
            load(path)
        except InputError as error:
            said = str(error)
        assert said is not None, f"{name} with {what} was loaded"
        assert "does not hold a coupling of this release: " in said
        assert "\n" not in said

    for field, changes in _CHANGES[name].items():
        without = copy.deepcopy(header["tree"])
        del _find(without, name)["fields"][field]
        refuse(without, arrays, f"no {field}")
        for change in changes:
            tree = copy.deepcopy(header["tree"])
            fields = _find(tree, name)["fields"]
            if not isinstance(changes, dict):
                fields[field] = {"value": change}
                refuse(tree, arrays, f"{field} = {change!r}")
                continue
            index = (fields[field]["items"][0] if "items" in fields[field] else fields[field])["array"]
            changed = np.asarray(changes[change](arrays[index]))
            refuse(tree, [*arrays[:index], changed, *arrays[index + 1 :]], f"{change} in {field}")
    more = copy.deepcopy(header["tree"])
    _find(more, name)["fields"]["speed"] = {"value": 1}
    refuse(more, arrays, "a field more")
    for other in set(CLASSES) - {name, "Comonotone"}:
        tree = copy.deepcopy(header["tree"])
        _find(tree, name)["class"] = other
        refuse(tree, arrays, f"the class {other}")


@pytest.mark.parametrize(
    ("tree", "message"),
    [
        (None, "describes nothing"),
        ([], "describes nothing"),
        ({"value": 3}, "it describes 3"),
        ({"value": 3, "array": 0}, "describes nothing"),
        ({"array": True}, "array True is missing"),
        ({"array": -1}, "array -1 is missing"),
        ({"items": []}, r"it describes \(\)"),
        ({"class": "os.system", "fields": {}}, "this release has no 'os.system'"),
        ({"class": "Independent", "fields": []}, "describes nothing"),
        ({"class": "Diagonal", "fields": {"num_outcomes": {"value": 4}, "strength": {"value": 4.0}}}, "a Diagonal"),
    ],
)
def test_headers_that_describe_no_coupling_are_refused(tree, message, path, as_users_call):
    path.write_bytes(pack("coupling", {"tree": tree}, []))
    with pytest.raises(InputError, match=message):
        load(path)


def test_parts_cannot_be_nested_without_end(path, as_users_call):
    part = {"class": "Diagonal", "fields": {"num_outcomes": {"value": 4}, "strength": {"value": 4.0}}}
    for _ in range(400):
        part = {"class": "Started", "fields": {"start": {"value": None}, "part": part}}
    path.write_bytes(pack("coupling", {"tree": part}, []))
    with pytest.raises(InputError, match="more than 32 deep"):
        load(path)
    path.write_bytes(_sealed('{"tree": ' + "[" * 100_000))
    with pytest.raises(InputError, match="damaged"):
        load(path)
    own = Diagonal(4)
    for _ in range(40):
        own = Started(Diagonal(4), own)
    with pytest.raises(InputError, match="cannot save parts within parts"):
        save(Gadget1(4, key=KEY, part=own, shared=True), path, overwrite=True)


def test_arrays_are_used_once_and_all_of_them(path, as_users_call):
    header, arrays = unpack(save(COUPLINGS["Comonotone"], path), "coupling")
    path.write_bytes(pack("coupling", header, [*arrays, np.zeros(3)]))
    with pytest.raises(InputError, match="1 of its arrays belong to no field"):
        load(path)
    header["tree"]["fields"]["other_order"]["array"] = 0
    path.write_bytes(pack("coupling", header, arrays))
    with pytest.raises(InputError, match="array 0 is missing, or used twice"):
        load(path)


def test_flipped_bits_and_cut_files_are_refused_or_change_nothing(path, as_users_call):
    coupling = COUPLINGS["Gadget2 with points"]
    content = save(coupling, path).read_bytes()
    rng = np.random.default_rng(0)
    refused = 0
    for _ in range(300):
        spoilt = bytearray(content)
        if rng.random() < 0.2:
            spoilt = spoilt[: rng.integers(len(content))]
        else:
            spoilt[rng.integers(len(content))] ^= 1 << rng.integers(8)
        path.write_bytes(spoilt)
        try:
            again = load(path)
        except InputError:
            refused += 1
        else:  # where the archive itself keeps dates and the like
            assert eqx.tree_equal(coupling, again)
    assert refused > 150


def _sealed(text, arrays=(), checksum=None):
    """A file of any header, with a checksum that is right unless another one is given."""
    seal = _checksum(text, list(arrays)) if checksum is None else checksum
    named = {f"a{index}": each for index, each in enumerate(arrays)}
    return safetensors.numpy.save(named, metadata={"countermax": seal + text})


def test_a_change_that_the_format_itself_would_not_find_breaks_the_checksum(path, as_users_call):
    header, arrays = unpack(save(COUPLINGS["Gadget2"], path), "coupling")
    text, whole = json.dumps(header), _checksum(json.dumps(header), arrays)
    changed = [arrays[0] + np.float32(1e-3), *arrays[1:]]
    for spoilt in (_sealed(text, changed, whole), _sealed(text.replace("tanh", "relu"), arrays, whole)):
        path.write_bytes(spoilt)
        with pytest.raises(InputError, match="its contents are not those of its checksum"):
            load(path)


def _longer_than_it_is():
    """An array whose own header claims terabytes."""
    header = json.dumps({"a0": {"dtype": "F64", "shape": [10**12], "data_offsets": [0, 8 * 10**12]}}).encode()
    return len(header).to_bytes(8, "little") + header + bytes(16)


@pytest.mark.parametrize(
    ("spoil", "message"),
    [
        (lambda content: content[: len(content) // 2], "is damaged, or not a file of countermax"),
        (lambda content: b"", "is damaged, or not a file of countermax"),
        (lambda content: b"{}", "is damaged, or not a file of countermax"),
        (lambda content: b"\xff" * 8 + content[8:], "is damaged, or not a file of countermax"),
        (lambda content: safetensors.numpy.save({"weights": np.zeros(3)}), "is damaged, or not a file of countermax"),
        (lambda content: pack("checkpoint", {}, []), "holds a checkpoint, not a coupling"),
        (lambda content: _longer_than_it_is(), "is damaged, or not a file of countermax"),
        (lambda content: _sealed("[1]"), "is damaged, or not a file of countermax"),
        (lambda content: _sealed("{}"), "is damaged, or not a file of countermax"),
        (lambda content: _sealed("[" * 100_000), "is damaged, or not a file of countermax"),
    ],
)
def test_other_files_are_clear_errors(spoil, message, path, as_users_call):
    save(COUPLINGS["Gadget2"], path)
    path.write_bytes(spoil(path.read_bytes()))
    with pytest.raises(InputError, match=message) as caught:
        load(path)
    assert "\n" not in str(caught.value)


def test_files_of_other_releases_are_explained(path, as_users_call):
    path.write_bytes(pack("coupling", {"format": 99, "version": "9.9"}, []))
    with pytest.raises(InputError, match=r"written by countermax 9.9 in another file format; this is countermax"):
        load(path)
    path.write_bytes(pack("coupling", {"tree": {"class": "Nothing", "fields": {}}}, []))
    with pytest.raises(InputError, match="a coupling of this release: this release has no 'Nothing'"):
        load(path)


def test_what_is_no_file_is_a_clear_error(tmp_path, as_users_call):
    with pytest.raises(InputError, match="cannot read"):
        load(tmp_path / "missing.safetensors")
    with pytest.raises(InputError, match="cannot read"):
        load(tmp_path)
    with pytest.raises(InputError, match="no name of a file"):
        load("a\0b")
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(InputError, match="a device or a pipe"):
        load(tmp_path / "pipe")
    with pytest.raises(InputError, match="a device or a pipe"):
        load("/dev/zero")


def test_nothing_is_saved_that_could_not_be_loaded(path, as_users_call):
    class Own(eqx.Module):
        pass

    with pytest.raises(InputError, match="cannot save Own"):
        save(Own(), path)
    gadget = COUPLINGS["Gadget2"]
    for values, message in ((np.nan, "must be finite"), (jnp.bfloat16(1), "single or double precision")):
        spoilt = eqx.tree_at(lambda each: each.latent_logits, gadget, jnp.full(3, values))
        with pytest.raises(InputError, match=f"cannot save this Gadget2: .*{message}"):
            save(spoilt, path)
    with pytest.raises(InputError, match="cannot save this Diagonal: it describes a Diagonal"):
        save(Diagonal(4), path)
    assert not path.exists()


def test_constructors_ask_the_same_questions(as_users_call):
    for make, message in (
        (lambda: InverseCDF([0, 0]), "must name each of the outcomes"),
        (lambda: InverseCDF([[0], [1, 2]]), "must be a list of integers"),
        (lambda: Optimal(np.zeros((0, 0))), "not be empty"),
        (lambda: Gadget2(3, 2, key=KEY, rounds=10**6), "`rounds` must be at most 10000"),
        (lambda: Gadget2(3, 2, key=KEY, relaxation=float("nan")), "`relaxation` must be a finite number"),
        (lambda: Gadget2(3, 1.5, key=KEY), "`num_latents` must be a whole number, got 1.5"),
        (lambda: Gadget1(3, key=KEY, start=Diagonal(4)), "one shape"),
        (lambda: Gadget1(3, key=KEY, hidden=[8.0]), "`hidden` must be a whole number"),
        (lambda: Gadget1(3, key=KEY, hidden=[1] * 101), "at most 100 layers"),
        (lambda: Diagonal(3, float("inf")), "`strength` must be a finite number"),
        (lambda: BinnedInverseCDF(3, [0.0, 1.0], leak=0), "`leak` must be at least"),
        (lambda: BinnedInverseCDF(3, [0.0, np.nan]), "must not contain NaN"),
        (lambda: ReferenceTransport(np.zeros((3, 2)), np.zeros((4, 2))), "`scores` must not all be zero"),
    ):
        with pytest.raises(InputError, match=message):
            make()
    assert type(Gadget2(np.int64(3), np.int64(2), key=KEY, hidden=(2,)).size) is int


@pytest.mark.parametrize(
    "make",
    [
        lambda: Perceptron(4, 4, key=KEY, hidden=(10**9,)),
        lambda: Gadget2(10, 10**9, key=KEY),
        lambda: Gadget1(10**6, key=KEY),
        lambda: Constant(10**9, 10**9, key=KEY),
    ],
)
def test_parameters_that_no_memory_holds_are_refused_before_they_are_drawn(make):
    with pytest.raises(InputError, match="of memory, and the limit is"):
        make()


def test_couplings_can_still_be_made_while_traced():
    def joint(order, loss, key):
        p = jnp.zeros(3)
        return InverseCDF(order).joint(p, p), Optimal(loss).joint(p, p), Gadget2(3, 2, key=key, hidden=(2,)).joint(p, p)

    laws = jax.jit(jax.vmap(joint))(jnp.stack([jnp.arange(3)] * 2), jnp.zeros((2, 3, 3)), jax.random.split(KEY, 2))
    for law in laws:
        np.testing.assert_allclose(law.sum(axis=2), 1 / 3, atol=1e-5)
