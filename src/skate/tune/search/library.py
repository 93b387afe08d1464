"""Base of searchers that adapt a library; the space is given to them or set when the search begins."""

from __future__ import annotations

from typing import Any

from skate.tune.search.flat_space import Flat, flat_space, has_domains, undefined
from skate.tune.search.searcher import Searcher


class LibrarySearcher(Searcher):
    """Base class; subclasses define `_begin`, which creates the library's optimizer, and `convert_search_space`."""

    #: The library's optimizer; None before there is a space.
    _model: Any = None
    #: The flat space; empty if the space was given in the library's own terms.
    _domains: dict[str, Flat]

    def __init__(self, metric: Any, mode: Any) -> None:
        super().__init__(metric, mode)
        self._domains = {}

    @staticmethod
    def convert_search_space(spec: dict[str, Any]) -> Any:
        """Convert a space of ray.tune to the library's."""
        raise NotImplementedError

    def _begin(self, space: Any) -> None:
        raise NotImplementedError

    def _converted(self, space: Any) -> Any:
        if not has_domains(space):
            return space
        self._domains = flat_space(space, type(self).__name__)
        return self.convert_search_space(space)

    def set_search_properties(self, metric: Any, mode: Any, config: dict[str, Any], **spec: Any) -> bool:
        """Set metric, mode and space; False if the space is already set."""
        if self._model is not None and has_domains(config):
            return False
        if self._model is None:
            self._begin(config)
        self._metric = self._metric or metric or "_metric"
        self._mode = self._mode or mode
        if self._mode is None:
            raise undefined(type(self).__name__, self._metric, self._mode)
        return True
