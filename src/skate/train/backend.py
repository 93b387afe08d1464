"""How a framework is set up in the workers of a run: a config that users give, and the backend that it names."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from skate.train.controller.group import WorkerGroup


class Backend:
    """Sets a framework up; the methods run in the process that called `fit`."""

    #: Whether workers that share a node may use each other's GPUs.
    share_cuda_visible_devices = False
    #: Whether the workers are replicas that fail one by one; without effect here.
    has_replica_groups = False

    def on_start(self, worker_group: WorkerGroup, backend_config: Any) -> None:
        """Called once all workers are there and know their ranks."""

    def on_training_start(self, worker_group: WorkerGroup, backend_config: Any) -> None:
        """Called right before the training function starts."""

    def on_shutdown(self, worker_group: WorkerGroup, backend_config: Any) -> None:
        """Called when the training function has ended well everywhere, before the workers go."""


class BackendConfig:
    """Settings of a framework. Subclasses name their backend."""

    @property
    def backend_cls(self) -> type[Backend]:
        """The backend that these settings are for."""
        return Backend

    @property
    def train_func_context(self) -> Callable[[], contextlib.AbstractContextManager[Any]]:
        """Return a function that creates the context manager entered around the training function, in the worker."""
        return contextlib.nullcontext

    @property
    def framework(self) -> Any:
        """The name of the framework, None if there is none."""
        return None

    def to_dict(self) -> dict[str, Any]:
        """The settings that may be shown."""
        return {}

    @property
    def preload(self) -> tuple[str, ...]:
        """Modules that workers need in any case."""
        return ()
