"""Checkpoints of `transformers.Trainer` as checkpoints of the run."""

from __future__ import annotations

import os
import shutil
import tempfile
from typing import Any

from transformers import TrainerCallback
from transformers.trainer_utils import PREFIX_CHECKPOINT_DIR

from skate.train.checkpoint import Checkpoint
from skate.train.worker.report import report
from skate.train.worker.shared_folders import is_reporter, link_or_copy


class RayTrainReportCallback(TrainerCallback):
    """Reports the last logged metrics with the files whenever the trainer has saved a checkpoint.

    The files are in the folder `checkpoint` of the reported checkpoint. Evaluation metrics belong to a save
    if both happen at the same steps.
    """

    CHECKPOINT_NAME = "checkpoint"

    def on_save(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """Called by the trainer after a save, on all ranks."""
        metrics: dict[str, Any] = {}
        for logged in state.log_history:
            metrics.update(logged)
        saved = os.path.abspath(os.path.join(args.output_dir, f"{PREFIX_CHECKPOINT_DIR}-{state.global_step}"))
        if not is_reporter(saved) or not os.path.isdir(saved):
            report(metrics)
            return
        with tempfile.TemporaryDirectory(prefix="checkpoint_") as folder:
            shutil.copytree(saved, os.path.join(folder, self.CHECKPOINT_NAME), copy_function=link_or_copy)
            report(metrics, checkpoint=Checkpoint.from_directory(folder))
