"""An experiment that costs nothing, for tests of what all experiments have in common."""

import os
import time

from countermax._core.page import Sheet
from studies.experiments import AbstractExperiment, Cell, Section


class Squares(AbstractExperiment):
    """Three squares; a file called `stop` in the folder of results makes the second one fail, or all of them wait."""

    name = "squares"
    title = "Squares"

    def cells(self, preset, seeds):
        settings = [{"number": number, "preset": preset, "more": {"steps": 1}} for number in range(3)]
        return [Cell(self.name, f"of-{each['number']}", each) for each in settings]

    def compute(self, cell, context):
        if context.train_only:
            return None
        stop = context.folder.parent.parent.parent / "stop"
        if stop.exists() and stop.read_text() == "wait":
            stop.with_name(f"waiting-{os.getpid()}").touch()
            time.sleep(60)
        if stop.exists() and cell.settings["number"] == 1:
            raise KeyboardInterrupt if stop.read_text() == "interrupt" else ZeroDivisionError
        context.advance(0.5)
        return {"square": cell.settings["number"] ** 2}

    def section(self, stored):
        rows = [[name, float(result["square"])] for name, result in stored.items()]
        sheet = Sheet("Squares", ("cell", "50 %_"), ("", ".1f"), rows)
        return Section(self.title, ["Words & <signs>."], {"squares": sheet})
