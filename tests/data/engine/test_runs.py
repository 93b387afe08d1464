"""Whole runs with tasks and actors: order, early ends, failures, many plans one after the other."""

from __future__ import annotations

import os
import random
import threading
import time
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from waiting import wait_for

import skate
import skate.data
from skate.data import ActorPoolStrategy, DataContext, ExecutionResources
from skate.data.steps.block_size import SizeStep
from skate.exceptions import RayTaskError

pytestmark = pytest.mark.usefixtures("node")


class Add:
    def __init__(self, amount: int = 1) -> None:
        self.amount = amount

    def __call__(self, batch: dict[str, Any]) -> dict[str, Any]:
        return {"id": batch["id"] + self.amount}


class Boom(Exception):
    """Raised on purpose."""


def away(rows: int, blocks: int) -> Any:
    """Numbers in blocks that are computed in workers."""
    dataset = skate.data.range(rows, override_num_blocks=blocks)
    dataset.context.run_small_work_in_driver = False
    return dataset


def numbers(dataset: Any) -> list[int]:
    return [row["id"] for row in dataset.take_all()]


def test_order_is_kept_though_pieces_end_in_another() -> None:
    def late_first(batch: dict[str, Any]) -> dict[str, Any]:
        time.sleep(0.2 if batch["id"][0] == 0 else 0)  # the work of the piece
        return batch

    assert numbers(away(40, 8).map_batches(late_first)) == list(range(40))


def test_each_piece_that_was_made_in_a_worker_is_seen_once() -> None:
    pids = {row["pid"] for row in away(20, 10).map(lambda row: {"pid": os.getpid()}).take_all()}
    assert os.getpid() not in pids


def test_little_work_runs_in_this_process() -> None:
    rows = skate.data.range(20).map(lambda row: {"pid": os.getpid()}).take_all()
    assert {row["pid"] for row in rows} == {os.getpid()}


def test_an_actor_pool_keeps_order_and_constructs_once_an_actor() -> None:
    class Counting:
        def __init__(self) -> None:
            self.made = os.urandom(4).hex()

        def __call__(self, batch: dict[str, Any]) -> dict[str, Any]:
            return {"id": batch["id"], "made": np.array([self.made] * len(batch["id"]))}

    rows = away(60, 12).map_batches(Counting, compute=ActorPoolStrategy(size=2)).take_all()
    assert [row["id"] for row in rows] == list(range(60))
    assert len({row["made"] for row in rows}) <= 2


def test_more_actors_than_there_is_room_for_are_not_waited_for() -> None:
    grown = away(40, 8).map_batches(Add, compute=ActorPoolStrategy(size=6))
    assert numbers(grown) == list(range(1, 41))


def test_pools_one_after_the_other_share_what_there_is() -> None:
    dataset = away(40, 8)
    for _ in range(4):
        dataset = dataset.map_batches(Add, compute=ActorPoolStrategy(size=2))
    assert numbers(dataset) == list(range(4, 44))


def test_pools_that_can_never_run_together_are_refused() -> None:
    dataset = away(10, 2)
    for _ in range(3):
        dataset = dataset.map_batches(Add, compute=ActorPoolStrategy(size=1), num_cpus=1)
    with pytest.raises(ValueError, match="one actor of each pool does not fit"):
        dataset.take_all()


def test_actors_end_with_the_run() -> None:
    def alive() -> int:
        return int(skate.available_resources().get("CPU", 0))

    assert numbers(away(10, 5).map_batches(Add, compute=ActorPoolStrategy(size=2))) == list(range(1, 11))
    wait_for(lambda: alive() == 2, what="the actors have given their CPUs back")


def test_a_constructor_that_raises_is_an_error_at_once() -> None:
    class Broken:
        def __init__(self) -> None:
            raise Boom("not today")

        def __call__(self, batch: Any) -> Any:
            return batch

    with pytest.raises(Boom, match="not today"):
        away(10, 5).map_batches(Broken).take_all()


