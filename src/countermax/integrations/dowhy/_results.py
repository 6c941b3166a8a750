"""What would have been of every categorical node that a change reaches, by node."""

from collections.abc import Hashable, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, final

import numpy as np
from rich.console import Group
from rich.text import Text

from countermax import _plotting as plotting
from countermax._core.extras import import_pandas
from countermax._core.labels import listed
from countermax._core.results import AbstractOldResult, plain
from countermax.integrations.dowhy._node import GIVEN, NodeAnswer

if TYPE_CHECKING:
    from matplotlib.figure import Figure

pd = import_pandas()


@final
@dataclass(frozen=True, eq=False)
class NodeAnswers(AbstractOldResult, Mapping[Hashable, NodeAnswer]):
    """What each categorical node that the change reaches would have been, by node."""

    answers: Mapping[Hashable, NodeAnswer]
    left_out: Mapping[Hashable, str]
    """Nodes that the change reaches and that have no answer, and why; those that hold numbers are among them."""

    def __getitem__(self, node: Hashable) -> NodeAnswer:
        if node in self.answers:
            return self.answers[node]
        if node in self.left_out:
            raise KeyError(f"node {node!r} cannot be answered for exactly: {self.left_out[node]}")
        raise KeyError(f"no answer for {node!r}; there is one for {listed(self.answers)}")

    def __iter__(self) -> Iterator[Hashable]:
        return iter(self.answers)

    def __len__(self) -> int:
        return len(self.answers)

    def to_frame(self) -> Any:
        """One row for each node, observed row and label."""
        frame = pd.concat([self._long(answer) for answer in self.values()], ignore_index=True)
        frame.attrs = {key: value for key, value in self.to_dict().items() if key != "nodes"} | {
            "nodes": {str(node): answer.words() for node, answer in self.items()}
        }
        return frame

    def to_dict(self) -> dict[str, Any]:
        """Plain lists and numbers, by node."""
        return {
            "nodes": {str(node): answer.to_dict() for node, answer in self.items()},
            "left_out": plain(self.left_out),
            "taken_as_given": GIVEN,
        }

    def plot(self) -> "Figure":
        """A panel for each node."""
        remarks = dict.fromkeys(each for answer in self.values() for each in answer.remarks)
        left_out = [f"No answer for {node}: {why}." for node, why in self.left_out.items()]
        note = " ".join([*remarks, *left_out, GIVEN])
        return plotting.draw_nodes([answer.panel() for answer in self.values()], note)

    def __rich__(self) -> Group:
        parts: list[Any] = []
        for answer in self.values():
            parts += [answer._listing(), Text(" ".join([*answer._notes(), "\n"]))]
        parts += [Text(f"No answer for {node}: {why}.") for node, why in self.left_out.items()]
        return Group(*parts, Text(GIVEN))

    def _long(self, answer: NodeAnswer) -> Any:
        size, count = len(answer.labels), len(answer.seen)
        columns = {
            "node": [answer.node] * (size * count),
            "row": np.repeat(answer.seen.index.to_numpy(), size),
            "seen": np.repeat(answer.seen.astype(object).to_numpy(), size),
            "instead": list(answer.labels) * count,
            "probability": answer.probabilities.to_numpy().ravel(),
            "coupling": [answer.coupling] * (size * count),
        }
        if answer.bounds is not None:
            columns["lower"], columns["upper"] = (each.to_numpy().ravel() for each in answer.bounds)
            columns["bounds"] = np.repeat(np.where(answer.is_sharp, "sharp", "outer"), size)
        return pd.DataFrame(columns)
