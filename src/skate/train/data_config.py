"""Distribution of datasets to the workers of a run."""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from typing import Any


class DataConfig:
    """Selects the datasets to split among the workers; each worker gets the others whole.

    Args:
        datasets_to_split: "all", or the keys of the datasets to split.
        execution_options: `ExecutionOptions`, or a dict of them by key.
        enable_shard_locality: True to prefer blocks on the worker's node.
    """

    def __init__(
        self,
        datasets_to_split: str | Sequence[str] = "all",
        execution_options: Any = None,
        enable_shard_locality: bool = True,
    ) -> None:
        named = isinstance(datasets_to_split, (list, tuple))
        if not named and datasets_to_split != "all":
            raise TypeError(
                "`datasets_to_split` should be a 'all' or a list of strings of dataset names. Received "
                f"{type(datasets_to_split).__name__} with value {datasets_to_split!r}"
            )
        self._datasets_to_split = datasets_to_split
        self._execution_options = execution_options
        self._enable_shard_locality = enable_shard_locality
        #: CPUs held by the workers of the run, for which dataset runs then do not wait.
        self._taken_cpus = 0.0

    def configure(
        self,
        datasets: Mapping[str, Any],
        world_size: int,
        worker_handles: Sequence[Any] | None,
        worker_node_ids: Sequence[str] | None,
        **kwargs: Any,
    ) -> list[dict[str, Any]]:
        """Return each worker's data by key, in rank order. Subclasses may split differently."""
        found: list[dict[str, Any]] = [{} for _ in range(world_size)]
        for name, dataset in datasets.items():
            given = dataset() if callable(dataset) else dataset
            if given.name is None:
                given.set_name(name)
            given = self._with_options(given, name)
            if self._datasets_to_split == "all" or name in self._datasets_to_split:
                hints = list(worker_node_ids) if self._enable_shard_locality and worker_node_ids else None
                for shard, part in zip(
                    found, given.streaming_split(world_size, equal=True, locality_hints=hints), strict=False
                ):
                    shard[name] = part
            else:
                for shard in found:
                    shard[name] = given.iterator()
        return found

    def _with_options(self, dataset: Any, name: str) -> Any:
        options = self._execution_options
        if isinstance(options, dict):
            options = options.get(name)
        options = copy.deepcopy(options) if options else self.default_ingest_options()
        copied = dataset.copy(dataset, _deep_copy=True)
        if self._taken_cpus and options.is_resource_limits_default():
            options._held_cpus = self._taken_cpus
        copied.context.execution_options = options
        return copied

    @staticmethod
    def default_ingest_options() -> Any:
        """Return the execution options of datasets without their own: limits, order and progress as in `DataContext`."""
        from skate.data import DataContext, ExecutionOptions  # runs without datasets never load it

        current = copy.deepcopy(DataContext.get_current().execution_options)
        names = ("resource_limits", "exclude_resources", "preserve_order", "verbose_progress")
        return ExecutionOptions(**{name: getattr(current, name) for name in names})
