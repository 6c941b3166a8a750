"""Do the intervals of a policy's value hold what they promise? A process that is known, logged hundreds of times."""

from studies.policies._experiment import Policies as Policies
