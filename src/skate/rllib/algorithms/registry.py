"""Algorithms by name, and the ones that are refused."""

from __future__ import annotations

from typing import Any

from skate import lazy_loader

_HOMES = {
    "skate.rllib.algorithms.dqn.dqn": ("DQN",),
    "skate.rllib.algorithms.ppo.ppo": ("PPO",),
    "skate.rllib.algorithms.sac.sac": ("SAC",),
}
_CLASSES = {name for names in _HOMES.values() for name in names}
_find = lazy_loader.getter({"__name__": __name__}, _HOMES)
#: Algorithms of Ray that are not available, and the nearest one that is.
_NEAREST = {
    "APPO": "PPO", "IMPALA": "PPO", "DreamerV3": "PPO", "BC": "PPO", "MARWIL": "PPO", "CQL": "SAC", "IQL": "SAC",
    "TQC": "SAC",
}  # fmt: skip


def names() -> list[str]:
    """Return the names of the algorithms."""
    return sorted(_CLASSES)


def is_known(name: str) -> bool:
    """True if an algorithm has the name, an available one or one that is refused."""
    return name in _CLASSES or name in _NEAREST


def refusal(name: str) -> str:
    """Return the message about an algorithm of Ray that is not available."""
    return (
        f"{name} is not available: Skate's RLlib has {', '.join(names())}. The nearest of them is {_NEAREST[name]}: "
        f"from ray.rllib.algorithms import {_NEAREST[name]}Config"
    )


def get_algorithm_class(name: str) -> Any:
    """Return the class of an algorithm.

    Raises:
        NotImplementedError: Ray has it, and Skate does not.
        ValueError: the name is unknown.
    """
    if name in _NEAREST:
        raise NotImplementedError(refusal(name))
    if name not in _CLASSES:
        raise ValueError(f"there is no algorithm {name!r}; the algorithms are: {', '.join(names())}")
    return _find(name)


def refused(attribute: str) -> str | None:
    """Return the message about a class of an algorithm that is not available, None for another name."""
    name = attribute.removesuffix("Config")
    return refusal(name) if name in _NEAREST else None
