"""HEBO is not supported: its last release, 0.3.6, requires numpy below 1.25 and GPy, incompatible with everything
else here.
"""

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
            "HEBOSearch is not there: the HEBO package pins versions that do not go with the others (0.3.6 asks "
            "for numpy below "
            "1.25, and for GPy); use OptunaSearch(sampler=optuna.samplers.GPSampler()) for a Gaussian process"
        )
