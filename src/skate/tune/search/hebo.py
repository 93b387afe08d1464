"""HEBO is refused: the package pins versions of numpy and pandas that nothing else here runs with."""

from __future__ import annotations

from typing import Any

from skate.tune.search.searcher import Searcher


class HEBOSearch(Searcher):
    """Refused.

    Raises:
        NotImplementedError: always.
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        raise NotImplementedError(
            "HEBOSearch is not there: the HEBO package pins versions of numpy and pandas that do not go with the others; use "
            "OptunaSearch(sampler=optuna.samplers.GPSampler()) for a Gaussian process"
        )
