"""The sepsis experiment written down: panels, sheets, and what one has to know to read them."""

from collections.abc import Mapping, Sequence

import numpy as np
from matplotlib.figure import Figure
from numpy.typing import NDArray

from countermax._core.sheet import Sheet, Value
from countermax.intervals import ratio_error, standard_error
from studies import plots
from studies.engine import GADGET_NAMES, Result, Section
from studies.sepsis._measuring import BY_SCORE, PANELS, is_generalised
from studies.sepsis._trials import WORLDS

_ORDER = ("independent", "Gumbel-max", "inverse CDF", BY_SCORE, *GADGET_NAMES.values(), "optimal")
_TITLES = {panel: panel.replace("-", ", ") + (" pairs" if is_generalised(panel) else " pair") for panel in PANELS}
_LABEL = "variance of the treatment effect"
_TOO_EARLY = "The queries or the fixed couplings are not computed yet; the command that began this resumes with them."


class _Panel:
    """All stored rows of one world and panel."""

    def __init__(self, world: str, panel: str, stored: Mapping[str, Result], *, as_published: bool):
        self.world, self.panel, self.as_published = world, panel, as_published
        self.rows: dict[str, Result] = {}
        self.overlap: list[float] = []
        for name, result in stored.items():
            if name.startswith(f"{world}-{panel}-"):
                self.rows |= result["rows"]
                self.pair = np.asarray(result["pair"])
                self.overlap = result.get("overlap", self.overlap)
        self.rows = {name: self.rows[name] for name in _ORDER if name in self.rows}

    def values(self, name: str) -> NDArray[np.float64]:
        """One number for each pair, or as published for each trial, between-query variance included."""
        row = self.rows[name]
        within = np.asarray(row["within"])
        if self.as_published:
            return within + np.asarray(row["between"])
        return np.array([within[self.pair == each].mean() for each in np.unique(self.pair)])

    def bars(self) -> dict[str, tuple[float, float | None]]:
        """Mean and standard error of each row."""
        return {name: (float(self.values(name).mean()), standard_error(self.values(name))) for name in self.rows}

    def share(self, name: str) -> tuple[float, float | None]:
        """The share of the independent coupling's variance, with its paired standard error."""
        row, whole = self.values(name), self.values("independent")
        return float(row.mean() / whole.mean()), ratio_error(row, whole)

    def between(self, name: str) -> float | None:
        """The mean of what differs between queries, or between observations."""
        found = self.rows[name]["between"]
        return None if found is None else float(np.mean(found))


def repaired_section(title: str, stored: Mapping[str, Result]) -> Section:
    """The four panels, what coupling vital signs gains, and the records."""
    panels = _panels(stored, as_published=False)
    if not _of("states", panels) or "queries" not in stored:
        return Section(title, [_TOO_EARLY])
    words = [_about_the_data(stored["queries"], repaired=True), *_about_overlap(panels), *_reading()]
    sheets = {
        "sepsis": _compact(_of("states", panels), "Variance of the effect ± standard error over queries (share)"),
        "sepsis_queries": _queries(stored["queries"]),
    }
    figures = {
        "sepsis": plots.draw_panels(_drawn(_of("states", panels)), _LABEL),
        "sepsis_shares": _shares(_of("states", panels)),
    }
    vitals = {panel: each for panel, each in _of("vitals", panels).items() if panel in _of("states", panels)}
    if vitals:
        sheets["sepsis_vitals"] = _gains(_of("states", panels), vitals)
        sides = {
            f"{panel.split('-')[0]},\n{what}": group[panel].bars()
            for panel in vitals
            for what, group in (("states", _of("states", panels)), ("vital signs", vitals))
        }
        figures["sepsis_vitals"] = plots.draw_panels(sides, _LABEL)
    for world in ("icu-sofa", "icu-features"):
        group = _of(world, panels)
        if group:
            name = f"sepsis_{world.replace('-', '_')}"
            sheets[name] = _compact(group, f"{WORLDS[world]}: variance of the effect ± standard error (share)")
            figures[name] = plots.draw_panels(_drawn(group), _LABEL)
    if not _of("icu-sofa", panels):
        words.append("Left out: the ICU records. Install 'countermax[icu-sepsis]' and run the same command again.")
    sheets["sepsis_details"] = _details(panels)
    return Section(title, words, sheets, figures)


