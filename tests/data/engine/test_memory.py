"""A dataset several times larger than the object store goes through it."""

from __future__ import annotations

from typing import Any

import numpy as np
import psutil
import pytest

import skate
import skate.data

pytestmark = pytest.mark.usefixtures("small_store")

BLOCKS = 100
WIDTH = 1 << 19  # eight-byte numbers: 4 MB a row


def wide(row: dict[str, Any]) -> dict[str, Any]:
    return {"id": row["id"], "data": np.full(WIDTH, row["id"], dtype=np.int64)}


def shared_bytes() -> int:
    return int(psutil.Process().memory_info().shared)


def test_batches_of_much_more_than_the_store_holds_pass_through_it() -> None:
    dataset = skate.data.range(BLOCKS, override_num_blocks=BLOCKS)
    dataset.context.run_small_work_in_driver = False
    seen = 0
    for batch in (
        dataset.map(wide)
        .map_batches(lambda b: {"id": b["id"], "sum": b["data"].sum(axis=1)})
        .iter_batches(batch_size=1)
    ):
        assert batch["sum"][0] == batch["id"][0] * WIDTH
        seen += 1
    assert seen == BLOCKS


def test_a_slow_consumer_holds_its_producers_back() -> None:
    dataset = skate.data.range(BLOCKS, override_num_blocks=BLOCKS)
    dataset.context.run_small_work_in_driver = False
    made = dataset.map(wide)
    budget = dataset.context.limits().budget_bytes
    batches = iter(made.iter_batches(batch_size=1, prefetch_batches=1))
    for expected in range(BLOCKS):
        batch = next(batches)
        assert batch["id"][0] == expected
        executor = made.iterator()._dataset()._last_run
        assert executor is not None
        held = sum(operator.outputs.bytes for operator in executor.topology.operators)
        assert held <= budget + (16 << 20), f"{held >> 20} MiB wait for a consumer of {budget >> 20} MiB"
    assert next(batches, None) is None


def test_one_task_that_gives_far_more_than_fits_is_held_back() -> None:
    def many(batch: dict[str, Any]) -> Any:
        for number in range(60):
            yield {"id": np.array([number]), "data": np.full((1, WIDTH), number)}

    dataset = skate.data.range(1)
    dataset.context.run_small_work_in_driver = False
    dataset.context.target_max_block_size = 4 << 20
    seen = [int(batch["id"][0]) for batch in dataset.map_batches(many).iter_batches(batch_size=1)]
    assert seen == list(range(60))
