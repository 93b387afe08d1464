"""The settings that an environment is made with, and the place where it runs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


class EnvContext(dict[str, Any]):
    """A dict of settings for one environment that also says where the environment runs.

    Args:
        env_config: Settings from ``config.environment(env_config=...)``.
        worker_index: Index of the runner: 0 is the local one, remote ones count from 1.
        vector_index: Index of the environment among those of its runner.
        remote: True if the environment has a process of its own.
        num_workers: Number of remote runners; None if unknown.
        recreated_worker: True if the runner replaces one that died.
    """

    def __init__(
        self,
        env_config: Mapping[str, Any] | None,
        worker_index: int,
        vector_index: int = 0,
        remote: bool = False,
        num_workers: int | None = None,
        recreated_worker: bool = False,
    ) -> None:
        super().__init__(env_config or {})
        self.worker_index = worker_index
        self.vector_index = vector_index
        self.remote = remote
        self.num_workers = num_workers
        self.recreated_worker = recreated_worker

    def copy_with_overrides(
        self,
        env_config: Mapping[str, Any] | None = None,
        worker_index: int | None = None,
        vector_index: int | None = None,
        remote: bool | None = None,
        num_workers: int | None = None,
        recreated_worker: bool | None = None,
    ) -> EnvContext:
        """Return a copy in which the given values replace this context's own."""
        return EnvContext(
            dict(self) if env_config is None else env_config,
            self.worker_index if worker_index is None else worker_index,
            self.vector_index if vector_index is None else vector_index,
            self.remote if remote is None else remote,
            self.num_workers if num_workers is None else num_workers,
            self.recreated_worker if recreated_worker is None else recreated_worker,
        )

    def set_defaults(self, defaults: Mapping[str, Any]) -> None:
        """Add the settings that this context lacks."""
        for key, value in defaults.items():
            self.setdefault(key, value)

    def __str__(self) -> str:
        return f"{super().__str__()} (runner {self.worker_index} of {self.num_workers}, lane {self.vector_index})"
