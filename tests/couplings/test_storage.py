"""One file for a coupling: what comes back, and what is refused."""

import io
import json

import equinox as eqx
import jax
import numpy as np
import pytest

from countermax import Comonotone, Gadget1, Gadget2, GumbelMax, InputError, InverseCDF, load, save
from countermax._core.archive import pack
from countermax.couplings.parts import BinnedInverseCDF, Constant

KEY = jax.random.key(0)
COUPLINGS = {
    "GumbelMax": GumbelMax(),
    "InverseCDF": InverseCDF([2, 0, 1, 3]),
    "Comonotone": Comonotone([2.0, 0.0, 1.0, 3.0], [1.0, 2.0, 0.0, 4.0]),
    "Gadget1": Gadget1(4, key=KEY, hidden=(8,)),
    "Gadget2": Gadget2(4, 3, key=KEY, hidden=(8,), activation="tanh"),
    "Gadget2 with a start": Gadget2(4, 3, key=KEY, start=BinnedInverseCDF(3, [3.0, 1.0, 2.0, 0.0])),
    "Gadget2 with constant scores": Gadget2(4, 3, key=KEY, part=Constant(3, 4, key=KEY)),
}


@pytest.mark.parametrize("name", COUPLINGS)
def test_what_is_saved_comes_back(name, tmp_path):
    coupling = COUPLINGS[name]
    again = load(save(coupling, tmp_path / "coupling.npz"))
    assert eqx.tree_equal(coupling, again)
    p, q = np.random.default_rng(0).normal(size=(2, 4)).astype(np.float32)
    joint = eqx.filter_jit(lambda each: each.joint(p, q))
    np.testing.assert_array_equal(joint(coupling), joint(again))


def test_files_hold_no_pickle(tmp_path):
    path = save(COUPLINGS["Gadget2"], tmp_path / "coupling.npz")
    with np.load(path, allow_pickle=False) as archive:
        header = json.loads(archive["countermax"].tobytes())
        assert all(archive[name].dtype != object for name in archive.files)
    assert header["format"] == 2
    assert header["kind"] == "coupling"


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
        (lambda content: pack("checkpoint", {}, []), "holds a checkpoint, not a coupling"),
        (
            lambda content: pack("coupling", {"format": 99, "version": "9.9"}, []),
            "a release with newer file names",
        ),
        (lambda content: pack("coupling", {"tree": {"class": "Nothing", "fields": {}}}, []), "is damaged"),
    ],
)
def test_other_files_are_clear_errors(spoil, message, tmp_path, as_users_call):
    path = save(COUPLINGS["Gadget2"], tmp_path / "coupling.npz")
    path.write_bytes(spoil(path.read_bytes()))
    with pytest.raises(InputError, match=message):
        load(path)


def test_a_missing_file_and_a_foreign_class_are_clear_errors(tmp_path, as_users_call):
    with pytest.raises(InputError, match="cannot read"):
        load(tmp_path / "missing.npz")

    class Own(eqx.Module):
        pass

    with pytest.raises(InputError, match="cannot save Own"):
        save(Own(), tmp_path / "own.npz")
