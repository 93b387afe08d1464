"""A searcher that waits for results before it suggests more."""

from __future__ import annotations

from typing import Any

from skate.tune.search.searcher import Searcher, SearcherArgumentError, pass_properties


class NoSearcherError(TypeError, RuntimeError):
    """An object that is not a Searcher is in the place of one."""


class ConcurrencyLimiter(Searcher):
    """Limits the concurrent trials of a searcher to `max_concurrent`.

    Args:
        searcher: the searcher.
        max_concurrent: the most trials at a time.
        batch: pass results to the searcher, and ask for more, only once all trials of a batch have ended.

    Raises:
        NoSearcherError: it is not a searcher.
        SearcherArgumentError: `max_concurrent` is not at least 1.
    """

    def __init__(self, searcher: Any, max_concurrent: int, batch: bool = False) -> None:
        if isinstance(max_concurrent, bool) or not isinstance(max_concurrent, int) or max_concurrent < 1:
            raise SearcherArgumentError(f"max_concurrent must be at least 1, got {max_concurrent!r}")
        if not isinstance(searcher, Searcher):
            hint = "; it has its own max_concurrent" if hasattr(searcher, "max_concurrent") else ""
            raise NoSearcherError(
                f"The `ConcurrencyLimiter` only works with `Searcher` objects: it takes a Searcher, not "
                f"{type(searcher).__name__}{hint}"
            )
        super().__init__(searcher.metric, searcher.mode)
        self.searcher = searcher
        self.max_concurrent = max_concurrent
        self.batch = batch
        self.live_trials: set[str] = set()
        self.num_unfinished_live_trials = 0
        self.cached_results: dict[str, tuple[dict[str, Any] | None, bool]] = {}
        self._limit_concurrency = not searcher.set_max_concurrency(max_concurrent)

    def set_max_concurrency(self, max_concurrent: int) -> bool:
        """Return False: the limit is fixed."""
        return False

    def set_search_properties(self, metric: Any, mode: Any, config: dict[str, Any], **spec: Any) -> bool:
        """Pass metric, mode and space to the searcher."""
        taken = pass_properties(self.searcher, metric, mode, config, spec)
        self._metric, self._mode = self.searcher.metric, self.searcher.mode
        return taken

    def suggest(self, trial_id: str) -> dict[str, Any] | str | None:
        """Return the searcher's suggestion, None while enough trials run."""
        if self._limit_concurrency and len(self.live_trials) >= self.max_concurrent:
            return None
        found = self.searcher.suggest(trial_id)
        if found not in (None, Searcher.FINISHED):
            self.live_trials.add(trial_id)
            self.num_unfinished_live_trials += 1
        return found

    def on_trial_result(self, trial_id: str, result: dict[str, Any]) -> None:
        """Pass a result to the searcher."""
        self.searcher.on_trial_result(trial_id, result)

    def on_trial_complete(
        self, trial_id: str, result: dict[str, Any] | None = None, error: bool = False
    ) -> None:
        """Pass the end of a trial to the searcher; with `batch`, once all of the batch have ended."""
        if trial_id not in self.live_trials:
            return
        if not self.batch:
            self.searcher.on_trial_complete(trial_id, result=result, error=error)
            self.live_trials.remove(trial_id)
            self.num_unfinished_live_trials -= 1
            return
        self.cached_results[trial_id] = (result, error)
        self.num_unfinished_live_trials -= 1
        if self.num_unfinished_live_trials <= 0:
            for each, (kept, failed) in self.cached_results.items():
                self.searcher.on_trial_complete(each, result=kept, error=failed)
                self.live_trials.discard(each)
            self.cached_results = {}
            self.num_unfinished_live_trials = 0

    def add_evaluated_point(
        self,
        parameters: dict[str, Any],
        value: float,
        error: bool = False,
        pruned: bool = False,
        intermediate_values: list[float] | None = None,
    ) -> None:
        """Pass an evaluated point to the searcher."""
        return self.searcher.add_evaluated_point(parameters, value, error, pruned, intermediate_values)

    def on_pause(self, trial_id: str) -> None:
        """Pass the pause of a trial to the searcher."""
        self.searcher.on_pause(trial_id)

    def on_unpause(self, trial_id: str) -> None:
        """Pass the resumption of a trial to the searcher."""
        self.searcher.on_unpause(trial_id)

    def get_state(self) -> dict[str, Any]:
        """Return everything but the searcher, which has its own state."""
        found = self.__dict__.copy()
        del found["searcher"]
        return {"limiter": found, "searcher": self.searcher.get_state()}

    def set_state(self, state: dict[str, Any]) -> None:
        """Restore a saved state."""
        self.__dict__.update(state["limiter"])
        self.searcher.set_state(state["searcher"])
