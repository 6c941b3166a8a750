from . import dowhy as dowhy
from . import gymnasium as gymnasium
