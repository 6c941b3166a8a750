"""What every experiment stands on: cells, plans, stores, documents and trainings."""

from countermax.experiments.engine._base import AbstractExperiment as AbstractExperiment
from countermax.experiments.engine._base import Cell as Cell
from countermax.experiments.engine._base import CellContext as CellContext
from countermax.experiments.engine._base import Result as Result
from countermax.experiments.engine._base import Section as Section
from countermax.experiments.engine._base import checked_preset as checked_preset
from countermax.experiments.engine._document import check_page as check_page
from countermax.experiments.engine._document import write_documents as write_documents
from countermax.experiments.engine._plan import Interrupted as Interrupted
from countermax.experiments.engine._plan import run_plan as run_plan
from countermax.experiments.engine._store import Store as Store
from countermax.experiments.engine._training import GADGET_NAMES as GADGET_NAMES
from countermax.experiments.engine._training import train as train
