"""The first answer: programs that compile quickly, and that are kept."""

import os
import subprocess
import sys

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from countermax._core import compilation
from countermax.couplings import GumbelMax

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
    return sorted(path.name for path in folder.rglob("*-cache"))


@pytest.mark.skipif(sys.platform != "linux", reason="the cache folder is named by XDG_CACHE_HOME on Linux only")
def test_the_command_line_keeps_what_it_compiled(tmp_path):
    first = ask(tmp_path)
    assert any("run" in name for name in first)  # the whole question, which no call of the host keeps out of the cache
    assert ask(tmp_path) == first
    assert ask(tmp_path / "other", COUNTERMAX_NO_CACHE="1") == []


@pytest.mark.skipif(sys.platform != "linux", reason="the cache folder is named by XDG_CACHE_HOME on Linux only")
def test_a_damaged_program_is_compiled_again_in_silence(tmp_path):
    ask(tmp_path)
    for path in tmp_path.rglob("*-cache"):
        path.write_bytes(path.read_bytes()[:100])
    clean = {name: value for name, value in os.environ.items() if not name.startswith(("JAX_", "COUNTERMAX_"))}
    done = subprocess.run(
        COMMAND, check=True, capture_output=True, text=True, env={**clean, "XDG_CACHE_HOME": str(tmp_path)}
    )
    assert "Gumbel-max" in done.stdout
    assert done.stderr == ""


def test_only_so_many_programs_are_kept(tmp_path, monkeypatch):
    monkeypatch.setattr(compilation, "_MOST_KEPT", 3)
    for age in range(6):
        (tmp_path / f"{age}-cache").write_text("")
        os.utime(tmp_path / f"{age}-cache", (age, age))
    compilation._forget_the_oldest(tmp_path)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["3-cache", "4-cache", "5-cache"]


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
