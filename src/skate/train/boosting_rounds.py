"""Reports of libraries that train in boosting rounds."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Mapping
from typing import Any

from skate.train.checkpoint import Checkpoint
from skate.train.worker.report import report
from skate.train.worker.train_context import get_context


class RoundReports:
    """Selects the metrics of a round to report, and the rounds that report the model.

    Args:
        metrics: names such as "train-error"; a dict renames them (new name: name); None for all.
        filename: the model's file in checkpoints.
        frequency: the number of rounds between checkpoints, 0 for none during training.
        checkpoint_at_end: True to report the final model as a checkpoint.
        results_postprocessing_fn: converts the metrics before they are reported.

    Raises:
        TypeError: metrics have another type.
    """

    CHECKPOINT_NAME = "model"

    def __init__(
        self,
        metrics: str | list[str] | dict[str, str] | None = None,
        filename: str | None = None,
        frequency: int = 0,
        checkpoint_at_end: bool = True,
        results_postprocessing_fn: Callable[[dict[str, Any]], dict[str, Any]] | None = None,
    ) -> None:
        super().__init__()
        if metrics is not None and not isinstance(metrics, (str, list, tuple, dict)):
            raise TypeError(
                f"metrics must be a name, a list of names, or a dict of new names to names, got {metrics!r}"
            )
        self._metrics = {metrics: metrics} if isinstance(metrics, str) else metrics
        self._filename = filename or self.CHECKPOINT_NAME
        self._frequency = frequency
        self._checkpoint_at_end = checkpoint_at_end
        self._postprocess = results_postprocessing_fn

    def _chosen(self, found: Mapping[str, Any]) -> dict[str, Any]:
        if not self._metrics:
            chosen = dict(found)
        else:
            wanted = self._metrics
            names = wanted if isinstance(wanted, dict) else {name: name for name in wanted}
            lost = [name for name in names.values() if name not in found]
            if lost:
                found_names = ", ".join(found) or "none; give the training evaluation sets"
                raise KeyError(
                    f"there is no metric {', '.join(map(repr, lost))}; the metrics are: {found_names}"
                )
            chosen = {new: found[name] for new, name in names.items()}
        return self._postprocess(chosen) if self._postprocess is not None else chosen

    def _due(self, number: int) -> bool:
        """True if the model is saved after round `number`, counted from 0."""
        return self._frequency > 0 and (number + 1) % self._frequency == 0

    def _report(self, found: Mapping[str, Any], save: Callable[[str], Any] | None) -> None:
        """Report metrics and the model, which `save` writes to a path; all ranks have the same model, and
        rank 0 saves it."""
        metrics = self._chosen(found)
        if save is None or get_context().get_world_rank() != 0:
            report(metrics)
            return
        with tempfile.TemporaryDirectory(prefix="checkpoint_") as folder:
            save(os.path.join(folder, self._filename))
            report(metrics, checkpoint=Checkpoint.from_directory(folder))


def reject_removed_arguments(trainer: str, library: str, given: Mapping[str, Any]) -> None:
    """Raise for keywords of the older trainers, which called the library themselves.

    Raises:
        DeprecationWarning: one was given; the message names the replacement.
    """
    named = [name for name, value in given.items() if value is not None]
    if named:
        raise DeprecationWarning(
            f"{trainer}({named[0]}=...) has been removed: pass as train_loop_per_worker a function that calls "
            f"{library}.train itself, with ray.train.get_dataset_shard for its data and RayTrainReportCallback for its reports"
        )
