"""Environment variables that follow from what a worker was given."""

from __future__ import annotations

import os
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
        os.environ[_THREADS] = str(max(1, cpus))
