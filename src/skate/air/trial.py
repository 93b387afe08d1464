"""A trial as loggers see it: one of a search of Tune, or a run of Train."""

from __future__ import annotations

from typing import Any, Protocol


class LoggableTrial(Protocol):
    """A trial with a name, which is its text."""

    @property
    def trial_id(self) -> str:
        """Unique within its search, and the same when the search is resumed."""

    @property
    def config(self) -> dict[str, Any]:
        """The settings."""

    @property
    def local_path(self) -> str | None:
        """The folder on this machine for its files; None if there is none."""

    @property
    def checkpoint(self) -> Any:
        """The last checkpoint, or None."""

    @property
    def evaluated_params(self) -> dict[str, Any]:
        """The settings that were drawn, by name."""

    @property
    def experiment_dir_name(self) -> str | None:
        """The name of the folder of its search or run."""

    @property
    def path(self) -> str | None:
        """The folder of its results, which may be on another machine."""
