"""Reports of Lightning's checkpoints to the run."""

from __future__ import annotations

import os
import tempfile
from typing import Any

from lightning.pytorch.callbacks import Callback

from skate.train.checkpoint import Checkpoint
from skate.train.collective import broadcast_from_rank_zero
from skate.train.modes import CheckpointUploadMode
from skate.train.worker.report import report
from skate.train.worker.shared_folders import is_reporter


class RayTrainReportCallback(Callback):
    """Saves a checkpoint and reports it with the trainer's metrics at the end of each epoch of training.

    Lightning's checkpoint is named `checkpoint.ckpt` in the reported one: a file, or a folder if it is sharded.

    Args:
        checkpoint_upload_mode: as for `ray.train.report`.
        validation: as for `ray.train.report`.
    """

    CHECKPOINT_NAME = "checkpoint.ckpt"

    def __init__(
        self, checkpoint_upload_mode: CheckpointUploadMode | None = None, validation: Any = False
    ) -> None:
        super().__init__()
        self.checkpoint_upload_mode = CheckpointUploadMode(
            checkpoint_upload_mode or CheckpointUploadMode.SYNC
        )
        self.validation = validation

    def on_train_epoch_end(self, trainer: Any, pl_module: Any) -> None:
        """Called by the trainer on all ranks."""
        metrics = {name: value.item() for name, value in trainer.callback_metrics.items()}
        metrics.update(epoch=trainer.current_epoch, step=trainer.global_step)
        # All ranks of a node write their shards to the folder chosen by rank 0, so the name is the same everywhere.
        own = tempfile.mkdtemp(prefix="checkpoint_") if trainer.global_rank == 0 else ""
        folder = broadcast_from_rank_zero(own)
        os.makedirs(folder, exist_ok=True)
        trainer.save_checkpoint(os.path.join(folder, self.CHECKPOINT_NAME), weights_only=False)
        report(
            metrics,
            checkpoint=Checkpoint.from_directory(folder) if is_reporter(folder) else None,
            checkpoint_upload_mode=self.checkpoint_upload_mode,
            delete_local_checkpoint_after_upload=True,
            validation=self.validation,
        )
