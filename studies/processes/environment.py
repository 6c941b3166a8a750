"""The sepsis process as a Gymnasium environment, `countermax-studies/Sepsis-v0`; importing this module registers it.

gymnasium.make("studies.processes.environment:countermax-studies/Sepsis-v0")
"""

from typing import Any, ClassVar, final

import numpy as np

from countermax._core.errors import InputError
from countermax._core.extras import import_gymnasium
from countermax._core.quantities import as_seed
from studies.processes import sepsis

gymnasium = import_gymnasium()
_Env: Any = gymnasium.Env

_OPTIONS = ("state", "diabetic")
_OBSERVATIONS = ("index", "variables")


@final
class SepsisEnv(_Env):
    """A patient with sepsis: three treatments each step, until death, discharge or the time limit.

    The observation leaves out diabetes, which `info` has. Steps are drawn from the exact rows of `sepsis.process`.
    """

    metadata: ClassVar[dict[str, Any]] = {"render_modes": ["ansi"], "render_fps": 1}

    def __init__(
        self,
        *,
        as_published: bool = False,
        prob_diabetes: float = 0.2,
        observation: str = "index",
        render_mode: str | None = None,
    ):
        """Prepares the process.

        Args:
            as_published: Whether to keep the published slip in glucose; see `sepsis.process`.
            prob_diabetes: Probability of diabetes, before starts in which an episode would end at once are drawn again.
            observation: `index`, one of 720, or `variables`, the seven numbers behind it.
            render_mode: None, or `ansi` for a line of text.
        """
        if observation not in _OBSERVATIONS:
            raise InputError(f"`observation` must be one of {', '.join(_OBSERVATIONS)}, got {observation!r}")
        if render_mode not in (None, *self.metadata["render_modes"]):
            raise InputError(f"`render_mode` must be None or ansi, got {render_mode!r}")
        self.mdp = sepsis.process(as_published=as_published, prob_diabetes=prob_diabetes)
        self.render_mode = render_mode
        self.observation = observation
        self.action_space = gymnasium.spaces.Discrete(sepsis.ACTIONS.count)
        self.observation_space = (
            gymnasium.spaces.Discrete(sepsis.OBSERVED.count)
            if observation == "index"
            else gymnasium.spaces.MultiDiscrete(sepsis.OBSERVED.sizes)
        )
        self._state: int | None = None
        # Of each kind of patient by itself, so that one can be asked for who would never come.
        self._starts = np.stack([sepsis.start(float(kind)).reshape(2, -1)[kind] for kind in (0, 1)])

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        """Admits a new patient.

        Args:
            seed: Seed of the random stream, from 0 to 2**32 - 1; None continues the one there is.
            options: `diabetic` fixes whether the patient is; `state`, an observed index, fixes the rest.
        """
        super().reset(seed=None if seed is None else as_seed("seed", seed))
        start = self._start(options or {})
        self._state = int(self.np_random.choice(len(start), p=start))
        return self._observed(), self._info()

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        """Treats the patient for one step."""
        if self._state is None or self.mdp.absorbing[self._state]:
            raise gymnasium.error.ResetNeeded("the episode has ended; call reset() first")
        if not self.action_space.contains(action):
            raise InputError(f"`action` must be an integer in 0..{self.mdp.num_actions - 1}, got {action!r}")
        successors, probs = self.mdp.support(self._state, int(action))
        slot = int(self.np_random.choice(len(successors), p=probs))
        reward = float(self.mdp.rewards[self._state, int(action), slot])
        self._state = int(successors[slot])
        return self._observed(), reward, bool(self.mdp.absorbing[self._state]), False, self._info()

    def render(self) -> str | None:
        """The patient in words."""
        if self.render_mode != "ansi" or self._state is None or self.mdp.state_names is None:
            return None
        return str(self.mdp.state_names[self._state])

    def _observed(self) -> Any:
        assert self._state is not None
        index = self._state % sepsis.OBSERVED.count
        return index if self.observation == "index" else sepsis.OBSERVED.values(index)

    def _info(self) -> dict[str, Any]:
        assert self._state is not None
        return {"diabetic": self._state >= sepsis.OBSERVED.count, "full_state": self._state}

    def _start(self, options: dict[str, Any]) -> np.ndarray:
        """The start given the options: they condition its distribution, or replace it where they name a state."""
        unknown = [name for name in options if name not in _OPTIONS]
        if unknown:
            raise InputError(f"`options` must be among {', '.join(_OPTIONS)}, got {', '.join(unknown)}")
        diabetic, state = (options.get(name) for name in _OPTIONS[::-1])
        if diabetic is not None and not isinstance(diabetic, bool | np.bool_):
            raise InputError(f"`diabetic` must be True or False, got {diabetic!r}")
        shares = self.mdp.start.reshape(2, -1).sum(axis=1) if diabetic is None else np.eye(2)[int(diabetic)]
        start = self._starts
        if state is not None:
            if not np.issubdtype(np.asarray(state).dtype, np.integer) or np.ndim(state) != 0:
                raise InputError(f"`state` must be an observed index, got {state!r}")
            if not 0 <= state < sepsis.OBSERVED.count or self.mdp.absorbing[state]:
                raise InputError(f"`state` must be an observed index in which an episode continues, got {state}")
            start = np.tile(np.eye(sepsis.OBSERVED.count)[int(state)], (2, 1))
        return (start * shares[:, None]).ravel()


gymnasium.register(
    id="countermax-studies/Sepsis-v0",
    entry_point="studies.processes.environment:SepsisEnv",
    max_episode_steps=20,
)
