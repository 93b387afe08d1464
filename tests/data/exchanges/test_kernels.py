"""Partitions: their sizes for any distribution of keys, and columns of any type."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from skate.data import DataContext, Dataset
from skate.data.aggregate import Mean, Std, Sum
from skate.data.block import from_batch, from_rows
from skate.data.exchange.join import JoinKernel, Side
from skate.data.exchange.kernel import Kernel
from skate.data.exchange.seeds import Seeds
from skate.data.exchange.shuffle import ShuffleKernel
from skate.data.exchange.sort import Order, SortKernel
from skate.data.execution.bundle import Bundle
from skate.data.execution.exchange_operator import ExchangeRunning
from skate.data.execution.local import LocalRunner
from tests.data.exchanges.tables import dataset_of

UP = Order(("k",), (False,))


def exchange(kernel: Kernel, blocks: Sequence[pa.Table], partitions: int) -> list[pa.Table]:
    """The partitions that a kernel makes of some blocks."""
    samples = [kernel.sample(block) for block in blocks] if kernel.samples else []
    plan = kernel.prepare(samples, partitions, [[block.num_rows for block in blocks]])
    start = 0
    parts = []
    for block in blocks:
        parts.append(kernel.split(block, 0, start, plan, partitions))
        start += block.num_rows
    return [
        pa.concat_tables(kernel.merge([[each[at] for each in parts]], at, plan)) for at in range(partitions)
    ]


KEYS = {
    "one value": lambda random: np.zeros(5000, int),
    "one value in ten is another": lambda random: np.where(
        random.random(5000) < 0.9, 7, random.integers(0, 9, 5000)
    ),
    "strings": lambda random: random.choice(["a", "b", "c"], 5000),
    "spread": lambda random: random.random(5000) ** 4,
    "null": lambda random: pa.nulls(5000, pa.int64()),
    "NaN": lambda random: np.full(5000, np.nan),
}


@pytest.mark.parametrize("keys", KEYS.values(), ids=KEYS)
@pytest.mark.parametrize("down", [False, True])
def test_a_sort_has_even_partitions_whatever_the_keys_are(keys: Any, down: bool) -> None:
    random = np.random.default_rng(5)
    table = pa.table({"k": keys(random), "row": np.arange(5000), "wide": ["x" * 500] * 5000})
    blocks = [table.slice(at, 500) for at in range(0, 5000, 500)]
    order = Order(("k",), (down,))
    found = exchange(SortKernel(order), blocks, 8)
    assert max(each.num_rows for each in found) < 2.2 * 5000 / 8
    alone = pa.concat_tables(SortKernel(order).merge([blocks], 0, None))
    assert pa.concat_tables(found).column("row") == alone.column("row")


class Drawn(Seeds):
    """No seed of a user; the same numbers in each run of this test."""

    def __init__(self, number: int) -> None:
        super().__init__(None)
        self.number = number

    def draw(self) -> tuple[int, ...]:
        return (self.number,)


def test_every_order_of_four_rows_is_as_likely() -> None:
    counts: dict[tuple[int, ...], int] = {}
    blocks = [pa.table({"row": [0, 1]}), pa.table({"row": [2, 3]})]
    for seed in range(1200):
        found = pa.concat_tables(exchange(ShuffleKernel(Drawn(seed)), blocks, 3)).column("row").to_pylist()
        counts[tuple(found)] = counts.get(tuple(found), 0) + 1
    assert len(counts) == 24
    # Chi squared with 23 degrees of freedom is above 58 once in 10,000 times; the seeds are always the same.
    assert sum((count - 50) ** 2 / 50 for count in counts.values()) < 58


def test_shuffled_partitions_are_even_if_that_is_wanted() -> None:
    blocks = [pa.table({"row": np.arange(n)}) for n in (17, 0, 40, 3)]
    found = exchange(ShuffleKernel(Seeds(3), even=True, whole=True), blocks, 7)
    assert {each.num_rows for each in found} <= {8, 9}


@pytest.mark.parametrize("partition_bytes", [1 << 20, 40, 16, 1])
def test_shuffle_of_a_seed_gives_rays_rows_in_any_number_of_partitions(partition_bytes: int) -> None:
    start, blocks = 0, []
    for rows in (3, 0, 2, 4):
        blocks.append(pa.table({"row": np.arange(start, start + rows)}))
        start += rows
    running = running_of(ShuffleKernel(Seeds(7)), partition_bytes)
    kinds = finished(running, [blocks])
    assert ("split" in kinds) == (partition_bytes < 1 << 20)
    made = pa.concat_tables([bundle.table() for bundle in running.outputs.ready])
    assert made.column("row").to_pylist() == [8, 3, 0, 1, 7, 6, 4, 2, 5]


def finished(running: ExchangeRunning, inputs: Sequence[Sequence[pa.Table]]) -> list[str]:
    """Run an exchange in this process; the kinds of its pieces of work, in order."""
    for source, tables in enumerate(inputs):
        for table in tables:
            running.take(Bundle.of(table), source)
        running.end(source)
    kinds = []
    while running.has_work():
        work = running.next_work()
        kinds.append(work.kind)
        runner = LocalRunner()
        runner.start(work)
        while runner.busy:
            for what, _, value in runner.events():
                if what == "block":
                    running.give(work, value)
                else:
                    running.done(work, value)
    return kinds


def running_of(kernel: Kernel, partition_bytes: int, wanted: int | None = None) -> ExchangeRunning:
    from skate.data.compute import Compute  # beside the context, so that the pair is seen together

    return ExchangeRunning(
        "it", kernel, wanted, DataContext(target_partition_size=partition_bytes), Compute()
    )


def test_little_data_is_merged_at_once() -> None:
    running = running_of(SortKernel(UP), 1 << 20)
    assert finished(running, [[pa.table({"k": [2, 1]}), pa.table({"k": [0]})]]) == ["merge"]


def test_more_is_sampled_split_by_lots_and_merged() -> None:
    blocks = [pa.table({"k": np.random.default_rng(at).random(100)}) for at in range(16)]
    kinds = finished(running_of(SortKernel(UP), 3200), [blocks])  # four blocks a lot, and four partitions
    assert kinds == ["sample"] * 16 + ["split"] * 4 + ["merge"] * 4


def test_a_partition_that_one_key_makes_large_is_joined_in_pieces() -> None:
    left = [
        pa.table({"id": np.zeros(1000, int), "a": np.arange(at, at + 1000)}) for at in range(0, 20000, 1000)
    ]
    right = [pa.table({"id": [0, 1], "b": [10, 11]})]
    kernel = JoinKernel("inner", Side(("id",), ""), Side(("id",), ""))
    running = running_of(kernel, 32000)
    kinds = finished(running, [left, right])
    assert kinds.count("merge") > 10
    made = pa.concat_tables([bundle.table() for bundle in running.outputs.ready])
    assert sorted(made.column("a").to_pylist()) == list(range(20000))


def test_rows_with_null_keys_are_spread_over_the_partitions_of_a_join() -> None:
    table = pa.table({"id": pa.nulls(900, pa.int64())})
    parts = JoinKernel("left_outer", Side(("id",), ""), Side(("id",), "")).split(table, 0, 0, None, 9)
    assert [part.num_rows for part in parts] == [100] * 9


def of_many_types() -> list[pa.Table]:
    rows = [
        {
            "k": at % 4,
            "tensor": np.full((2, 3), at),
            "ragged": np.zeros(at % 3 + 1),
            "object": complex(at, 1),
            "list": [at] * (at % 3),
            "struct": {"x": at, "y": None},
            "bytes": bytes([at]),
        }
        for at in range(40)
    ]
    return [from_rows(rows[at : at + 10]) for at in range(0, 40, 10)]


def numbers(dataset: Dataset) -> Iterator[int]:
    """The number that each row was made of, checked against all columns."""
    for row in dataset.take_all():
        at = row["struct"]["x"]
        assert row["k"] == at % 4
        assert (row["tensor"] == at).all()
        assert len(row["ragged"]) == at % 3 + 1
        assert row["object"] == complex(at, 1)
        assert row["list"] == [at] * (at % 3)
        assert row["bytes"] == bytes([at])
        yield at


@pytest.mark.parametrize("way", ["at once", "partitions"])
def test_columns_of_any_type_go_through(way: str) -> None:
    dataset = dataset_of(of_many_types(), way)
    assert list(numbers(dataset.sort("k"))) == sorted(range(40), key=lambda at: at % 4)
    assert sorted(numbers(dataset.random_shuffle(seed=1))) == list(range(40))
    assert list(numbers(dataset.repartition(7))) == list(range(40))
    assert sorted(numbers(dataset.groupby("k").map_groups(lambda block: block, batch_format=None))) == list(
        range(40)
    )
    other = dataset_of([pa.table({"k": [1, 3, 9]})], way)
    assert sorted(numbers(dataset.join(other, "left_semi", 2, on=("k",)))) == [
        at for at in range(40) if at % 2
    ]
    joined = other.join(dataset, "inner", 2, on=("k",))
    assert sorted(numbers(joined)) == [at for at in range(40) if at % 2]
    outer = other.join(dataset, "left_outer", 2, on=("k",)).filter(lambda row: row["k"] == 9).take_all()
    assert [(row["list"], row["struct"]) for row in outer] == [(None, None)]


@pytest.mark.parametrize("way", ["at once", "partitions"])
def test_blocks_of_different_schemas(way: str) -> None:
    blocks = [
        pa.table({"k": [1, 2], "v": ["a", "b"]}),
        pa.table({"k": pa.nulls(2), "v": pa.nulls(2)}),
        pa.table({"k": [0.5, 2.0], "v": ["c", "d"]}),
        pa.table({}),
    ]
    dataset = dataset_of(blocks, way)
    assert [row["v"] for row in dataset.sort("k").take_all()] == ["c", "a", "b", "d", None, None]
    counts = {row["k"]: row["count()"] for row in dataset.groupby("k").count().take_all()}
    assert counts == {0.5: 1, 1: 1, 2: 2, None: 2}
    assert dataset.join(dataset, "inner", 2, on=("k",), right_suffix="_r").count() == 6


@pytest.mark.parametrize("way", ["at once", "partitions"])
def test_the_spread_of_large_numbers_keeps_its_digits(way: str) -> None:
    numbers = [1e9 + at % 3 for at in range(3000)]
    blocks = [
        from_batch({"k": np.zeros(100, int), "x": numbers[at : at + 100]}) for at in range(0, 3000, 100)
    ]
    wanted = np.std(np.arange(3000) % 3, ddof=1)
    dataset = dataset_of(blocks, way)
    assert dataset.std("x") == pytest.approx(wanted, rel=1e-9)
    assert dataset.groupby("k").aggregate(Std("x")).take_all()[0]["std(x)"] == pytest.approx(wanted, rel=1e-9)


def test_means_of_large_integers_do_not_wrap_around() -> None:
    blocks = [pa.table({"x": [2**62, 2**62, 2**62]})] * 2
    assert dataset_of(blocks, "at once").aggregate(Mean("x"))["mean(x)"] == 2.0**62


@pytest.mark.parametrize("way", ["at once", "partitions"])
def test_states_are_all_that_moves_of_what_is_aggregated(way: str) -> None:
    random = np.random.default_rng(2)
    blocks = [pa.table({"k": random.integers(0, 10, 20000), "x": random.random(20000)}) for _ in range(4)]
    dataset = dataset_of(blocks, way).groupby("k").aggregate(Sum("x"), Mean("x"))
    assert len(dataset.take_all()) == 10
    executor: Any = dataset._last_run
    moved = [each for each in executor.topology.operators if isinstance(each, ExchangeRunning)]
    assert moved[0].counters.rows_in <= 40