def published_section(title: str, stored: Mapping[str, Result]) -> Section:
    """The four panels as in the paper."""
    panels = _panels(stored, as_published=True)
    if not panels or "queries" not in stored:
        return Section(title, [_TOO_EARLY])
    words = [
        _about_the_data(stored["queries"], repaired=False),
        "The pipeline is the published one, point by point: behaviour planned as if death could be left again, ends "
        "recorded as ordinary states, one pseudo-count for each end, the first six distinct queries, rewards with "
        "glucose always at its highest level. Counterfactual variances are given one observed outcome, and gadgets are "
        "trained there on the second moment; generalised values add how the effect differs between perturbed pairs. "
        "Not followed are slips inside the published gadgets: logits that are not normalised, by which they miss their "
        "marginals, and one noise for a whole batch. Every value is exact where the paper has 2,000 draws.",
        *_about_overlap(panels),
        "The paper prints no numbers for this figure. Its text says that both gadgets beat the fixed couplings, and "
        "that Gadget 2 does so by a wide margin where outcomes are known. " + _ranking(panels),
    ]
    group = _of("states", panels)
    sheets = {
        "sepsis_as_published": _compact(group, "Variance of the effect ± standard error over trials (share)"),
        "sepsis_as_published_queries": _queries(stored["queries"]),
        "sepsis_as_published_details": _details(panels),
    }
    figures = {
        "sepsis_as_published": plots.draw_panels(_drawn(group), _LABEL),
        "sepsis_as_published_shares": _shares(group),
    }
    return Section(title, words, sheets, figures)


def _panels(stored: Mapping[str, Result], *, as_published: bool) -> list[_Panel]:
    found = [_Panel(world, panel, stored, as_published=as_published) for world in WORLDS for panel in PANELS]
    return [each for each in found if "independent" in each.rows]


def _of(world: str, panels: Sequence[_Panel]) -> dict[str, _Panel]:
    return {each.panel: each for each in panels if each.world == world}


def _drawn(group: Mapping[str, _Panel]) -> dict[str, dict[str, tuple[float, float | None]]]:
    return {_TITLES[panel].replace(", ", "\n"): each.bars() for panel, each in group.items()}


def _shares(group: Mapping[str, _Panel]) -> Figure:
    """What is left of independent sampling's variance; errors are paired, so that rows can be compared."""
    shares = {
        _TITLES[panel].replace(", ", "\n"): {name: each.share(name) for name in each.rows if name != "independent"}
        for panel, each in group.items()
    }
    return plots.draw_panels(shares, "share of independent sampling's variance", ".0%")


def _compact(group: Mapping[str, _Panel], caption: str) -> Sheet:
    """Couplings down, panels across."""
    names = [name for name in _ORDER if any(name in each.rows for each in group.values())]
    rows: list[list[Value]] = [[name, *(_entry(each, name) for each in group.values())] for name in names]
    caption += "; the share is of independent sampling"
    return Sheet(caption, ("coupling", *(_TITLES[panel] for panel in group)), ("",) * (1 + len(group)), rows)


def _entry(panel: _Panel, name: str) -> str:
    if name not in panel.rows:
        return ""
    mean, error = panel.bars()[name]
    spread = "" if error is None else f" ± {error:.2f}"
    return f"{mean:.3f}{spread} ({panel.share(name)[0]:.0%})"


def _details(panels: Sequence[_Panel]) -> Sheet:
    """A line for each world, panel and coupling."""
    rows: list[list[Value]] = []
    for panel in panels:
        for name, (mean, error) in panel.bars().items():
            line: list[Value] = [WORLDS[panel.world], _TITLES[panel.panel], name, mean, error]
            rows.append([*line, *panel.share(name), panel.between(name)])
    columns = ("outcomes", "panel", "coupling", "variance", "error", "share of independent", "its error", "between")
    return Sheet("Everything that was measured", columns, ("", "", "", ".4f", ".4f", ".1%", ".1%", ".4f"), rows)


