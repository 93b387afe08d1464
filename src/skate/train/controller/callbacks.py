"""Notification of the user's callbacks; an error names the callback that raised it."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from typing import Any

from skate.air.named_callbacks import named_callbacks
from skate.train.callback import UserCallback
from skate.train.errors import ControllerError


class RunContext:
    """Information about the run for callbacks.

    Attributes:
        run_id: the name of the run.
        reports: the number of reports of all workers so far, including earlier calls of `fit` for the same run.
    """

    def __init__(self, run: Any) -> None:
        self.run_config = run.run_config
        self.scaling_config = run.scaling
        self.train_loop_config = run.config
        self.backend_config = run.backend
        self.dataset_config = run.data_config
        self.datasets = run.datasets
        self.run_id = run.name
        self.reports = 0
        self._folder = run.folder

    def get_run_config(self) -> Any:
        """The settings of the run."""
        return self.run_config


class Callbacks:
    """The callbacks of one run, called in the given order."""

    def __init__(self, run: Any) -> None:
        self.context = RunContext(run)
        self._user_callbacks: list[Any] = [
            *(run.run_config.callbacks or ()),
            *named_callbacks("RAY_TRAIN_CALLBACKS", UserCallback, "ray.train.UserCallback"),
        ]

    def begin(self, reports: int) -> None:
        """Notify the callbacks of the start, with the number of reports of earlier calls of `fit`.

        Raises:
            ControllerError: a callback raised.
        """
        self.context.reports = reports
        self._notify("before_run")

    def reported(self, metrics: Sequence[Mapping[str, Any]], checkpoint: Any) -> None:
        """Notify the callbacks that all workers have reported.

        Raises:
            ControllerError: a callback raised.
        """
        self.context.reports += 1
        if self._user_callbacks:
            self._notify("after_report", metrics=[dict(each) for each in metrics], checkpoint=checkpoint)

    def failed(self, failures: Sequence[tuple[int, Exception]], described: str) -> None:
        """Notify the callbacks of failed workers.

        Raises:
            ControllerError: a callback raised; the message also describes the failure of the workers.
        """
        try:
            self._notify("after_exception", worker_exceptions=dict(failures))
        except ControllerError as error:
            raise ControllerError(
                error.controller_failure, f"{error.doing}, when it was notified that {described}\nIt raised"
            ) from error.controller_failure

    def end(self, error: BaseException | None) -> None:
        """Notify all callbacks of the end, even if one of them raises.

        Raises:
            ControllerError: a callback raised at the end of a successful run. A failed run keeps its own error.
        """
        raised = None
        for callback in self._user_callbacks:
            try:
                self._call(callback, "after_run", error=error)
            except ControllerError as problem:
                if error is None and raised is None:
                    raised = problem
                else:
                    print(f"skate.train: {problem}", file=sys.stderr, flush=True)
        if raised is not None:
            raise raised from raised.controller_failure

    def _notify(self, hook: str, **what: Any) -> None:
        for callback in self._user_callbacks:
            self._call(callback, hook, **what)

    def _call(self, callback: Any, hook: str, **what: Any) -> None:
        try:
            getattr(callback, hook)(run_context=self.context, **what)
        except Exception as error:  # any error of a user's callback ends the run and names the callback
            doing = f"the callback {type(callback).__name__} raised in {hook}()"
            raise ControllerError(error, doing) from error
