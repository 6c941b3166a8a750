"""What every experiment stands on: cells, plans, stores, documents and trainings."""

from studies.engine._base import AbstractExperiment as AbstractExperiment
from studies.engine._base import Cell as Cell
from studies.engine._base import CellContext as CellContext
from studies.engine._base import Result as Result
from studies.engine._base import Section as Section
from studies.engine._base import checked_preset as checked_preset
from studies.engine._document import check_page as check_page
from studies.engine._document import write_documents as write_documents
from studies.engine._plan import Interrupted as Interrupted
from studies.engine._plan import run_plan as run_plan
from studies.engine._store import Store as Store
from studies.engine._training import GADGET_NAMES as GADGET_NAMES
from studies.engine._training import train as train
