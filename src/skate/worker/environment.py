"""Environment variables derived from a worker's lease."""

from __future__ import annotations

import os
import sys

from skate.core.resource.resources import UNIT
from skate.protocol.fields import LeaseFields

_VISIBLE = "CUDA_VISIBLE_DEVICES"
_THREADS = "OMP_NUM_THREADS"
#: The variables that show the libraries of other accelerators which devices to use.
_OF_DEVICES = {
    "TPU": "TPU_VISIBLE_CHIPS",
    "NPU": "ASCEND_RT_VISIBLE_DEVICES",
    "HPU": "HABANA_VISIBLE_MODULES",
    "neuron_cores": "NEURON_RT_VISIBLE_CORES",
    "RBLN": "RBLN_DEVICES",
    "FURIOSA": "FURIOSA_DEVICES",
    "TTNPU": "TT_VISIBLE_DEVICES",
    "MBLT": "QBRUNTIME_VISIBLE_DEVICES",
}
#: The names used in Ray's opt-out variables (RAY_EXPERIMENTAL_NOSET_...) where they differ from the names above.
_LEFT_ALONE = {
    "RBLN": "RBLN_RT_VISIBLE_DEVICES",
    "TTNPU": "TENSTORRENT_VISIBLE_DEVICES",
    "MBLT": "MBLT_RT_VISIBLE_DEVICES",
}
#: The chip layout on a TPU host for one process, by how many of the four chips it uses.
_TPU_BOUNDS = {1: "1,1,1", 2: "1,2,1"}
_before: dict[str, str | None] = {}
_shown: set[str] = set()
_fixed: set[str] = set()


def remember(given: dict[str, str], inherited_threads: bool) -> None:
    """Record the variables that the user has set, which leases must not change."""
    _fixed.update(given)
    if inherited_threads:
        _fixed.add(_THREADS)


def apply_lease(lease: LeaseFields) -> None:
    """Set the variables that show libraries the lease's GPUs, and limit their threads to the lease's CPUs."""
    wanted = of_devices(lease)
    for name in [*wanted, *(_shown - wanted.keys())]:
        _set(name, wanted.get(name))
    _shown.update(wanted)
    if _THREADS not in _fixed:
        cpus = lease.get("resources", {}).get("CPU", 0) // UNIT
        before, now = os.environ.get(_THREADS), str(max(1, cpus))
        os.environ[_THREADS] = now
        if now != before and "numpy" in sys.modules:
            _limit_numpy_threads(int(now))


def of_devices(lease: LeaseFields) -> dict[str, str]:
    """Return the environment variables that name the devices of a lease."""
    found: dict[str, str] = {}
    gpus = lease.get("gpus")
    if gpus and not _is_left_alone(_VISIBLE):
        found[_VISIBLE] = ",".join(map(str, gpus))
    for name, numbers in (lease.get("devices") or {}).items():
        variable = _OF_DEVICES[name]
        if not numbers or _is_left_alone(_LEFT_ALONE.get(name, variable)):
            continue
        prefix = "npu:" if name == "FURIOSA" else ""
        found[variable] = ",".join(f"{prefix}{number}" for number in numbers)
        if name == "TPU" and len(numbers) in _TPU_BOUNDS:
            found["TPU_CHIPS_PER_HOST_BOUNDS"] = _TPU_BOUNDS[len(numbers)]
            found["TPU_HOST_BOUNDS"] = "1,1,1"
    return found


def _is_left_alone(variable: str) -> bool:
    return os.environ.get(f"RAY_EXPERIMENTAL_NOSET_{variable}", "").lower() in ("1", "true")


def _set(name: str, value: str | None) -> None:
    """Set a variable, or restore the value that it had before the first lease."""
    before = _before.setdefault(name, os.environ.get(name))
    if value is None:
        value = before
    if value is None:
        os.environ.pop(name, None)
    else:
        os.environ[name] = value


def _limit_numpy_threads(threads: int) -> None:
    """Set the thread count of numpy's BLAS, which reads the variable only at import."""
    import ctypes  # only if numpy was imported before the lease

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
