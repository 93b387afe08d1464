"""Domains, samplers and the functions that make them, by the names that programs know from `ray.tune.search.sample`."""

from __future__ import annotations

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
from skate.tune.space.sampler import BaseSampler, Grid, LogUniform, Normal, Quantized, Sampler, Uniform

__all__ = [
    "BaseSampler", "Categorical", "Domain", "Float", "Function", "Grid", "Integer", "LogUniform", "Normal", "Quantized",
    "Sampler",
    "Uniform", "choice", "lograndint", "loguniform", "qlograndint", "qloguniform", "qrandint", "qrandn", "quniform", "randint",
    "randn", "sample_from", "uniform",
]  # fmt: skip
