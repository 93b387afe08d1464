"""Iteration over results as they become ready, under the module name of Ray's documentation."""

from __future__ import annotations

from skate.util.iterators.iteration import as_completed, map_unordered

DEFAULT_CHUNK_SIZE = 10
DEFAULT_BACKPRESSURE_SIZE = 100

__all__ = ["DEFAULT_BACKPRESSURE_SIZE", "DEFAULT_CHUNK_SIZE", "as_completed", "map_unordered"]
