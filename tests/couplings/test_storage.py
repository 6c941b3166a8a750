"""One file for a mechanism: what comes back, and what is refused."""

import io
import json

import equinox as eqx
import jax
import numpy as np
import pytest

from countermax import BinnedInverseCDF, Gadget1, Gadget2, GumbelMax, InputError, InverseCDF, Table, load, save, storage

KEY = jax.random.key(0)
MECHANISMS = {
    "GumbelMax": GumbelMax(),
    "InverseCDF": InverseCDF([2, 0, 1, 3]),
    "Gadget1": Gadget1(4, key=KEY, hidden=(8,)),
    "Gadget2": Gadget2(4, 3, key=KEY, hidden=(8,), activation="tanh"),
    "Gadget2 with a start": Gadget2(4, 3, key=KEY, start=BinnedInverseCDF(3, [3.0, 1.0, 2.0, 0.0])),
    "Gadget2 with a table": Gadget2(4, 3, key=KEY, part=Table(3, 4, key=KEY)),
}


@pytest.mark.parametrize("name", MECHANISMS)
def test_what_is_saved_comes_back(name, tmp_path):
    mechanism = MECHANISMS[name]
    again = load(save(mechanism, tmp_path / "mechanism.npz"))
    assert eqx.tree_equal(mechanism, again)
    p, q = np.random.default_rng(0).normal(size=(2, 4)).astype(np.float32)
    joint = eqx.filter_jit(lambda each: each.joint(p, q))
    np.testing.assert_array_equal(joint(mechanism), joint(again))


def test_files_hold_no_pickle(tmp_path):
    path = save(MECHANISMS["Gadget2"], tmp_path / "mechanism.npz")
    with np.load(path, allow_pickle=False) as archive:
        header = json.loads(archive["countermax"].tobytes())
        assert all(archive[name].dtype != object for name in archive.files)
    assert header["format"] == 1
    assert header["kind"] == "mechanism"


def _foreign():
    buffer = io.BytesIO()
    np.savez(buffer, weights=np.zeros(3))
    return buffer.getvalue()


@pytest.mark.parametrize(
    ("spoil", "message"),
    [
        (lambda content: content[: len(content) // 2], "cut off or damaged"),
        (lambda content: b"", "was not written by countermax"),
        (lambda content: b"{}", "was not written by countermax"),
        (lambda content: _foreign(), "was not written by countermax"),
        (lambda content: storage.pack("checkpoint", {}, []), "holds a checkpoint, not a mechanism"),
        (
            lambda content: storage.pack("mechanism", {"format": 99, "version": "9.9"}, []),
            "countermax 9.9, which is newer",
        ),
        (lambda content: storage.pack("mechanism", {"tree": {"class": "Nothing", "fields": {}}}, []), "is damaged"),
    ],
)
def test_other_files_are_clear_errors(spoil, message, tmp_path, as_users_call):
    path = save(MECHANISMS["Gadget2"], tmp_path / "mechanism.npz")
    path.write_bytes(spoil(path.read_bytes()))
    with pytest.raises(InputError, match=message):
        load(path)


def test_a_missing_file_and_a_foreign_class_are_clear_errors(tmp_path):
    with pytest.raises(InputError, match="cannot read"):
        load(tmp_path / "missing.npz")

    class Own(eqx.Module):
        pass

    with pytest.raises(InputError, match="cannot save Own"):
        storage._encode(Own(), [])
