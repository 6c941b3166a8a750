"""Rows for tests of tables on Ray, and how they are cut into blocks."""

import numpy as np
import pyarrow as pa

LABELS = ("dead", "ill", "well")
ASK = {"outcome": "status", "factual": "p_", "counterfactual": "q_"}
COUNT = 10_000  # two whole blocks of the resampling, and a part of one


def patients(count=COUNT):
    rng = np.random.default_rng(0)
    p, q = rng.dirichlet([2, 3, 4], count), rng.dirichlet([1, 3, 5], count)
    columns = {"id": np.arange(count), "status": np.array(LABELS)[(p.cumsum(1) > rng.random((count, 1))).argmax(1)]}
    columns |= {f"p_{label}": p[:, place] for place, label in enumerate(LABELS)}
    columns |= {f"q_{label}": q[:, place] for place, label in enumerate(LABELS)}
    columns |= {"year": 2020 + np.arange(count) * 3 // count, "same": rng.random(count) < 0.1}
    return pa.table(columns)


def cut(table, *places):
    """The table in blocks that end at these places."""
    ends = [0, *places, table.num_rows]
    return [table.slice(start, stop - start) for start, stop in zip(ends[:-1], ends[1:], strict=True)]


def together(tables):
    return pa.concat_tables(table.replace_schema_metadata(None) for table in tables).combine_chunks()


def plain(table):
    return table.replace_schema_metadata(None).combine_chunks()
