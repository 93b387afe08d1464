"""Operations over all rows of data several times larger than the object store: unused blocks are on disk.

The sizes are small; `benchmarks/data/memory.py` does the same with 4 GB and a budget of 1 GB.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest

STORE_MB = 80
DATA_MB = 256
#: Beside the store: a driver and workers that have their libraries loaded, and a few partitions being worked on.
PROCESSES_MB = 420

pytestmark = pytest.mark.skipif(not os.path.exists("/proc/self/smaps_rollup"), reason="reads /proc")


@pytest.mark.parametrize("operation", ["shuffle", "sort", "groupby", "join"])
def test_memory_stays_within_the_budget(operation: str) -> None:
    words = [sys.executable, "-m", "benchmarks.data.memory", operation, "--here"]
    sizes = ["--gigabytes", str(DATA_MB / 1024), "--budget", str(2 * STORE_MB / 1024)]
    done = subprocess.run([*words, *sizes], capture_output=True, text=True, timeout=110)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout.splitlines()[-1])
    assert found["rows"] >= DATA_MB * 2**20 // 100 // 2
    assert found["shmem_mb"] <= 1.2 * STORE_MB
    assert found["driver_mb"] < 150
    assert found["peak_mb"] < STORE_MB + PROCESSES_MB
