"""Settings of a search, except searcher, scheduler and stopper."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from skate.tune.experiment.trial import Trial


@dataclass
class Settings:
    """Settings of a search: metric, mode, limits."""

    metric: Any = None
    mode: Any = None
    fail_fast: bool | str = False
    #: How often a trial may fail between resuming from a checkpoint and its next result without the failure
    #: being counted.
    restore_retries: int = 0
    max_concurrent: int = 0
    stamp: str = ""
    strict_metrics: bool = True
    name_creator: Callable[[Trial], str] | None = None
    dirname_creator: Callable[[Trial], str] | None = None
    hooks: frozenset[str] = frozenset()
    #: True if the trainable of a trial is a class, which can be saved at any time.
    can_save: Callable[[Trial], bool] = field(default=lambda trial: False)