@pytest.mark.parametrize("where", ["here", "away"])
def test_a_function_that_raises_is_caught_by_its_type(where: str) -> None:
    def raises(row: dict[str, Any]) -> dict[str, Any]:
        if row["id"] == 7:
            raise Boom("seven")
        return row

    dataset = away(10, 2) if where == "away" else skate.data.range(10, override_num_blocks=2)
    with pytest.raises(Boom) as caught:
        dataset.map(raises).take_all()
    assert isinstance(caught.value, RayTaskError)
    text = str(caught.value)
    assert "raises" in text and "seven" in text
    assert "for row 2 of a block of 5" in text and "id: int64" in text


def test_a_batch_function_that_raises_says_which_batch() -> None:
    def raises(batch: dict[str, Any]) -> dict[str, Any]:
        raise KeyError("missing")

    with pytest.raises(KeyError) as caught:
        away(10, 1).map_batches(raises, batch_size=4).take_all()
    assert "for batch 0, of 4 rows" in str(caught.value)


def test_pieces_that_fail_may_be_left_out() -> None:
    def raises(row: dict[str, Any]) -> dict[str, Any]:
        if row["id"] in (3, 8):
            raise Boom
        return row

    for allowed, expected in ((2, [0, 1, 4, 5, 6, 7]), (-1, [0, 1, 4, 5, 6, 7])):
        dataset = away(10, 5)
        dataset.context.max_errored_blocks = allowed
        assert numbers(dataset.map(raises)) == expected
    dataset = away(10, 5)
    dataset.context.max_errored_blocks = 1
    with pytest.raises(Boom):
        dataset.map(raises).take_all()


def test_a_worker_that_dies_is_made_up_for(tmp_path: Any) -> None:
    marker = tmp_path / "died"

    def dies_once(batch: dict[str, Any]) -> dict[str, Any]:
        if batch["id"][0] == 4 and not marker.exists():
            marker.touch()
            os._exit(1)
        return batch

    assert numbers(away(10, 5).map_batches(dies_once)) == list(range(10))
    marker.unlink()

    class Dies:
        def __call__(self, batch: dict[str, Any]) -> dict[str, Any]:
            return dies_once(batch)

    assert numbers(away(10, 5).map_batches(Dies, compute=ActorPoolStrategy(size=1))) == list(range(10))


def test_a_worker_that_always_dies_is_an_error() -> None:
    def dies(batch: dict[str, Any]) -> dict[str, Any]:
        os._exit(1)

    with pytest.raises(skate.exceptions.WorkerCrashedError):
        away(2, 1).map_batches(dies).take_all()


def test_taking_some_ends_what_was_under_way(tmp_path: Any) -> None:
    def slow(batch: dict[str, Any]) -> dict[str, Any]:
        (tmp_path / str(batch["id"][0])).touch()
        time.sleep(0.02)  # the work of the piece
        return batch

    dataset = away(400, 400).map_batches(slow)
    assert dataset.take(2) == [{"id": 0}, {"id": 1}]
    assert len(list(tmp_path.iterdir())) < 200


def test_a_loop_that_is_left_ends_the_run() -> None:
    before = threading.active_count()
    for _ in range(5):
        for batch in away(1000, 50).map_batches(Add, compute=ActorPoolStrategy(size=2)).iter_batches():
            assert len(batch["id"])
            break
    wait_for(lambda: threading.active_count() <= before + 1, what="the threads that ran ahead have ended")
    wait_for(lambda: skate.available_resources().get("CPU") == 2, what="all CPUs are free")


