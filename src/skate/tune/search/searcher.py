"""The interface of searchers: suggest a configuration, then receive its result."""

from __future__ import annotations

import glob
import inspect
import os
import pickle
from typing import Any

from skate import lazy_loader
from skate.tune.configs import checked_mode


def pass_properties(
    searcher: Any, metric: Any, mode: Any, config: dict[str, Any], spec: dict[str, Any]
) -> bool:
    """Pass metric, mode and space to a searcher; one written for older versions gets only the arguments it accepts."""
    taken = inspect.signature(searcher.set_search_properties).parameters.values()
    if not any(each.kind is each.VAR_KEYWORD for each in taken):
        spec = {}
    return bool(searcher.set_search_properties(metric, mode, config, **spec))


class SearcherArgumentError(ValueError, AssertionError):
    """An argument of a searcher is invalid."""


class Searcher:
    """Suggests configurations.

    Args:
        metric: the reported metric to optimize, or a list of them.
        mode: "min" or "max", or a list with one for each metric.

    Raises:
        SearcherArgumentError: the mode is invalid, or the lists differ in length.
    """

    FINISHED = "FINISHED"
    CKPT_FILE_TMPL = "searcher-state-{}.pkl"

    def __init__(self, metric: Any = None, mode: Any = None) -> None:
        try:
            checked_mode(mode, several=True)
        except ValueError as error:
            raise SearcherArgumentError(str(error)) from None
        if (
            isinstance(metric, (list, tuple)) != isinstance(mode, (list, tuple))
            and metric is not None
            and mode is not None
        ):
            raise SearcherArgumentError(
                f"metric and mode must be of the same type, both single or both a list, got metric={metric!r}, mode={mode!r}"
            )
        if isinstance(metric, (list, tuple)) and isinstance(mode, (list, tuple)) and len(metric) != len(mode):
            raise SearcherArgumentError(
                f"Metric and mode must be the same length, got {len(metric)} metrics and {len(mode)} modes"
            )
        self._metric, self._mode = metric, mode

    @property
    def metric(self) -> Any:
        """The metric or metrics."""
        return self._metric

    @property
    def mode(self) -> Any:
        """The mode or modes."""
        return self._mode

    def set_search_properties(self, metric: Any, mode: Any, config: dict[str, Any], **spec: Any) -> bool:
        """Set metric, mode and space from the search; False if they are already set."""
        return False

    def suggest(self, trial_id: str) -> dict[str, Any] | str | None:
        """Return the configuration of a new trial; None if there is none now, FINISHED if there will be none."""
        raise NotImplementedError

    def on_trial_result(self, trial_id: str, result: dict[str, Any]) -> None:
        """Called with each result of a trial."""

    def on_trial_complete(
        self, trial_id: str, result: dict[str, Any] | None = None, error: bool = False
    ) -> None:
        """Called when a trial has ended."""
        raise NotImplementedError

    def on_pause(self, trial_id: str) -> None:
        """Called when a trial is paused."""

    def on_unpause(self, trial_id: str) -> None:
        """Called when a paused trial resumes."""

    def add_evaluated_point(
        self,
        parameters: dict[str, Any],
        value: float,
        error: bool = False,
        pruned: bool = False,
        intermediate_values: list[float] | None = None,
    ) -> None:
        """Learn from a point that was evaluated elsewhere."""
        raise NotImplementedError(
            f"{type(self).__name__} cannot learn from points that were evaluated elsewhere"
        )

    def add_evaluated_trials(self, trials_or_analysis: Any, metric: str) -> None:
        """Learn from the finished trials of another search."""
        trials = getattr(trials_or_analysis, "trials", trials_or_analysis)
        for trial in trials if isinstance(trials, (list, tuple)) else [trials]:
            history = trial.histories.by_name.get(metric)
            if trial.status == "TERMINATED" and history is not None:
                self.add_evaluated_point(trial.config, history.last)
            elif trial.status == "ERROR":
                self.add_evaluated_point(trial.config, float("nan"), error=True)

    def set_max_concurrency(self, max_concurrent: int) -> bool:
        """Limit the number of concurrent trials; False if the searcher cannot do so itself."""
        return False

    # -- save and restore

    def get_state(self) -> dict[str, Any]:
        """The state to save."""
        return self.__dict__.copy()

    def set_state(self, state: dict[str, Any]) -> None:
        """Restore a saved state."""
        self.__dict__.update(state)

    def save(self, checkpoint_path: str) -> None:
        """Save the state to a file."""
        from skate import cloudpickle  # states may hold functions of the user's program

        with open(checkpoint_path, "wb") as file:
            file.write(cloudpickle.dumps(self.get_state()))

    def restore(self, checkpoint_path: str) -> None:
        """Load the state from a file."""
        with open(checkpoint_path, "rb") as file:
            self.set_state(pickle.load(file))

    def save_to_dir(self, checkpoint_dir: str, session_str: str = "default") -> None:
        """Save the state to a folder."""
        path = os.path.join(checkpoint_dir, self.CKPT_FILE_TMPL.format(session_str))
        self.save(path + ".writing")
        os.replace(path + ".writing", path)

    def restore_from_dir(self, checkpoint_dir: str) -> None:
        """Load the newest state from a folder.

        Raises:
            RuntimeError: there is none.
        """
        found = sorted(
            glob.glob(os.path.join(checkpoint_dir, self.CKPT_FILE_TMPL.format("*"))), key=os.path.getmtime
        )
        if not found:
            raise RuntimeError(f"no saved searcher in {checkpoint_dir!r}")
        self.restore(found[-1])


# It inherits from the class above.
__getattr__ = lazy_loader.getter(
    globals(), {"skate.tune.search.concurrency_limiter": ("ConcurrencyLimiter",)}
)
