"""Processes and memory beside the driver while 13 actors live."""

from __future__ import annotations

import os

from benchmarks.processes import adopt_orphans, descendants, pss_bytes
from benchmarks.session import Figures, main, started

ACTORS = 13


def thirteen_actors(target: str, full: bool) -> Figures:
    """13 actors, each called once: every process below the driver, daemons included, and its PSS."""
    adopt_orphans()
    with started(target) as ray:

        @ray.remote
        class Resident:
            def one(self) -> int:
                return 1

        actors = [Resident.remote() for _ in range(ACTORS)]
        ray.get([actor.one.remote() for actor in actors])
        side = descendants(os.getpid())
        return {
            "side_processes": len(side),
            "side_memory": sum(map(pss_bytes, side)) / 1e6,
            "driver_memory": pss_bytes(os.getpid()) / 1e6,
        }


if __name__ == "__main__":
    main(thirteen_actors)
