"""Whole runs of several nodes from one seed: random programs on all of them, nodes that are lost, then heal and drain."""

from __future__ import annotations

import os
import sys

import pytest

from skate.simulation.runs import run_cluster

SEEDS = int(os.environ.get("SKATE_SEEDS", "200"))
BLOCKS = 10


@pytest.mark.parametrize("block", range(BLOCKS))
def test_nodes(block: int) -> None:
    for seed in range(block, SEEDS, BLOCKS):
        try:
            run_cluster(seed)
        except Exception as error:  # whatever it is, the seed has to be told
            raise AssertionError(
                f"seed {seed}: {type(error).__name__}: {error}\n"
                f"replay: PYTHONPATH=src python tests/simulation/test_nodes.py {seed}"
            ) from error


if __name__ == "__main__":
    written: list[str] = []
    try:
        run_cluster(int(sys.argv[1]), written)
    finally:
        print("\n".join(written))
