"""Domains, samplers and the functions that create them, under the names of `ray.tune.search.sample`."""

from __future__ import annotations

from typing import Any

import numpy as np

from skate.tune.space.domain import Categorical, Domain, Float, Function, Integer
from skate.tune.space.functions import (
    choice,
    lograndint,
    loguniform,
    qlograndint,
    qloguniform,
    qrandint,
    qrandn,
    quniform,
    randint,
    randn,
    sample_from,
    uniform,
)
from skate.tune.space.sampler import (
    BaseSampler,
    Grid,
    LogUniform,
    Normal,
    Quantized,
    Sampler,
    Uniform,
    generator,
)


class _BackwardsCompatibleNumpyRng:
    """A numpy generator, old or new, with the interface of the new one.

    Args:
        generator_or_seed: a generator, a seed, or None for numpy's global one.
    """

    def __init__(self, generator_or_seed: Any = None) -> None:
        if isinstance(generator_or_seed, int):
            self._rng: Any = np.random.default_rng(generator_or_seed)
        else:
            self._rng = generator(generator_or_seed)

    @property
    def legacy_rng(self) -> bool:
        """Return True for a legacy generator, which draws integers with `randint`."""
        return not hasattr(self._rng, "integers")

    @property
    def rng(self) -> Any:
        """The generator itself."""
        return self._rng

    def __getattr__(self, name: str) -> Any:
        if self.legacy_rng and name in ("integers", "random"):
            name = {"integers": "randint", "random": "rand"}[name]
        return getattr(self._rng, name)


__all__ = [
    "BaseSampler", "Categorical", "Domain", "Float", "Function", "Grid", "Integer", "LogUniform", "Normal", "Quantized",
    "Sampler",
    "Uniform", "choice", "lograndint", "loguniform", "qlograndint", "qloguniform", "qrandint", "qrandn", "quniform", "randint",
    "randn", "sample_from", "uniform",
]  # fmt: skip
