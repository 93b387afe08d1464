"""SyncVectorMultiAgentEnv: environments with several agents that are stepped one after the other."""

from __future__ import annotations

import copy as copies
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from skate.rllib.env.multi_agent_vector import MultiAgentVector


class SyncVectorMultiAgentEnv(MultiAgentVector):
    """Several environments with several agents; one that has ended is reset by the next step.

    Args:
        env_fns: Functions that make the environments.
        copy: True to return copies of observations, which later steps do not change.
        autoreset_mode: Only ``"next_step"``.

    Raises:
        ValueError: The mode is another one, or the environments name no agents.
    """

    def __init__(
        self, env_fns: Iterable[Callable[[], Any]], copy: bool = True, autoreset_mode: str = "next_step"
    ) -> None:
        if autoreset_mode != "next_step":
            raise ValueError(f'autoreset_mode={autoreset_mode!r} was asked for; there is "next_step" alone')
        self.envs = [make() for make in env_fns]
        self.num_envs = len(self.envs)
        self.copy, self.autoreset_mode = copy, autoreset_mode
        self.spec: Any = None
        self.describe(self.envs[0].unwrapped)
        self._ended = [False] * self.num_envs

    def reset(
        self, *, seed: int | Sequence[int | None] | None = None, options: dict[str, Any] | None = None
    ) -> tuple[list[Any], list[Any]]:
        """Reset all environments.

        Args:
            seed: A seed for the first environment, of which the others get the following ones, or one for each.
            options: Passed to all.

        Returns:
            Observations and infos, by agent in each environment.

        Raises:
            ValueError: There are more or fewer seeds than environments.
        """
        if seed is None or isinstance(seed, int):
            seeds: Sequence[int | None] = [None if seed is None else seed + at for at in range(self.num_envs)]
        else:
            seeds = seed
        if len(seeds) != self.num_envs:
            raise ValueError(f"{len(seeds)} seeds were given for {self.num_envs} environments")
        began = [env.reset(seed=each, options=options) for env, each in zip(self.envs, seeds, strict=True)]
        self._ended = [False] * self.num_envs
        return self._copied([seen for seen, _ in began]), [info for _, info in began]

    def step(self, actions: Sequence[dict[Any, Any]]) -> tuple[list[Any], ...]:
        """Step all environments; one that ended in the step before is reset, and its actions are left out.

        Args:
            actions: By agent, for each environment.

        Returns:
            Observations, rewards, terminateds, truncateds and infos, by agent in each environment.
        """
        steps = []
        for at, (env, chosen) in enumerate(zip(self.envs, actions, strict=True)):
            if self._ended[at]:
                observations, infos = env.reset()
                agents = list(self.single_action_spaces)
                still = {**dict.fromkeys(agents, False), "__all__": False}
                steps.append((observations, dict.fromkeys(agents, 0.0), still, dict(still), infos))
            else:
                steps.append(env.step(chosen))
            terminateds, truncateds = steps[-1][2:4]
            self._ended[at] = bool(terminateds.get("__all__") or truncateds.get("__all__"))
        columns = tuple(map(list, zip(*steps, strict=True)))
        return (self._copied(columns[0]), *columns[1:])

    def _copied(self, observations: list[Any]) -> list[Any]:
        return copies.deepcopy(observations) if self.copy else observations

    def render(self) -> tuple[Any, ...]:
        """Return the rendered frame of each environment."""
        return tuple(env.render() for env in self.envs)

    def call(self, name: str, *args: Any, **kwargs: Any) -> tuple[Any, ...]:
        """Return a method's results, or an attribute's values, of all environments.

        Args:
            name: The method or the attribute.
            args: Positional arguments.
            kwargs: Keyword arguments.
        """
        found = [env.get_wrapper_attr(name) for env in self.envs]
        return tuple(each(*args, **kwargs) if callable(each) else each for each in found)

    get_attr = call
