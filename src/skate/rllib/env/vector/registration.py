"""Makes vectors of registered environments with several agents."""

from __future__ import annotations

import copy
from typing import Any

import gymnasium as gym
from gymnasium.envs.registration import EnvSpec

from skate.rllib.env.vector.sync_vector_multi_agent_env import SyncVectorMultiAgentEnv


def make_vec(
    id: str | EnvSpec,
    num_envs: int = 1,
    vectorization_mode: Any = None,
    vector_kwargs: dict[str, Any] | None = None,
    **kwargs: Any,
) -> SyncVectorMultiAgentEnv:
    """Make a vector of an environment with several agents that gymnasium has registered.

    Args:
        id: Its id, or its spec.
        num_envs: Number of environments.
        vectorization_mode: Only ``"sync"``.
        vector_kwargs: Arguments of the vector.
        kwargs: Arguments of each environment.

    Raises:
        ValueError: The mode is another one.
    """
    mode = getattr(vectorization_mode, "value", vectorization_mode) or "sync"
    if mode != "sync":
        raise ValueError(
            f'vectorization_mode={mode!r} was asked for; environments with several agents have "sync" alone'
        )
    spec = copy.deepcopy(gym.spec(id) if isinstance(id, str) else id)
    spec.kwargs = {**spec.kwargs, **kwargs}
    made = SyncVectorMultiAgentEnv([lambda: gym.make(spec)] * num_envs, **(vector_kwargs or {}))
    made.spec = spec
    return made
