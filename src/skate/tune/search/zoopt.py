"""ZOOpt is refused: the package has had no release since 2021 and does not run with current versions of its dependencies."""

from __future__ import annotations

from typing import Any

from skate.tune.search.searcher import Searcher


class ZOOptSearch(Searcher):
    """Refused.

    Raises:
        NotImplementedError: always.
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        raise NotImplementedError(
            "ZOOptSearch is not there: the zoopt package has had no release since 2021; use OptunaSearch, or NevergradSearch for "
            "derivative-free optimizers"
        )
