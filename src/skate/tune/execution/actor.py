"""The process of a trial: creates the trainable, runs its steps on request, and saves it."""

from __future__ import annotations

import contextlib
import inspect
import logging
import os
import sys
import tempfile
from typing import Any

import skate.util.nodes  # noqa: F401  for the first result; the process that forks trials loads this module once for all
from skate.tune import registry
from skate.tune.experiment import trial_folder  # noqa: F401  likewise, for the specification of a trial
from skate.tune.trainable import session
from skate.tune.trainable.function import FunctionTrainable, class_of
from skate.tune.trainable.session import TrialSpec


class TrialActor:
    """One process, which runs one trial at a time."""

    def __init__(self, trainable: Any, spec: TrialSpec) -> None:
        self._class: Any = trainable
        if not inspect.isclass(trainable):
            self._class = class_of(trainable)
        self._first = os.environ.setdefault("TUNE_ORIG_WORKING_DIR", os.getcwd())
        self._files: list[Any] = []
        self._begin(spec)
        session.begin(spec)
        self._trainable: Any = self._class(spec.config)
        session.begin(spec, self._trainable)
        self._go_on(spec)

    def __repr__(self) -> str:
        spec = session.spec()
        return spec.trial_name if spec else "TrialActor"

    def _begin(self, spec: TrialSpec) -> None:
        self._next_checkpoint = spec.next_checkpoint
        for name, creator in spec.environments.items():
            registry.register_env(name, creator)
        if os.environ.get("RAY_CHDIR_TO_TRIAL_DIR", "1") != "0" and spec.folder.local:
            try:
                os.chdir(spec.folder.path)
            except FileNotFoundError:  # no logger has created it
                os.makedirs(spec.folder.path, exist_ok=True)
                os.chdir(spec.folder.path)
        self._close_files()
        log = spec.log_to_file
        if log and spec.folder.local:
            both = ("stdout", "stderr") if log is True else (log, log) if isinstance(log, str) else tuple(log)
            self._files = [open(spec.folder.at(name), "a", buffering=1) for name in both]  # noqa: SIM115 - as long as the trial
            self._streams = (sys.stdout, sys.stderr)
            sys.stdout, sys.stderr = (_Tee(*pair) for pair in zip(self._streams, self._files, strict=True))
            self._handler = _log_into(self._files[1])

    def _close_files(self) -> None:
        if self._files:
            sys.stdout, sys.stderr = self._streams
            logging.getLogger("ray").removeHandler(self._handler)
            for file in self._files:
                file.close()
            self._files = []

    def _go_on(self, spec: TrialSpec) -> None:
        if spec.checkpoint is not None and not isinstance(self._trainable, FunctionTrainable):
            self._trainable.restore(spec.checkpoint)

    def advance(self) -> dict[str, Any]:
        """Run one step; return its result, without the configuration, which the caller knows."""
        trainable = self._trainable
        result: dict[str, Any] = trainable.train()
        result.pop("config", None)
        if isinstance(trainable, FunctionTrainable):
            if trainable.over:
                result["__over__"] = True
                self._close_files()  # nothing follows: the process ends or takes another trial
            return result
        spec = trainable._spec()
        frequency = spec.checkpoint_frequency if spec else 0
        if frequency and trainable.iteration % frequency == 0:
            result["__saved__"] = self.save()
        return result

    def save(self) -> str | None:
        """Save a class trainable to the storage's staging folder; return the checkpoint's name. None for a function."""
        trainable = self._trainable
        spec = trainable._spec()
        assert spec is not None
        if isinstance(trainable, FunctionTrainable):
            return None
        name = f"checkpoint_{self._next_checkpoint:06d}"
        with tempfile.TemporaryDirectory(prefix="checkpoint_") as folder:
            spec.folder.upload(trainable.save(folder), name)
        self._next_checkpoint += 1
        trainable.latest_checkpoint = spec.folder.checkpoint(name)
        return name

    def restart(self, spec: TrialSpec) -> dict[str, Any] | None:
        """Switch to another trial and run its first step; None if the trainable cannot be reset."""
        session.begin(spec, self._trainable)
        self._begin(spec)
        if not self._trainable.reset(spec.config):
            return None
        self._go_on(spec)
        return self.advance()

    def end(self) -> None:
        """Stop the trial: run the trainable's cleanup and close files."""
        with contextlib.suppress(Exception):  # the trial ends regardless of errors in the user's cleanup
            self._trainable.stop()
        self._close_files()


def _log_into(file: Any) -> logging.Handler:
    """Write what the logger `ray` logs, from INFO on, to a file as well."""
    logger = logging.getLogger("ray")
    if logger.level == logging.NOTSET:
        logger.setLevel(logging.INFO)
    handler = logging.StreamHandler(file)
    handler.setFormatter(
        logging.Formatter("%(asctime)s\t%(levelname)s %(filename)s:%(lineno)d -- %(message)s")
    )
    logger.addHandler(handler)
    return handler


class _Tee:
    """Writes to a stream and to a file."""

    def __init__(self, stream: Any, file: Any) -> None:
        self._stream, self._file = stream, file

    def write(self, text: str) -> int:
        if not self._file.closed:
            self._file.write(text)
        return int(self._stream.write(text))

    def flush(self) -> None:
        if not self._file.closed:
            self._file.flush()
        self._stream.flush()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)