def _gains(states: Mapping[str, _Panel], vitals: Mapping[str, _Panel]) -> Sheet:
    """What each coupling gains when vital signs are coupled and the flags follow the action."""
    rows: list[list[Value]] = []
    for panel, coupled in vitals.items():
        for name in (each for each in coupled.rows if each in states[panel].rows):
            before, after = states[panel].values(name), coupled.values(name)
            saved = 1 - after.mean() / before.mean() if before.mean() > 0 else None
            rows.append([_TITLES[panel], name, float(before.mean()), float(after.mean()), saved])
    columns = ("panel", "coupling", "states coupled", "vital signs coupled", "saved")
    caption = "Variance of the effect with states as outcomes, and with vital signs"
    return Sheet(caption, columns, ("", "", ".4f", ".4f", ".1%"), rows)


def _queries(result: Result) -> Sheet:
    rows: list[list[Value]] = [
        [each["state"], each["action"], each["other_action"], *map(float, each["visits"] + each["num_outcomes"])]
        for each in result["queries"]
    ]
    columns = ("state", "done", "instead", "visits", "visits instead", "outcomes", "outcomes instead")
    return Sheet("The queries", columns, ("", "", "", ".0f", ".0f", ".0f", ".0f"), rows)


def _about_the_data(result: Result, *, repaired: bool) -> str:
    data, model, target = (result["shares"][name] for name in ("data", "model", "target"))
    flaw = "" if repaired else " The difference is the projection's doing: it records ends as ordinary states."
    return (
        f"Of 20,000 simulated episodes {data[0]:.1%} end in death and {data[1]:.1%} in discharge within 20 steps. "
        f"Under the same behaviour the estimated model says {model[0]:.1%} and {model[1]:.1%}.{flaw} The target "
        f"policy, planned in that model, would in truth lose {target[0]:.1%} and discharge {target[1]:.1%}. "
        f"{result['num_candidates']} distinct queries pass the filter."
    )


def _about_overlap(panels: Sequence[_Panel]) -> list[str]:
    """What the values cannot show: that the two worlds hardly share an outcome."""
    found = _of("states", panels).get("joint-fixed")
    if found is None:
        return []
    overlap = np.asarray(found.overlap)
    share = found.share("Gumbel-max")[0]
    words = [
        "Successors under different actions are disjoint, because the treatment flags are part of the state: only "
        f"death and discharge can be shared. In the queries at hand both worlds have {overlap.mean():.1%} of their "
        f"probability in common on average, and at most {overlap.max():.1%}. With nothing in common Gumbel-max is "
        f"independent sampling; here it leaves {share:.1%} of independent sampling's variance."
    ]
    coupled = _of("vitals", panels).get("joint-fixed")
    if coupled is not None:
        words.append(
            "The remedy is to couple vital signs and to let the flags follow the action. Both worlds then have "
            f"{np.mean(coupled.overlap):.1%} of their probability in common, and Gumbel-max leaves "
            f"{coupled.share('Gumbel-max')[0]:.1%} of independent sampling's variance. Names of outcomes make no "
            "difference to independent sampling, to pairing by score or to the optimum."
        )
    return words


def _reading() -> list[str]:
    return [
        "Joint: the variance of the effect over everybody. Counterfactual: the variance that is left once the factual "
        "outcome is known, averaged over that outcome; gadgets are trained on exactly this. Generalised: pairs whose "
        "logits are perturbed by standard normal noise, the mean over perturbed pairs; how the mean effect differs "
        "between them is reported separately (`between` in the details). Comonotone by score pairs quantiles of the "
        "two scores: with one scalar score it is optimal over everybody and needs no training. It is not the optimum "
        "once the outcome is known, which is found over all orders of outcomes. Errors are over queries, which differ "
        "far more than couplings do on the same query: compare shares, whose errors are paired. Queries share no "
        "state, but they do share the log."
    ]


def _ranking(panels: Sequence[_Panel]) -> str:
    parts = []
    for panel, each in _of("states", panels).items():
        ranked = sorted((name for name in each.rows if name != "optimal"), key=lambda name: each.bars()[name][0])
        parts.append(f"{_TITLES[panel]}: {', '.join(ranked)}")
    return "Ours, least variance first. " + "; ".join(parts) + "."
