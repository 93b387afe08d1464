"""Environments from what ``config.environment(env=...)`` names: an id of gymnasium, a registered name, a class, a callable."""

from __future__ import annotations

import functools
import logging
from collections.abc import Callable
from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium.vector import AsyncVectorEnv, SyncVectorEnv, VectorEnv

from skate import cloudpickle
from skate.experimental import internal_kv as kv
from skate.rllib.env.env_context import EnvContext
from skate.rllib.utils.error import EnvError
from skate.rllib.utils.serialization import deserialize_type
from skate.tune import registry

logger = logging.getLogger(__name__)
_NAMESPACE = "environments"

#: Roles of random streams; each has its own branch of the run's seed.
LANE, ACTION = 1, 2


def seed_of(seed: int | None, *branch: int) -> int | None:
    """Return the seed of one branch: the same for the same run and place, whatever happens elsewhere.

    Args:
        seed: The seed of the run; None for none.
        branch: The role, then indices.
    """
    if seed is None:
        return None
    return int(np.random.SeedSequence(seed, spawn_key=branch).generate_state(1)[0] & 0x7FFFFFFF)


def publish(env: Any) -> None:
    """Let other processes of the session find the function that was registered for a name.

    Args:
        env: As in ``config.environment(env=...)``; what is no registered name is left alone.
    """
    if not isinstance(env, str) or env not in registry.environments() or not kv._internal_kv_initialized():
        return
    try:
        creator = cloudpickle.dumps(registry.get_env(env))
    except Exception:  # a function may hold anything; this process can still call it
        logger.debug("The function registered for %r cannot be pickled", env, exc_info=True)
        return
    kv._internal_kv_put(env, creator, namespace=_NAMESPACE)


def _published(name: str) -> Callable[[EnvContext], Any] | None:
    """Return the function that another process has registered for a name, None if there is none."""
    found = kv._internal_kv_get(name, namespace=_NAMESPACE) if kv._internal_kv_initialized() else None
    return None if found is None else cloudpickle.loads(found)


def creator_of(env: Any) -> Callable[[EnvContext], Any] | None:
    """Return the function that makes an environment of a context; None if gymnasium knows the id.

    Raises:
        ValueError: No environment was configured.
    """
    if env is None:
        raise ValueError("no environment is configured; name one with config.environment('CartPole-v1')")
    if isinstance(env, str):
        try:
            return registry.get_env(env)
        except KeyError:
            return _published(env)
    if callable(env):
        return env  # type: ignore[no-any-return]
    raise ValueError(
        f"env={env!r} is neither a name nor callable; pass an id, a registered name, a class or a function"
    )


def make_one(env: Any, context: EnvContext) -> Any:
    """Make one environment.

    Args:
        env: As in ``config.environment(env=...)``.
        context: Its settings and its place.

    Raises:
        EnvError: Nothing is known under a name.
    """
    creator = creator_of(env)
    if creator is None and is_class_path(env):
        found = deserialize_type(env)
        creator = found if callable(found) else None
    if creator is not None:
        return creator(context)
    try:
        return gym.make(env, **context)
    except gym.error.UnregisteredEnv as error:
        raise EnvError(
            f"The env string you provided ('{env}') is no environment that gymnasium knows, no name of "
            f"tune.register_env(), and no path of a class, such as 'package.module.MyEnv': {error}"
        ) from error


def is_class_path(env: str) -> bool:
    """True for a text with dots that names neither an id of gymnasium nor a module that registers one."""
    return "." in env and ":" not in env and env not in gym.registry


def make_vector(config: Any, context: EnvContext) -> VectorEnv[Any, Any, Any]:
    """Make the vector of environments of one runner.

    Args:
        config: The algorithm's config; read are ``env``, ``num_envs_per_env_runner`` and ``gym_env_vectorize_mode``.
        context: The settings and the place of the runner.

    Raises:
        ValueError: Unknown mode, or no environment.
    """
    count = config.num_envs_per_env_runner
    mode = getattr(config, "gym_env_vectorize_mode", "sync")
    mode = str(getattr(mode, "value", mode))
    if mode in ("vector_entry_point", "custom"):
        creator = creator_of(config.env)
        if creator is not None:
            made = creator(context.copy_with_overrides({**context, "num_envs": count}))
        else:
            made = gym.make_vec(
                config.env, num_envs=count, vectorization_mode="vector_entry_point", **context
            )
        if not isinstance(made, VectorEnv):
            raise ValueError(
                f"gym_env_vectorize_mode={mode!r} needs a gymnasium.vector.VectorEnv; {config.env!r} made {made}"
            )
        return made
    makers = [
        functools.partial(make_one, config.env, context.copy_with_overrides(vector_index=lane))
        for lane in range(count)
    ]
    if mode == "async":
        return AsyncVectorEnv(makers)
    if mode == "sync":
        return SyncVectorEnv(makers)
    raise ValueError(
        f"gym_env_vectorize_mode={mode!r} is not known; choose 'sync', 'async' or 'vector_entry_point'"
    )
