"""One counterfactual question, every coupling's answer, and what data alone can say."""

from countermax.comparison._result import Comparison as Comparison
from countermax.comparison._sensitivity import SensitivityCurve as SensitivityCurve
