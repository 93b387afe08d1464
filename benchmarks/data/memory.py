"""Memory of operations over all rows of data that is several times the budget.

    python -m benchmarks.data.memory [shuffle sort groupby join] [--gigabytes 4] [--budget 1]

Each operation runs in a process of its own. What is measured is the PSS of the driver and of all processes below it, sampled
while the operation runs: the object store is shared memory and counts once, pages of a file on disk that nobody has written
lately are the kernel's to drop and count while they are mapped. The rows are made by tasks, and the results are counted and
dropped as they come, as a training run would.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

from benchmarks.processes import adopt_orphans, descendants

ROW_BYTES = 100
#: The part of the budget that is the object store's; the rest is for what processes hold themselves.
STORE_SHARE = 0.5
OPERATIONS = ("shuffle", "sort", "groupby", "join")


class Watch:
    """The largest PSS of this process and those below it, sampled by a thread every so many seconds."""

    def __init__(self, seconds: float = 0.2) -> None:
        self.seconds = seconds
        self.peak = 0
        self.parts: dict[str, int] = {}
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)
        self._thread.start()

    def _watch(self) -> None:
        while True:
            ended = self._ended.wait(self.seconds)
            kinds = [kinds_of(pid) for pid in (os.getpid(), *descendants(os.getpid()))]
            total = sum(sum(each.values()) for each in kinds)
            if total > self.peak:
                self.peak = total
                self.parts = {
                    "driver_mb": kinds[0]["Anon"] >> 20,
                    "largest_worker_mb": max((each["Anon"] for each in kinds[1:]), default=0) >> 20,
                    "processes": len(kinds),
                    **{f"{kind.lower()}_mb": sum(each[kind] for each in kinds) >> 20 for kind in kinds[0]},
                }
            if ended:
                return

    def end(self) -> None:
        self._ended.set()
        self._thread.join()


def kinds_of(pid: int) -> dict[str, int]:
    """The PSS of a process in bytes: memory of its own, memory it shares with others, mapped files."""
    found = {"Anon": 0, "Shmem": 0, "File": 0}
    try:
        lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
    except (FileNotFoundError, ProcessLookupError):
        return found
    for line in lines:
        name, _, rest = line.partition(":")
        if name.removeprefix("Pss_") in found:
            found[name.removeprefix("Pss_")] = int(rest.split()[0]) * 1024
    return found


def rows_of(batch: dict[str, Any]) -> dict[str, Any]:
    """100 bytes a row: a key that is all over the place, a number, and some text."""
    import numpy as np

    ids = batch["id"].astype(np.uint64)
    mixed = ids * np.uint64(0x9E3779B97F4A7C15)
    payload = np.frombuffer(np.random.default_rng(int(ids[0])).bytes(76 * len(ids)), np.uint8).reshape(-1, 76)
    return {"key": mixed.astype(np.int64), "id": batch["id"], "group": mixed % 5000, "payload": payload}


def run(operation: str, gigabytes: float, budget: float) -> dict[str, Any]:
    """One operation in this process."""
    adopt_orphans()
    import skate as ray

    budget_bytes = int(budget * (1 << 30))
    ray.init(num_cpus=2, log_to_driver=False, object_store_memory=int(budget_bytes * STORE_SHARE))
    settings = ray.data.DataContext.get_current()
    settings.enable_progress_bars = False
    rows = int(gigabytes * (1 << 30)) // ROW_BYTES
    blocks = max(2, int(gigabytes * (1 << 30)) // max(1 << 20, min(32 << 20, budget_bytes // 32)))
    if operation == "join":  # what is on both sides together
        rows, blocks = rows // 2, max(2, blocks // 2)
    made = ray.data.range(rows, override_num_blocks=blocks).map_batches(rows_of)
    watch = Watch()
    begin = time.perf_counter()
    found = 0
    for table in work(operation, made, rows, blocks)._tables():
        found += table.num_rows
    seconds = time.perf_counter() - begin
    watch.end()
    ray.shutdown()
    return {
        "operation": operation,
        "seconds": round(seconds, 1),
        "rows": found,
        "peak_mb": watch.peak >> 20,
        "budget_mb": budget_bytes >> 20,
        "share": round(watch.peak / budget_bytes, 2),
        **watch.parts,
    }


def work(operation: str, made: Any, rows: int, blocks: int) -> Any:
    """The dataset of an operation's results."""
    import skate as ray

    if operation == "shuffle":
        return made.random_shuffle(seed=1)
    if operation == "sort":
        return made.sort("key")
    if operation == "groupby":
        return made.groupby("group").map_groups(len_of, batch_format=None)
    half = ray.data.range(rows, override_num_blocks=blocks).map_batches(rows_of)
    return made.join(half, "inner", 16, on=("key",), right_suffix="_r")


def len_of(table: Any) -> Any:
    """A group's block as it is: all rows move."""
    return table


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("operations", nargs="*", default=OPERATIONS)
    parser.add_argument("--gigabytes", type=float, default=4)
    parser.add_argument("--budget", type=float, default=1, help="gigabytes")
    parser.add_argument("--here", action="store_true", help="run one operation in this process")
    args = parser.parse_args()
    if args.here:
        print(json.dumps(run(args.operations[0], args.gigabytes, args.budget)), flush=True)
        return
    for operation in args.operations:
        options = ["--gigabytes", str(args.gigabytes), "--budget", str(args.budget)]
        subprocess.run(
            [sys.executable, "-m", "benchmarks.data.memory", operation, "--here", *options], check=False
        )


if __name__ == "__main__":
    main()
