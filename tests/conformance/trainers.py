"""The trainer of plain functions: in Ray 2.60 the name under ray.train is still the one of before Train V2."""

from __future__ import annotations

try:
    from ray.train.v2.api.data_parallel_trainer import DataParallelTrainer
except ImportError:
    from ray.train.data_parallel_trainer import DataParallelTrainer

__all__ = ["DataParallelTrainer"]
