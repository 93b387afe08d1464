"""Setup of a framework in the workers of a run: a config from the user, and the backend that it names."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from skate.train.controller.group import WorkerGroup


class Backend:
    """Sets up a framework; the methods run in the process that called `fit`."""

    #: True if workers that share a node can see each other's GPUs.
    share_cuda_visible_devices = False
    #: True if the workers are replicas that fail independently; has no effect here.
    has_replica_groups = False

    def on_start(self, worker_group: WorkerGroup, backend_config: Any) -> None:
        """Called once all workers have started and have their ranks."""

    def on_training_start(self, worker_group: WorkerGroup, backend_config: Any) -> None:
        """Called right before the training function starts."""

    def on_shutdown(self, worker_group: WorkerGroup, backend_config: Any) -> None:
        """Called when the training function has succeeded in all workers, before they are stopped."""


class BackendConfig:
    """Settings of a framework. Subclasses name their backend."""

    @property
    def backend_cls(self) -> type[Backend]:
        """The backend class for these settings."""
        return Backend

    @property
    def train_func_context(self) -> Callable[[], contextlib.AbstractContextManager[Any]]:
        """Return a function that creates the context manager entered around the training function, in the worker."""
        return contextlib.nullcontext

    @property
    def framework(self) -> Any:
        """The name of the framework, or None."""
        return None

    def to_dict(self) -> dict[str, Any]:
        """The settings that are safe to display."""
        return {}

    @property
    def preload(self) -> tuple[str, ...]:
        """The modules that every worker needs."""
        return ()