def test_many_small_plans_come_to_an_end() -> None:
    draw = random.Random(5)
    for _ in range(40):
        rows, blocks = draw.choice([0, 1, 10, 200]), draw.choice([1, 2, 7])
        dataset, expected = away(rows, blocks), list(range(rows))
        if draw.random() < 0.5:
            dataset.context.run_small_work_in_driver = True
        for _ in range(draw.randint(0, 3)):
            kind = draw.choice(["pool", "limit", "filter", "union", "map", "zip"])
            if kind == "pool":
                dataset = dataset.map_batches(Add, compute=ActorPoolStrategy(size=draw.randint(1, 3)))
                expected = [number + 1 for number in expected]
            elif kind == "limit":
                most = draw.choice([0, 3, 50])
                dataset, expected = dataset.limit(most), expected[:most]
            elif kind == "filter":
                dataset = dataset.filter(lambda row: row["id"] % 2 == 0)
                expected = [number for number in expected if number % 2 == 0]
            elif kind == "union":
                dataset, expected = dataset.union(away(3, 2)), [*expected, 0, 1, 2]
            elif kind == "zip":
                dataset = dataset.zip(dataset).map(lambda row: {"id": row["id"]})
            else:
                dataset = dataset.map(lambda row: row)
        if draw.random() < 0.5:
            assert numbers(dataset) == expected
        else:
            assert [row["id"] for row in dataset.take(4)] == expected[:4]


def test_two_runs_at_once_in_threads() -> None:
    found: dict[int, list[int]] = {}

    def run(number: int) -> None:
        found[number] = numbers(away(100, 10).map_batches(Add, fn_constructor_args=(number,)))

    threads = [threading.Thread(target=run, args=(number,)) for number in (1, 2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == {number: list(range(number, 100 + number)) for number in (1, 2)}


def test_copies_of_settings_share_nothing_that_can_change() -> None:
    settings = DataContext()
    settings.set_config("mine", {"list": [1]})
    copied = settings.copy()
    copied.get_config("mine")["list"].append(2)
    copied.lance_config.read_fragments_max_attempts = 77
    copied.execution_options.preserve_order = True
    copied.execution_options.resource_limits = ExecutionResources(cpu=1)
    copied.issue_detectors_config.hanging_detector_config.op_task_stats_min_count = 77
    copied.retried_io_errors.append("mine")
    fresh = DataContext()
    assert settings.get_config("mine") == {"list": [1]}
    assert settings.lance_config == fresh.lance_config
    assert settings.execution_options.preserve_order is False
    assert settings.execution_options.is_resource_limits_default()
    assert settings.issue_detectors_config == fresh.issue_detectors_config
    assert settings.retried_io_errors == fresh.retried_io_errors
    assert vars(settings).keys() == vars(copied).keys()


def test_options_of_the_context_are_the_datasets_own() -> None:
    dataset = away(4, 2)
    assert DataContext.get_current().run_small_work_in_driver
    assert dataset.map(lambda row: row).context is dataset.context


def test_stats_and_explain_name_the_operators(capsys: Any) -> None:
    dataset = away(100, 4).map_batches(Add, compute=ActorPoolStrategy(size=2)).limit(50)
    assert dataset.stats() == ""
    dataset.materialize()
    dataset.take_all()
    text = dataset.stats()
    assert "MapBatches(Add)" in text and "calls of" in text and "rows" in text
    dataset.explain()
    printed = capsys.readouterr().out
    assert "MapBatches(Add), in actors" in printed and printed.count("ReadRange") == 3


def test_the_first_block_of_a_piece_of_work_is_small() -> None:
    tables = [pa.table({"x": np.zeros(1 << 18)})] * 64  # 2 MiB each
    rows = [table.num_rows for table in SizeStep(64 << 20)(tables)]
    assert sum(rows) == 64 << 18
    assert [count >> 18 for count in rows] == [8, 32, 24]
    assert [table.num_rows >> 18 for table in SizeStep(4 << 20)(tables)] == [2] * 32


def test_workers_decode_shards_unless_they_are_small(tmp_path: Path) -> None:
    def processes(folder: str, size: int, **options: Any) -> set[int]:
        rows = [{"__key__": f"{at}", "npy": np.zeros(size, np.uint8)} for at in range(4)]
        skate.data.from_items(rows).write_webdataset(str(tmp_path / folder))
        found = skate.data.read_webdataset(str(tmp_path / folder), **options)
        return {row["pid"] for row in found.map(lambda row: {"pid": os.getpid()}).take_all()}

    assert os.getpid() in processes("small", 100)
    assert os.getpid() not in processes("large", 1 << 19)
