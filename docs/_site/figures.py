"""Draws the pictures of the guides that no example draws: `make figures`, or `python docs/_site/figures.py FOLDER`.

A picture is a function of its name here, and stands in docs/images under that name.
"""

import json
import re
import shutil
import sys
from collections.abc import Callable
from importlib.resources import files
from pathlib import Path
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.figure import Figure

from countermax import Cohort, Design, GumbelMax, Trial, Worlds, outcome_bounds
from countermax._plotting import draw_flows, house_style
from countermax.explorer import page_path
from countermax.mdp import policy_iteration, state_distributions
from studies.experiments import Store
from studies.processes import sepsis
from studies.registry import EXPERIMENTS

ROOT = Path(__file__).parents[2]
DATA = files("countermax") / "data"
SCORE = {"dead": 0, "hospital": 0.35, "nursing home": 0.6, "home": 1}
COLOURS = {
    "independent": "#999999",
    "Gumbel-max": "#0072B2",
    "best projected inverse CDF": "#E69F00",
    "VectorQuantile, 256 atoms": "#7A9A01",
    "256 points fitted to the worlds themselves": "#1c1e21",
}
COLUMNS = {"outcome": "outcome", "arm": "arm", "control": "placebo", "treated": "drug"}


def sharing() -> Figure:
    """The answer over all that two worlds may share."""
    trial = Trial(DATA / "stroke_trial.csv", score=SCORE, **COLUMNS)
    return trial.compare("dead", sharing=True).sharing.plot()


def causes() -> Figure:
    """Probabilities of causation in the stroke trial."""
    trial = Trial(DATA / "stroke_trial.csv", score=SCORE, design=Design(strata="severity"), **COLUMNS)
    return trial.causes("home", couplings=["gumbel-max"]).plot()


def policies() -> Figure:
    """Every estimate of another policy on the ward's log."""
    ward = Cohort(DATA / "ward_log.csv", DATA / "ward_policy.csv", absorbing=["home", "dead"])
    return ward.evaluate(["gumbel-max"], num_resamples=200).plot()


def changes() -> Figure:
    """The best changes to what was done to one patient of the ward."""
    ward = Cohort(DATA / "ward_log.csv", absorbing=["home", "dead"])
    return ward.best_changes("52", changes=2).plot()


def measurements() -> Figure:
    """The states that the guide on trajectories makes from two measurements."""
    blocks = re.findall(r"^```python\n(.*?)^```", (ROOT / "docs/trajectories.md").read_text(), re.DOTALL | re.MULTILINE)
    made: dict[str, Any] = {}
    exec(next(each for each in blocks if "measurements = Measurements(" in each), made)
    return made["measurements"].states.plot()


def switching() -> Figure:
    """Who changes mode when rail becomes cheaper."""
    modes, base = ["car", "bus", "rail", "cycle"], np.array([0.9, 0.2, 0.4, -0.8])
    scenario, travellers = base + [0.0, 0.0, 0.6, 0.0], 10_000
    table = travellers * np.asarray(GumbelMax().joint(base, scenario), np.float64)
    limits = [outcome_bounds(base, scenario, mode) for mode in range(4)]
    ranges = [
        table.sum(axis=1, keepdims=True) * np.array([np.asarray(getattr(each, side)) for each in limits])
        for side in ("lower", "upper")
    ]
    return draw_flows(table, modes, "10,000 travellers before and after rail becomes cheaper", "Gumbel-max", ranges)


def own_mechanism() -> Figure:
    """The coupling of the guide beside two others."""
    block = re.findall(r"^```python\n(.*?)^```", (ROOT / "docs/own_mechanism.md").read_text(), re.DOTALL | re.MULTILINE)
    spoken: dict[str, type] = {}
    exec(block[0], spoken)
    couplings = {"antithetic": spoken["Antithetic"](), "inverse CDF": "inverse-cdf", "Gumbel-max": "gumbel-max"}
    return Worlds([0.3, 0.4, 0.3], [0.1, 0.3, 0.6]).compare(0, couplings=couplings).plot_couplings()


