"""MODEL_DEFAULTS; what else Ray has here is of the old API stack, and is refused by its name."""

from __future__ import annotations

import dataclasses
from typing import Any

from skate.rllib.algorithms import not_available
from skate.rllib.core.rl_module.default_model_config import DefaultModelConfig

#: The fields of a `DefaultModelConfig`, as a dict.
MODEL_DEFAULTS: dict[str, Any] = dataclasses.asdict(DefaultModelConfig())


def __getattr__(name: str) -> Any:
    return getattr(not_available, name)
