"""Two known laws, or people in two arms: problems that are read and checked once, and can be asked many things."""

from countermax.trial._trial import Design as Design
from countermax.trial._trial import Trial as Trial
from countermax.trial._worlds import Worlds as Worlds
