"""Let joblib's Parallel, and so scikit-learn, run on actors.

from skate.util.joblib import register_ray

register_ray()
with joblib.parallel_backend("ray"):
    search.fit(X, y)
"""

from __future__ import annotations

from skate.installed import require


def register_ray() -> None:
    """Register the backend "ray" with joblib.

    Raises: ImportError: joblib is not installed.
    """
    parallel = require("joblib.parallel", 'the joblib backend "ray"')
    # It subclasses what only joblib has.
    from skate.util.joblib.backend import RayBackend

    parallel.register_parallel_backend("ray", RayBackend)


__all__ = ["register_ray"]
