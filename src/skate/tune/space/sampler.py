"""Samplers of domains. They use numpy's generators, so a seed gives the same values as in Ray."""

from __future__ import annotations

import copy
import math
from typing import Any


class LogBase:
    """The default base of logarithmic samplers, 10, distinguishable from an explicit one."""

    def __repr__(self) -> str:
        return "10"


LOG_BASE = LogBase()


def base_of(base: Any) -> float:
    """Convert the base to a number."""
    return 10.0 if isinstance(base, LogBase) else float(base)


def generator(random_state: Any) -> Any:
    """Return numpy's generator for a seed, a generator, or None for numpy's global one."""
    import numpy as np  # takes 80 ms, and grid searches do not need it

    if random_state is None:
        return np.random
    if isinstance(random_state, int):
        return np.random.default_rng(random_state)
    return random_state


class SamplerArgumentError(ValueError, AssertionError):
    """An argument of a sampler is out of range."""


class Sampler:
    """Draws from a domain."""

    def sample(self, domain: Any, config: Any = None, size: int = 1, random_state: Any = None) -> Any:
        """Draw one value, or a list of `size` values if that is more than 1."""
        raise NotImplementedError

    def draw(self, domain: Any, size: int, source: Any) -> Any:
        """Draw an array of `size` values, uncast."""
        raise NotImplementedError


class BaseSampler(Sampler):
    """Draws from the domain uniformly."""

    def sample(self, domain: Any, config: Any = None, size: int = 1, random_state: Any = None) -> Any:
        """Draw one value; an array of `size` numbers, or a list of `size` other values, if that is more than 1."""
        found = self.draw(domain, size, generator(random_state))
        return domain.cast(found[0]) if size == 1 else found

    def __str__(self) -> str:
        return "Base"


class Uniform(BaseSampler):
    """Draws all values with equal probability."""

    def draw(self, domain: Any, size: int, source: Any) -> Any:
        """Draw values between the bounds, or positions of categories."""
        if hasattr(domain, "categories"):
            positions = source.choice(len(domain.categories), size)
            return [domain.categories[int(each)] for each in positions]
        if domain.whole:
            if hasattr(source, "integers"):
                return source.integers(domain.lower, domain.upper, size=size)
            return source.randint(domain.lower, domain.upper, size=size)
        return source.uniform(domain.lower, domain.upper, size=size)

    def __str__(self) -> str:
        return "Uniform"


class LogUniform(BaseSampler):
    """Draws every order of magnitude with equal probability."""

    def __init__(self, base: Any = LOG_BASE) -> None:
        self.base = base_of(base)
        if self.base <= 0:
            raise ValueError(f"the base of a logarithm must be above 0, got {base!r}")

    def draw(self, domain: Any, size: int, source: Any) -> Any:
        """Draw powers of the base."""
        import numpy as np  # loaded by now

        low, high = math.log(domain.lower, self.base), math.log(domain.upper, self.base)
        found = self.base ** source.uniform(low, high, size=size)
        return np.floor(found).astype(int) if domain.whole else found

    def __str__(self) -> str:
        return "LogUniform"


class Normal(BaseSampler):
    """Draws normally distributed values."""

    def __init__(self, mean: float = 0.0, sd: float = 0.0) -> None:
        if sd <= 0:
            raise SamplerArgumentError(f"SD has to be strictly greater than 0, got {sd!r}")
        self.mean, self.sd = mean, sd

    def draw(self, domain: Any, size: int, source: Any) -> Any:
        """Draw normally distributed values."""
        return source.normal(self.mean, self.sd, size=size)

    def __str__(self) -> str:
        return "Normal"


class Grid(Sampler):
    """Marks a domain of which all categories are tried in turn."""

    def sample(self, domain: Any, config: Any = None, size: int = 1, random_state: Any = None) -> Any:
        """Raise: a grid is enumerated, not drawn from."""
        raise RuntimeError("a grid is enumerated, not drawn from; use it with BasicVariantGenerator")

    def __str__(self) -> str:
        return "Grid"


class Quantized(Sampler):
    """Rounds the draws of another sampler to multiples of `q`, within the bounds."""

    def __init__(self, sampler: Sampler, q: float) -> None:
        if not q:
            raise ValueError("the step q must be above 0")
        self.sampler, self.q = sampler, q

    def get_sampler(self) -> Sampler:
        """The sampler whose values are rounded."""
        return self.sampler

    def sample(self, domain: Any, config: Any = None, size: int = 1, random_state: Any = None) -> Any:
        """Draw one value, or a list of `size` values if that is more than 1."""
        q = self.q
        if domain.whole:
            if q == 1:
                return self.sampler.sample(domain, config, size, random_state)
            steps = copy.copy(domain)  # integers are drawn in steps, including the upper bound
            steps.lower, steps.upper = math.ceil(domain.lower / q), math.floor(domain.upper / q) + 1
            drawn = _listed(self.sampler.sample(steps, config, size, random_state), size)
            found = [domain.cast(each * q) for each in drawn]
        else:
            drawn = _listed(self.sampler.sample(domain, config, size, random_state), size)
            found = [domain.cast(min(max(round(each / q) * q, domain.lower), domain.upper)) for each in drawn]
        return found[0] if size == 1 else found

    def __str__(self) -> str:
        return f"Quantized({self.sampler}, {self.q})"


def _listed(found: Any, size: int) -> list[Any]:
    return [found] if size == 1 else list(found)
