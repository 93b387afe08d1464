"""Reports: validation of metrics, and upload of a rank's checkpoint files to the storage."""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from skate.train.checkpoint import Checkpoint
from skate.train.modes import CheckpointUploadMode
from skate.train.storage.run_folder import RunFolder
from skate.train.worker.session import Reported, Session, current


def report(
    metrics: dict[str, Any],
    checkpoint: Checkpoint | None = None,
    checkpoint_dir_name: str | None = None,
    checkpoint_upload_mode: CheckpointUploadMode = CheckpointUploadMode.SYNC,
    delete_local_checkpoint_after_upload: bool | None = None,
    checkpoint_upload_fn: Callable[[Checkpoint, str], Checkpoint] | None = None,
    validation: Any = False,
) -> None:
    """Report metrics, with a checkpoint if there is one; all ranks must call it the same number of times.

    It returns once all ranks have called it and the checkpoint is written (with ASYNC immediately; the upload
    continues in the background).

    Args:
        metrics: must be JSON-serializable; the run records those of rank 0.
        checkpoint: the files of this rank; the files of all ranks form one checkpoint.
        checkpoint_dir_name: name of the checkpoint in the run's folder, the same on all ranks.
        checkpoint_upload_mode: SYNC, ASYNC or NO_UPLOAD (the files are in the storage already).
        delete_local_checkpoint_after_upload: True to delete the local folder once its files are written; by
            default with ASYNC.
        checkpoint_upload_fn: writes the files itself: (checkpoint, name) -> the written checkpoint.
        validation: True or a `ValidationTaskConfig` to validate the checkpoint with the trainer's validation function.

    Raises:
        TypeError: metrics is not a dict, or has a value that is not JSON-serializable (its key is named).
        ValueError: a validation is requested without a checkpoint.
        RuntimeError: called outside of the training function.
    """
    session = current("report()")
    if validation and checkpoint is None:
        raise ValueError(
            "Validation requires a checkpoint to be provided: report(metrics, checkpoint, validation=...)"
        )
    checked = _checked(metrics)
    if checkpoint is not None and not isinstance(checkpoint, Checkpoint):
        raise TypeError(
            f"checkpoint must be a ray.train.Checkpoint, got {type(checkpoint).__name__}; create one from a "
            "folder: Checkpoint.from_directory(folder)"
        )
    mode = CheckpointUploadMode(checkpoint_upload_mode)
    session.settle_uploads(wait=False)
    upload = Upload(
        checkpoint, checkpoint_dir_name, mode, delete_local_checkpoint_after_upload, checkpoint_upload_fn
    )
    number = session.next_number("report")
    if checkpoint is not None and mode is CheckpointUploadMode.ASYNC:
        session.upload_later(
            number,
            lambda: session.send("sync", "report", number, upload.run(session, number, checked, validation)),
        )
        return
    if checkpoint is None:
        part = Reported(checked, validation=validation)
    else:
        session.settle_uploads(wait=True)  # keeps reports in order
        part = upload.run(session, number, checked, validation)
    session.send("sync", "report", number, part)
    session.await_release("report", number)


@dataclass(frozen=True)
class Upload:
    """The upload of one rank's part of a checkpoint."""

    checkpoint: Checkpoint | None
    name: str | None
    mode: CheckpointUploadMode
    drop: bool | None
    write: Callable[[Checkpoint, str], Checkpoint] | None

    def run(self, session: Session, number: int, metrics: dict[str, Any], validation: Any) -> Reported:
        """Write the files; return the report about them.

        Raises:
            ValueError: the user's function did not return a checkpoint, or deleting it would delete the run.
            OSError: the files cannot be read or written.
        """
        checkpoint = self.checkpoint
        assert checkpoint is not None
        drop = self.mode is CheckpointUploadMode.ASYNC if self.drop is None else self.drop
        if drop and _contains(checkpoint, session.folder):
            raise ValueError(
                f"the run's folder {session.folder.path!r} is contained within the checkpoint path {checkpoint.path!r}, so that "
                "delete_local_checkpoint_after_upload=True would delete the run; write the checkpoint to a temporary folder"
            )
        name = f"checkpoint_{session.stamp}_{number:06d}"
        if self.name is not None:
            name = session.folder.free_name(self.name, f"{session.stamp}_{number:06d}")
        started = time.perf_counter()
        elsewhere = None
        if self.write is not None:
            elsewhere = self.write(checkpoint, name)
            if not isinstance(elsewhere, Checkpoint):
                raise ValueError(
                    f"checkpoint_upload_fn must return a `ray.train.Checkpoint`, the one it has written, got {elsewhere!r:.80}"
                )
        elif self.mode is CheckpointUploadMode.NO_UPLOAD:
            elsewhere = checkpoint
        else:
            session.folder.upload(checkpoint, name)
        if drop and elsewhere is not checkpoint:
            shutil.rmtree(checkpoint.path, ignore_errors=True)
        return Reported(metrics, name, elsewhere, validation, time.perf_counter() - started)


def _contains(checkpoint: Checkpoint, folder: RunFolder) -> bool:
    if not checkpoint._local or not folder.local:
        return False
    inner, outer = os.path.realpath(folder.path), os.path.realpath(checkpoint.path)
    return os.path.commonpath([inner, outer]) == outer


def _checked(metrics: Any) -> dict[str, Any]:
    if not isinstance(metrics, dict):
        raise TypeError(
            "metrics must be a dict of names to values, such as {'loss': 0.5}, got "
            f"{type(metrics).__name__}"
        )
    return {_name(key): _as_plain(value, str(key)) for key, value in metrics.items()}


def _name(key: Any) -> str:
    if not isinstance(key, str):
        raise TypeError(f"names of metrics must be strings, got {key!r} ({type(key).__name__})")
    return key


def _as_plain(value: Any, at: str) -> Any:
    """Convert a value for JSON; numbers of numpy and torch become Python's."""
    if isinstance(value, dict):
        return {_name(key): _as_plain(each, f"{at}/{key}") for key, each in value.items()}
    if isinstance(value, (list, tuple)):
        return [_as_plain(each, f"{at}[{index}]") for index, each in enumerate(value)]
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    if hasattr(value, "detach"):
        value = value.detach().cpu()
    if hasattr(value, "tolist"):
        return value.tolist()
    if hasattr(value, "isoformat"):
        return value.isoformat()
    raise TypeError(
        f"metric {at!r} is a {type(value).__name__} ({value!r:.80}), which a report cannot contain; "
        "report numbers, strings, lists and dicts of them, and put objects into the checkpoint"
    )
