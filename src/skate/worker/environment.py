"""Environment variables that follow from what a worker was given."""

from __future__ import annotations

import os
import sys
from typing import Any

_VISIBLE = "CUDA_VISIBLE_DEVICES"
_THREADS = "OMP_NUM_THREADS"
_before: dict[str, str | None] = {}
_fixed: set[str] = set()


def remember(given: dict[str, str], inherited_threads: bool) -> None:
    """Variables that the user has set are not touched later."""
    _fixed.update(given)
    if inherited_threads:
        _fixed.add(_THREADS)


def apply_lease(lease: dict[str, Any]) -> None:
    """Show the GPUs that a lease holds, and as many threads as it has CPUs, to the libraries of a task."""
    gpus = lease.get("gpus") or ()
    if _VISIBLE not in _before:
        _before[_VISIBLE] = os.environ.get(_VISIBLE)
    if gpus:
        os.environ[_VISIBLE] = ",".join(str(gpu) for gpu in gpus)
    elif _before[_VISIBLE] is None:
        os.environ.pop(_VISIBLE, None)
    else:
        os.environ[_VISIBLE] = _before[_VISIBLE] or ""
    if _THREADS not in _fixed:
        cpus = lease.get("resources", {}).get("CPU", 0) // 10_000
        before, now = os.environ.get(_THREADS), str(max(1, cpus))
        os.environ[_THREADS] = now
        if now != before and "numpy" in sys.modules:
            _tell_numpy(int(now))


def _tell_numpy(threads: int) -> None:
    """Have the linear algebra of numpy, which has read the variable when it was imported, use so many threads."""
    import ctypes  # only where numpy came before the lease

    try:
        with open("/proc/self/maps") as maps:
            places = {line.split(maxsplit=5)[-1].strip() for line in maps if "openblas" in line}
    except OSError:  # not Linux
        return
    for place in places:
        library = ctypes.CDLL(place)
        for name in (
            "scipy_openblas_set_num_threads64_",
            "openblas_set_num_threads64_",
            "openblas_set_num_threads",
        ):
            found = getattr(library, name, None)
            if found is not None:
                found(threads)
                break