def quantiles() -> Figure:
    """How far each coupling is from the optimum, for three scores."""
    (cells,) = [cells for name, cells in Store(ROOT / "results/quantiles").records().items() if name == "quantiles"]
    section = EXPERIMENTS["quantiles"].section({cell: record.result for cell, record in cells.items()})
    header, _, *rows = section.sheets["quantiles"].markdown().splitlines()
    names = [each.strip() for each in header.strip("|").split("|")]
    shown = [names.index(f"three scores, {number} outcomes") for number in (10, 50, 150)]
    with house_style():
        figure, axes = plt.subplots(figsize=(7, 3.2), layout="constrained")
        for row in rows:
            cells_of = [each.strip() for each in row.strip("|").split("|")]
            values = [float(cells_of[place].split("%")[0]) if cells_of[place] else np.nan for place in shown]
            if cells_of[0] not in ("optimal", "VectorQuantile, 1,024 atoms") and not np.isnan(values).any():
                mark = (
                    {"linestyle": "none", "marker": "_", "markersize": 24}
                    if "fitted" in cells_of[0]
                    else {"marker": "o"}
                )
                axes.plot([10, 50, 150], values, label=cells_of[0], color=COLOURS.get(cells_of[0]), **mark)
        axes.set(xscale="log", yscale="log", xlabel="outcomes", ylabel="% above the optimum")
        axes.set_xticks([10, 50, 150], ["10", "50", "150"])
        axes.set_yticks([3, 10, 30, 100, 300], ["3", "10", "30", "100", "300"])
        axes.minorticks_off()
        axes.legend(loc="center left", bbox_to_anchor=(1, 0.5), frameon=False)
    return figure


def sepsis_process() -> Figure:
    """What becomes of patients under the best policy, as published and repaired."""
    with house_style():
        figure, panels = plt.subplots(1, 2, figsize=(7, 2.8), sharey=True, layout="constrained")
        for axes, (title, as_published) in zip(panels, {"as published": True, "repaired": False}.items(), strict=True):
            process = sepsis.process(as_published=as_published)
            states = np.asarray(state_distributions(process, policy_iteration(process).policy, 20))
            shares = states.reshape(len(states), 2, 720).sum(axis=1)
            dead, home = (shares[:, each].sum(axis=1) for each in (sepsis.is_death(), sepsis.is_discharge()))
            axes.stackplot(
                range(len(states)), dead, 1 - dead - home, home,
                labels=["dead", "in care", "discharged"], colors=["#a93f63", "#dcd8cc", "#2f6c9e"],
            )  # fmt: skip
            axes.set(title=f"glucose {title}", xlabel="steps", xlim=(0, 20), ylim=(0, 1))
        panels[0].set_ylabel("share of patients, best policy")
        panels[1].legend(loc="center left", bbox_to_anchor=(1, 0.5), frameon=False)
    return figure


def ray() -> Figure:
    """What was measured on two cores."""
    measured = {
        row["what"]: row["value"] for row in json.loads((ROOT / "benchmarks/results/ray.json").read_text())["rows"]
    }
    shown = {
        "one process, one core": measured["one process on one core, from Parquet to Parquet, K=4"],
        "Ray, two cores": measured["Ray on all cores, from Parquet to Parquet, K=4"],
        "Ray, two cores:\ntransitions, 1,000 resamples": measured["transitions with 1000 resamples, Ray on all cores"],
        "Ray, one worker:\na classifier": measured["a classifier, one worker"],
    }
    with house_style():
        figure, axes = plt.subplots(figsize=(7, 2.6), layout="constrained")
        bars = axes.barh(list(shown), [each / 1e6 for each in shown.values()], color="#2f6c9e")
        axes.bar_label(bars, fmt="%.2f", padding=3)
        axes.invert_yaxis()
        axes.set(xlabel="million rows per second", xlim=(0, 1.1 * max(shown.values()) / 1e6))
    return figure


def explorer(path: Path) -> None:
    """The explorer as a browser shows it; the picture stays as it was where there is none."""
    browser = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
    if browser is None:
        sys.stderr.write("no browser: explorer.png is not drawn\n")
        return
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        opened = playwright.chromium.launch(executable_path=browser, args=["--no-sandbox"])
        page = opened.new_page(viewport={"width": 1280, "height": 900}, color_scheme="light")
        page.goto(page_path().as_uri())
        while page.evaluate("Explorer.intervals() === null"):
            page.wait_for_timeout(100)
        page.wait_for_timeout(200)
        page.screenshot(path=path)
        opened.close()


PICTURES: tuple[Callable[[], Figure], ...] = (
    sharing, causes, policies, changes, measurements, switching, own_mechanism, quantiles, sepsis_process, ray,
)  # fmt: skip

if __name__ == "__main__":
    folder = Path(sys.argv[1])
    for draw in PICTURES:
        draw().savefig(folder / f"{draw.__name__}.png", dpi=150, bbox_inches="tight")
    explorer(folder / "explorer.png")
