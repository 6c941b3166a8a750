"""Probabilities of causation: necessity, sufficiency, benefit, harm, and whom to treat; for any number of outcomes."""

from countermax.causation._asking import causes_of_numbers as causes_of_numbers
from countermax.causation._asking import of_two_arms as of_two_arms
from countermax.causation._asking import probabilities_of_causation as probabilities_of_causation
from countermax.causation._asking import source_name as source_name
from countermax.causation._causes import answered_causes as answered_causes
from countermax.causation._crossing import Crossing as Crossing
from countermax.causation._deciding import TreatmentDecision as TreatmentDecision
from countermax.causation._deciding import decide as decide
from countermax.causation._evidence import Arms as Arms
from countermax.causation._evidence import Choosers as Choosers
from countermax.causation._evidence import Evidence as Evidence
from countermax.causation._limits import PEOPLE as PEOPLE
from countermax.causation._limits import limits as limits
from countermax.causation._questions import CausalQuestion as CausalQuestion
from countermax.causation._questions import Monotonicity as Monotonicity
from countermax.causation._questions import as_event as as_event
from countermax.causation._questions import as_gain as as_gain
from countermax.causation._questions import questions_about as questions_about
from countermax.causation._result import Attained as Attained
from countermax.causation._result import CausalAnswer as CausalAnswer
from countermax.causation._result import CausalIntervals as CausalIntervals
from countermax.causation._result import Causation as Causation
from countermax.causation._sources import Strata as Strata
