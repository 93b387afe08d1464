"""HEBO is not supported: its last release, 0.3.6, requires numpy below 1.25 and GPy, incompatible with everything
else here.
"""

from __future__ import annotations

from typing import Any

from skate.tune.search.searcher import Searcher


class HEBOSearch(Searcher):
    """Rejected.

    Raises:
        NotImplementedError: always.
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        raise NotImplementedError(
            "HEBOSearch is not supported: the HEBO package pins versions that conflict with the others "
            "(0.3.6 requires numpy below 1.25, and GPy); use "
            "OptunaSearch(sampler=optuna.samplers.GPSampler()) for a Gaussian process"
        )
