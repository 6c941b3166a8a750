"""One counterfactual question, every coupling's answer, and what data alone can say."""

from countermax.comparison._given import in_order as in_order
from countermax.comparison._given import own_labels as own_labels
from countermax.comparison._question import answered as answered
from countermax.comparison._question import compare as compare
from countermax.comparison._result import Answer as Answer
from countermax.comparison._result import AnswerIntervals as AnswerIntervals
from countermax.comparison._result import Comparison as Comparison
from countermax.comparison._result import ComparisonIntervals as ComparisonIntervals
from countermax.comparison._result import ScoreBounds as ScoreBounds
from countermax.comparison._sharing_result import SharingCurve as SharingCurve
from countermax.comparison._sharing_result import SharingIntervals as SharingIntervals
from countermax.comparison._sharing_result import TurningPoint as TurningPoint
