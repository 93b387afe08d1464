"""Perturbation of configurations for population based training. Draws from the module `random`, so
that it can be seeded."""

from __future__ import annotations

import copy
import random
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from skate.tune.space.domain import Domain, Function


def drawn(distribution: Any) -> Any:
    """Draw a value from a domain, a list or a function."""
    if isinstance(distribution, Domain):
        return distribution.sample()
    if isinstance(distribution, Mapping):
        return {name: drawn(each) for name, each in distribution.items()}
    if isinstance(distribution, Sequence):
        return random.choice(list(distribution))
    return distribution()


def explored(
    config: Mapping[str, Any],
    mutations: Mapping[str, Any],
    resample_probability: float,
    factors: tuple[float, float],
    custom: Callable[[dict[str, Any]], dict[str, Any]] | None,
) -> dict[str, Any]:
    """Return a configuration with each part resampled or perturbed: numbers by a factor, members of a list to a
    neighbour.

    Raises:
        TypeError: the user's function did not return a configuration.
    """
    found = copy.deepcopy(dict(config))
    for name, distribution in mutations.items():
        if isinstance(distribution, Mapping):
            found[name] = explored(config[name], distribution, resample_probability, factors, None)
        else:
            found[name] = _moved(config[name], distribution, resample_probability, factors)
    if custom is not None:
        found = custom(found)
        if not isinstance(found, dict):
            raise TypeError(
                f"custom_explore_fn must return the new configuration as a dict, got {found!r:.80}"
            )
    return found


def _moved(value: Any, distribution: Any, resample_probability: float, factors: tuple[float, float]) -> Any:
    again = random.random() < resample_probability
    if isinstance(distribution, Sequence):
        values = list(distribution)
        if again or value not in values:
            return random.choice(values)
        at = values.index(value) + random.choice((-1, 1))
        return values[min(max(at, 0), len(values) - 1)]
    if again or not isinstance(value, (int, float)):
        found = drawn(distribution)
    else:
        found = value * random.choice(factors)
    if isinstance(value, bool):
        return bool(found)
    return round(found) if isinstance(value, int) and isinstance(found, (int, float)) else found


def filled(config: dict[str, Any], mutations: Mapping[str, Any]) -> None:
    """Draw the missing values of a configuration."""
    for name, distribution in mutations.items():
        if isinstance(distribution, Mapping):
            filled(config.setdefault(name, {}), distribution)
        elif name not in config:
            config[name] = drawn(distribution)


def check_mutations(mutations: Mapping[str, Any]) -> None:
    """Check that all mutations can be drawn from.

    Raises:
        TypeError: one cannot be drawn from.
        ValueError: one is a `sample_from`, which would need the rest of the configuration.
    """
    for name, distribution in mutations.items():
        if isinstance(distribution, Mapping):
            check_mutations(distribution)
        elif isinstance(distribution, Function):
            raise ValueError(
                f"hyperparam_mutations[{name!r}]: arbitrary tune.sample_from objects are not supported; use tune.uniform, "
                "tune.choice and the like, or a function without arguments"
            )
        elif isinstance(distribution, str) or not (
            isinstance(distribution, (Domain, Sequence)) or callable(distribution)
        ):
            raise TypeError(
                f"hyperparam_mutations[{name!r}] is either a List, Tuple, Dict, a tune search space object, or "
                f"a callable without arguments, got {distribution!r:.80}"
            )
