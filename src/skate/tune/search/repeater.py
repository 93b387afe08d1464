"""A searcher that tries each suggestion several times."""

from __future__ import annotations

from typing import Any

from skate.tune.search.searcher import Searcher, pass_properties

TRIAL_INDEX = "__trial_index__"


class Repeater(Searcher):
    """Tries each suggestion `repeat` times and passes the mean to the searcher.

    Args:
        searcher: the searcher.
        repeat: the number of trials per suggestion.
        set_index: add the number of the repetition to the configuration, as "__trial_index__".

    Raises:
        TypeError: it is not a searcher, or it is a ConcurrencyLimiter (wrap the Repeater in it instead).
        ValueError: `repeat` is not at least 1.
    """

    def __init__(self, searcher: Searcher, repeat: int = 1, set_index: bool = True) -> None:
        if not isinstance(searcher, Searcher):
            raise TypeError(f"Repeater takes a Searcher, not {type(searcher).__name__}")
        if type(searcher).__name__ == "ConcurrencyLimiter":
            raise TypeError(
                "a ConcurrencyLimiter inside a Repeater would wait for itself; use ConcurrencyLimiter(Repeater(...))"
            )
        if isinstance(repeat, bool) or not isinstance(repeat, int) or repeat < 1:
            raise ValueError(f"repeat must be at least 1, got {repeat!r}")
        super().__init__(searcher.metric, searcher.mode)
        self.searcher = searcher
        self.repeat = repeat
        self._set_index = set_index
        self._group: _Group | None = None
        self._group_of: dict[str, _Group] = {}

    def suggest(self, trial_id: str) -> dict[str, Any] | str | None:
        """Return the next repetition, of a new suggestion if the last one is complete."""
        if self._group is None or self._group.full:
            found = self.searcher.suggest(trial_id)
            if found is None or isinstance(found, str):
                return found
            self._group = _Group(trial_id, found, self.repeat)
        group = self._group
        index = group.add(trial_id)
        self._group_of[trial_id] = group
        config = dict(group.config)
        if self._set_index:
            config[TRIAL_INDEX] = index
        return config

    def on_trial_complete(
        self, trial_id: str, result: dict[str, Any] | None = None, error: bool = False, **kwargs: Any
    ) -> None:
        """Record the end of a repetition; after the last one, pass the mean to the searcher."""
        group = self._group_of.get(trial_id)
        if group is None:
            return
        value = (result or {}).get(self.searcher.metric) if not error else None
        group.scores[trial_id] = value
        if not group.complete:
            return
        scores = [each for each in group.scores.values() if each is not None]
        mean = sum(scores) / len(scores) if scores else None
        merged = None if mean is None else {**(result or {}), self.searcher.metric: mean}
        self.searcher.on_trial_complete(group.primary, result=merged, error=mean is None)
        for each in group.scores:
            self._group_of.pop(each, None)

    def set_search_properties(self, metric: Any, mode: Any, config: dict[str, Any], **spec: Any) -> bool:
        """Pass metric, mode and space to the searcher."""
        taken = pass_properties(self.searcher, metric, mode, config, spec)
        self._metric, self._mode = self.searcher.metric, self.searcher.mode
        return taken

    def get_state(self) -> dict[str, Any]:
        """Return everything but the searcher, which has its own state."""
        found = self.__dict__.copy()
        del found["searcher"]
        return {"repeater": found, "searcher": self.searcher.get_state()}

    def set_state(self, state: dict[str, Any]) -> None:
        """Restore a saved state."""
        self.__dict__.update(state["repeater"])
        self.searcher.set_state(state["searcher"])


class _Group:
    """The repetitions of one suggestion."""

    def __init__(self, primary: str, config: dict[str, Any], size: int) -> None:
        self.primary, self.config, self.size = primary, config, size
        self.members: list[str] = []
        self.scores: dict[str, float | None] = {}

    def add(self, trial_id: str) -> int:
        self.members.append(trial_id)
        return len(self.members) - 1

    @property
    def full(self) -> bool:
        return len(self.members) >= self.size

    @property
    def complete(self) -> bool:
        return self.full and len(self.scores) == self.size
