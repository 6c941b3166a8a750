"""The first answer: programs that compile quickly, and that are kept."""

import os
import subprocess
import sys

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from countermax._core import compilation, keeping
from countermax.bounds import Bounds
from countermax.couplings import AbstractCoupling, GumbelMax, InverseCDF

COMMAND = [
    sys.executable,
    "-m",
    "countermax.cli",
    "compare",
    "--factual",
    "0.5,0.5",
    "--counterfactual",
    "0.2,0.8",
    "--seen",
    "0",
]


def ask(folder, **environment):
    clean = {name: value for name, value in os.environ.items() if not name.startswith(("JAX_", "COUNTERMAX_"))}
    subprocess.run(
        COMMAND, check=True, capture_output=True, env={**clean, "XDG_CACHE_HOME": str(folder), **environment}
    )
    return {path.name: path.stat().st_mtime_ns for path in folder.rglob("*") if path.is_file()}


@pytest.mark.skipif(sys.platform != "linux", reason="the cache folder is named by XDG_CACHE_HOME on Linux only")
def test_the_command_line_keeps_what_it_compiled(tmp_path):
    first = ask(tmp_path)
    assert any("_solve" in name for name in first)  # the whole question
    assert ask(tmp_path) == first
    assert ask(tmp_path / "other", COUNTERMAX_NO_CACHE="1") == {}


@pytest.mark.skipif(sys.platform != "linux", reason="the cache folder is named by XDG_CACHE_HOME on Linux only")
def test_a_damaged_program_is_compiled_again_in_silence(tmp_path):
    for name in ask(tmp_path):
        path = next(tmp_path.rglob(name))
        path.write_bytes(path.read_bytes()[:100])
    clean = {name: value for name, value in os.environ.items() if not name.startswith(("JAX_", "COUNTERMAX_"))}
    done = subprocess.run(
        COMMAND, check=True, capture_output=True, text=True, env={**clean, "XDG_CACHE_HOME": str(tmp_path)}
    )
    assert "Gumbel-max" in done.stdout
    assert done.stderr == ""


def test_only_so_many_programs_are_kept(tmp_path, monkeypatch):
    monkeypatch.setattr(keeping, "_MOST_KEPT", 3)
    for age in range(6):
        (tmp_path / f"{age}-cache").write_text("")
        os.utime(tmp_path / f"{age}-cache", (age, age))
    keeping._forget_the_oldest(tmp_path)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["3-cache", "4-cache", "5-cache"]


class Mine(AbstractCoupling):
    """Its code may change from one process to the next."""


def law(p):
    return p


law.__module__ = "countermax.law"
THREE = jax.typeof(np.ones(3))


def place_of(function=law, options=(), asked=GumbelMax, kind=THREE, flag=True):
    return compilation._place_of(function, options, ({"it": asked()}, kind, flag))


@pytest.mark.parametrize("which", [{"function": lambda p: p}, {"asked": lambda: Mine}, {"flag": lambda p: p}])
def test_a_program_with_code_that_is_not_the_library_s_is_not_kept(which):
    assert place_of() is not None
    assert place_of(**which) is None


def test_a_kept_program_is_named_after_all_that_it_is_made_from(tmp_path, monkeypatch):
    def other(p):
        return p

    other.__module__ = law.__module__
    every = [{}, {"function": other}, {"options": (1,)}, {"asked": InverseCDF}, {"kind": None}, {"flag": False}]
    places = [place_of(**which) for which in every]
    assert [place_of(**which) for which in every] == places
    with jax.enable_x64(True):
        places.append(place_of())
    monkeypatch.setattr(compilation, "_SOURCES", tmp_path)
    for text in ("", "longer"):
        (tmp_path / "race.py").write_text(text)
        compilation._surroundings.cache_clear()  # sources are looked at once in a process
        places.append(place_of())
    compilation._surroundings.cache_clear()
    assert len(set(places)) == len(every) + 3


def test_a_loaded_program_answers_as_the_compiled_one(tmp_path):
    arrays = [np.log([0.2, 0.3, 0.5]), None]
    program = jax.jit(lambda arrays: Bounds(arrays[0] - 1, {"it": jnp.exp(arrays[0])})).lower(arrays).compile()
    compilation._keep(tmp_path / "kept", program, arrays)
    loaded = compilation._loaded(tmp_path / "kept", arrays)
    found, expected = loaded(arrays), program(arrays)
    assert jax.tree.structure(found) == jax.tree.structure(expected)
    jax.tree.map(np.testing.assert_array_equal, found, expected)
    assert compilation._loaded(tmp_path / "nothing", arrays) is None


def test_a_program_that_cannot_be_loaded_again_is_not_kept(tmp_path, monkeypatch):
    program = jax.jit(lambda arrays: arrays[0] + 1).lower([np.ones(3)]).compile()
    monkeypatch.setattr(compilation, "_read", lambda *_: lambda arrays: arrays)
    compilation._keep(tmp_path / "kept", program, [np.ones(3)])
    assert not (tmp_path / "kept").exists()


@pytest.mark.parametrize("many_numbers", [False, True])
def test_quick_programs_trace_arrays_and_hold_the_rest_still(many_numbers):
    traced = []

    def traced_law(couplings, log_p, name):
        traced.append(name)
        return {name: couplings[name]._joint(log_p, log_p[::-1])}

    law = compilation.quickly_compiled(traced_law, many_numbers=many_numbers)
    p = np.log([0.2, 0.3, 0.5])
    couplings = {"it": GumbelMax()}
    for logits in (p, p[[1, 0, 2]]):
        found = law(couplings, logits, "it")["it"]
        np.testing.assert_allclose(found, GumbelMax().joint(logits, logits[::-1]), atol=1e-6)
    assert traced == ["it"]
    assert isinstance(found, jax.Array)
    assert law({"it": GumbelMax()}, jnp.asarray(p, jnp.float32)[:2], "it")["it"].shape == (2, 2)
