"""Reports of libraries that train in rounds to their trial."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Mapping
from typing import Any

from skate.train.checkpoint import Checkpoint
from skate.tune.trainable.session import report


class TrialReports:
    """Mixin for callbacks of `ray.train`: their reports go to the trial instead of a run."""

    _filename: str
    _chosen: Callable[[Mapping[str, Any]], dict[str, Any]]

    def _report(self, found: Mapping[str, Any], save: Callable[[str], Any] | None) -> None:
        metrics = self._chosen(found)
        if save is None:
            report(metrics)
            return
        with tempfile.TemporaryDirectory(prefix="checkpoint_") as folder:
            save(os.path.join(folder, self._filename))
            report(metrics, checkpoint=Checkpoint.from_directory(folder))
