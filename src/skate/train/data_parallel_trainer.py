"""The trainer under the name of its module in Ray."""

from skate.train.trainer import DataParallelTrainer

__all__ = ["DataParallelTrainer"]
