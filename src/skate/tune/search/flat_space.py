"""A nested space in flat form for libraries: domains by name, nested names joined with slashes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from skate.air.flat import flat
from skate.tune.space import variants
from skate.tune.space.domain import Categorical, Domain, Float, Integer
from skate.tune.space.sampler import LogUniform, Normal, Quantized, Sampler


class Flat:
    """One domain of a space.

    Attributes:
        domain: the domain.
        q: the step of rounded values, None if there is none.
        log: True for a logarithmic scale.
    """

    def __init__(self, name: str, domain: Domain) -> None:
        self.name, self.domain = name, domain
        sampler: Sampler = domain.get_sampler()
        self.q: float | None = None
        if isinstance(sampler, Quantized):
            self.q, sampler = sampler.q, sampler.get_sampler()
        self.log = isinstance(sampler, LogUniform)
        self.normal = sampler if isinstance(sampler, Normal) else None

    @property
    def highest(self) -> Any:
        """The largest value that belongs to the domain."""
        if isinstance(self.domain, Integer) and (self.q is None or self.q == 1):
            return self.domain.upper - 1
        return self.domain.upper

    def settle(self, value: Any) -> Any:
        """Convert a library's value to the space's: its type, its step, and the original choice object."""
        domain = self.domain
        if isinstance(domain, Categorical):
            return next((each for each in domain.categories if each is value or each == value), value)
        if self.q:
            value = round(float(value) / self.q) * self.q
            value = min(max(value, domain.lower), domain.upper)
        return int(round(value)) if isinstance(domain, Integer) else float(value)


def settled(domains: Mapping[str, Flat], point: Mapping[str, Any]) -> dict[str, Any]:
    """Convert a library's point, each value by its domain; values without a domain stay unchanged."""
    return {name: domains[name].settle(value) if name in domains else value for name, value in point.items()}


def flat_space(
    space: Mapping[str, Any], searcher: str, choices: bool = True, nested: bool = False
) -> dict[str, Flat]:
    """Return the domains of a space by name; `nested` permits domains within choices.

    Raises:
        ValueError: the space has grids, functions, or domains that the library does not support.
    """
    found = {}
    for path, leaf in variants.open_leaves(space):
        name = "/".join(map(str, path))
        if not isinstance(leaf, Domain) or leaf.is_grid():
            raise ValueError(
                f"{searcher} does not support grids, but {name!r} is one; use tune.choice instead"
            )
        if leaf.is_function():
            raise ValueError(
                f"{searcher} cannot call functions, but {name!r} is sample_from: compute it in the trainable"
            )
        if not isinstance(leaf, (Float, Integer, Categorical)) or (
            isinstance(leaf, Categorical) and not choices
        ):
            raise ValueError(
                f"{searcher} does not support {type(leaf).__name__} {leaf.domain_str} for {name!r}"
            )
        if (
            isinstance(leaf, Categorical)
            and not nested
            and any(variants.has_open(each) for each in leaf.categories)
        ):
            raise ValueError(
                f"{searcher} does not support domains within the choices of {name!r}; use "
                "a define-by-run function or draw at random"
            )
        made = Flat(name, leaf)
        if made.normal is not None and searcher not in ("HyperOptSearch", "TuneBOHB"):
            raise ValueError(
                f"{searcher} has no normal distribution, but {name!r} is one: use tune.uniform there"
            )
        found[name] = made
    return found


def has_domains(space: Any) -> bool:
    """True if a space contains a domain or a grid of ray.tune."""
    return isinstance(space, Mapping) and variants.has_open(space)


def undefined(cls: str, metric: Any, mode: Any) -> RuntimeError:
    """Build the error for a searcher without metric or mode."""
    return RuntimeError(
        f"{cls} does not know the objective (metric={metric!r}, mode={mode!r}); set metric and mode "
        "here or in TuneConfig"
    )


def no_space(cls: str) -> RuntimeError:
    """Build the error for a searcher without a space."""
    return RuntimeError(f"{cls} has no search space; set space=... here, or param_space of Tuner")


def as_flat(point: Mapping[str, Any]) -> dict[str, Any]:
    """Flatten a nested configuration, joining names with slashes."""
    return flat(point)
