"""The configuration of algorithms: one class, its fields in tables, and what is derived from them."""

from __future__ import annotations

from typing import Any

from skate.rllib.algorithms import not_available
from skate.rllib.algorithms.algorithm_config.config import AlgorithmConfig
from skate.rllib.algorithms.algorithm_config.field import NotProvided

__all__ = ["AlgorithmConfig", "NotProvided"]


def __getattr__(name: str) -> Any:
    return getattr(not_available, name)
