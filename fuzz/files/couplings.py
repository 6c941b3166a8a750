"""Damaged files of couplings, read by the commands and the functions that take one."""

import random

from fuzz.case import Case
from fuzz.files.crafted import crafted
from fuzz.files.damage import damaged
from fuzz.shelf import CONFIG, Shelf

_ROWS = (
    "status,p_a,p_b,p_c,q_a,q_b,q_c\na,0.2,0.3,0.5,0.5,0.25,0.25\nc,0.25,0.25,0.5,0.1,0.2,0.7\nb,0.6,0.4,0,0,0.5,0.5\n"
)
_ASK = ("--outcome=status", "--factual=p_", "--counterfactual=q_")
_P, _Q = "[0.2, 0.3, 0.5]", "[0.6, 0.3, 0.1]"
_FORMS = {
    "counterfactuals": ("counterfactuals", "rows.csv", *_ASK, "--coupling=stored.safetensors", "--out=out.csv"),
    "transitions": ("transitions", "rows.csv", *_ASK, "--coupling=stored.safetensors", "--num-resamples=0", "--json"),
    "evaluate": ("evaluate", "run.toml", "stored.safetensors", "--num-pairs=2", "--json"),
    "law": f"(lambda each: [each.joint(log({_P}), log({_Q})), each.counterfactual_probs(log({_P}), log({_Q}), 1)])"
    "(couplings.load('stored.safetensors'))",
    "draw": f"(lambda each: [each.pair(log({_P}), log({_Q}), key=jax.random.key(0)), "
    f"each.counterfactual(log({_P}), log({_Q}), 2, key=jax.random.key(1))])(couplings.load('stored.safetensors'))",
}


def make(rng: random.Random, shelf: Shelf) -> Case:
    """A stored coupling after an accident, or crafted."""
    name = rng.choice(list(shelf.couplings()))
    form = rng.choice(("counterfactuals", "counterfactuals", "transitions", "evaluate", "law", "law", "draw"))
    whole = shelf.couplings()[name]
    sound = rng.random() < 0.5
    content, words = damaged(rng, whole) if sound else crafted(rng, whole)
    answer = shelf.answer(("coupling", name, form), lambda: _case(form, whole, ""))
    case = _case(form, content, f"{name}: {words}")
    means = {**case.means, "answer": answer}
    if not sound:
        # What is crafted may be another coupling, but it must be one.
        means["second"] = {"counterfactuals": "counterfactuals", "transitions": "transitions"}.get(form, "coupling")
        means["couplings"] = {"stored.safetensors": {"law": None, "size": 3}}
    return Case("stored", argv=case.argv, source=case.source, files=case.files, means=means)


def _case(form: str, content: bytes, words: str) -> Case:
    call = _FORMS[form]
    files = {"stored.safetensors": content}
    if isinstance(call, str):
        return Case("stored", source=call, files=files, means={"damage": words, "form": form})
    files |= {"rows.csv": _ROWS.encode()} if "rows.csv" in call else {"run.toml": CONFIG.encode()}
    written = ["out.csv"] if form == "counterfactuals" else []
    return Case(
        "stored", argv=call, files=files, means={"damage": words, "outputs": written, "compared": written, "form": form}
    )
