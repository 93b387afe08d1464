"""Validations of checkpoints: tasks that run during training, one at a time, in the order of the checkpoints."""

from __future__ import annotations

import time
from collections import deque
from typing import Any

import skate
from skate.train.controller.history import History
from skate.train.modes import ReportedCheckpointStatus, ValidationConfig, ValidationTaskConfig


class Validations:
    """Starts the validation function for the checkpoints that were reported with `validation`."""

    def __init__(self, config: ValidationConfig | None, history: History) -> None:
        self.config = config
        self.history = history
        self._queue: deque[tuple[str, Any, ValidationTaskConfig]] = deque()
        self._running: tuple[str, Any, float | None] | None = None

    @property
    def ref(self) -> Any:
        """The ref to wait for, None if nothing runs."""
        return None if self._running is None else self._running[1]

    @property
    def open(self) -> bool:
        """True if validations are queued or running."""
        return self._running is not None or bool(self._queue)

    def add(self, name: str, checkpoint: Any, validation: Any) -> None:
        """Queue the validation of a checkpoint.

        Raises:
            ValueError: the trainer has no validation function.
        """
        if self.config is None:
            raise ValueError(
                "`validation_config` was not set on the trainer, but a validation was requested with report(validation=...): "
                "pass validation_config=ValidationConfig(fn=...)"
            )
        task = (
            validation
            if isinstance(validation, ValidationTaskConfig)
            else self.config.task_config or ValidationTaskConfig()
        )
        self._queue.append((name, checkpoint, task))
        self.history.set_status(name, ReportedCheckpointStatus.PENDING_VALIDATION)
        self.look()

    def look(self) -> None:
        """Process validations that have ended, and start the next."""
        if self._running is not None:
            name, ref, until = self._running
            ready, _ = skate.wait([ref], timeout=0)
            if ready:
                self._running = None
                self._ended(name, ref)
            elif until is not None and time.monotonic() >= until:
                skate.cancel(ref, force=True)
                self._running = None
                self.history.validated(name, {}, ReportedCheckpointStatus.VALIDATION_TIMEOUT)
        if self._running is None and self._queue:
            name, checkpoint, task = self._queue.popleft()
            assert self.config is not None
            remote = skate.remote(_validate).options(**(self.config.ray_remote_kwargs or {}))
            ref = remote.remote(
                self.config.fn, checkpoint, {**_defaults(self.config), **(task.fn_kwargs or {})}
            )
            until = None if task.timeout_s is None else time.monotonic() + task.timeout_s
            self._running = (name, ref, until)

    def _ended(self, name: str, ref: Any) -> None:
        try:
            metrics = skate.get(ref)
        except Exception as error:  # any error of the user's function; training continues
            self.history.note(event="validation_failed", checkpoint=name, error=str(error))
            self.history.validated(name, {}, ReportedCheckpointStatus.VALIDATION_FAILED)
            return
        self.history.validated(name, metrics, ReportedCheckpointStatus.VALIDATED)

    def finish(self) -> None:
        """Wait for all queued validations."""
        while self.open:
            self.look()
            if self._running is not None:
                _, ref, until = self._running
                left = None if until is None else max(0.0, until - time.monotonic())
                skate.wait([ref], timeout=left)


def _defaults(config: ValidationConfig) -> dict[str, Any]:
    return dict((config.task_config.fn_kwargs if config.task_config else None) or {})


def _validate(function: Any, checkpoint: Any, kwargs: dict[str, Any]) -> dict[str, Any]:
    found = function(checkpoint, **kwargs)
    if not isinstance(found, dict):
        raise ValueError(
            f"The validation function must return a dictionary of metrics. Got {type(found)} instead: {found!r:.80}"
        )
    return found
