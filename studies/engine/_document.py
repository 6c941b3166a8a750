"""Everything that is shown: sheets, figures and a page, made from stored results."""

import json
from collections.abc import Mapping
from pathlib import Path

from countermax import _plotting as plotting
from countermax._core.errors import InputError
from countermax._core.files import writable_folder, write_atomically
from countermax._core.outputs import Output, check_outputs, kind_of
from countermax._core.page import Block, Grid, Heading, Paragraph, Picture, Preformatted, write_page
from studies.engine._base import AbstractExperiment, Result, Section
from studies.engine._store import Record, Store

_PAGE = "index.html"


def write_documents(
    experiments: Mapping[str, AbstractExperiment], store: Store, *, overwrite: bool = False
) -> list[Path]:
    """Writes sheets (Markdown, LaTeX, CSV), figures (PNG, PDF) and `index.html`; returns what was written."""
    records = {name: found for name, found in store.records().items() if name in experiments}
    sections = {
        name: _section(experiments[name], {cell: record.result for cell, record in records[name].items()}, store)
        for name in experiments
        if name in records
    }
    content: dict[Path, str | bytes] = {}
    pictures: dict[str, bytes] = {}
    for section in sections.values():
        for name, sheet in section.sheets.items():
            for suffix, text in ((".md", sheet.markdown()), (".tex", sheet.latex()), (".csv", sheet.csv())):
                content[store.folder / "sheets" / f"{name}{suffix}"] = text
        for name, figure in section.figures.items():
            pictures[name] = plotting.picture(figure)
            content[store.folder / "figures" / f"{name}.png"] = pictures[name]
            content[store.folder / "figures" / f"{name}.pdf"] = plotting.picture(figure, ".pdf")
    page = store.folder / _PAGE
    for folder in ("sheets", "figures"):
        writable_folder(store.folder / folder)
    check_outputs([Output("reproduce", path, kind_of(path)) for path in (*content, page)], overwrite=overwrite)
    written = [write_atomically(path, each) for path, each in content.items()]
    return [*written, _write_page(page, sections, pictures, records)]


def check_page(store: Store, *, overwrite: bool) -> None:
    """Refuses a folder whose `index.html` is not ours, before hours of work that would end at it."""
    page = store.folder / _PAGE
    check_outputs([Output("reproduce", page, kind_of(page))], overwrite=overwrite)


def _section(experiment: AbstractExperiment, stored: Mapping[str, Result], store: Store) -> Section:
    """What the experiment shows; a plan that was stopped may lack a cell without which there is nothing to show."""
    try:
        return experiment.section(stored)
    except (TypeError, AttributeError) as error:
        raise InputError(
            f"{store.folder} has cells of {experiment.name} with contents of another kind than they are made "
            "with; move them away, and the command that made the folder computes them again"
        ) from error
    except (LookupError, ArithmeticError, ValueError) as error:  # the contents of cells have been checked
        raise InputError(
            f"{store.folder} lacks cells of {experiment.name} without which nothing can be drawn, it has only "
            f"{', '.join(stored)}; the command that made the folder computes what is missing"
        ) from error


def _write_page(
    path: Path,
    sections: Mapping[str, Section],
    pictures: Mapping[str, bytes],
    records: Mapping[str, Mapping[str, Record]],
) -> Path:
    blocks: list[Block] = []
    for name, section in sections.items():
        blocks.append(Heading(section.title))
        blocks += [Paragraph(words) for words in section.words]
        blocks += [Picture(pictures[each], each.replace("_", " ")) for each in section.figures]
        for sheet in section.sheets.values():
            blocks.append(Paragraph(sheet.caption, note=True))
            blocks.append(Grid(sheet.columns, sheet.shown()))
        blocks.append(Preformatted("Configuration, versions and devices", _configuration(records[name])))
    return write_page(path, "Learning generalized Gumbel-max causal mechanisms, reproduced", blocks)


def _configuration(records: Mapping[str, Record]) -> str:
    """A line for each cell."""
    shown = {
        name: {"settings": record.settings, "made_with": record.made_with, **_training(record)}
        for name, record in records.items()
    }
    return "\n".join(f"{name}: {json.dumps(each)}" for name, each in shown.items())


def _training(record: Record) -> dict[str, dict[str, object]]:
    trained = record.result.get("trained")
    return {} if trained is None else {"trained": {key: trained[key] for key in trained if key != "history"}}
