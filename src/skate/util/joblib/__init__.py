"""Let joblib's Parallel, and so scikit-learn, run on actors.

from skate.util.joblib import register_ray

register_ray()
with joblib.parallel_backend("ray"):
    search.fit(X, y)
"""

from __future__ import annotations


def register_ray() -> None:
    """Make the backend "ray" known to joblib.

    Raises:
        ImportError: joblib is not installed.
    """
    # Optional dependency.
    try:
        from joblib.parallel import register_parallel_backend
    except ImportError:
        raise ImportError('the joblib backend "ray" needs joblib: pip install joblib') from None
    # It subclasses what only joblib has.
    from skate.util.joblib.backend import RayBackend

    register_parallel_backend("ray", RayBackend)


__all__ = ["register_ray"]
