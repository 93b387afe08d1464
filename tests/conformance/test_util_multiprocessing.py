"""ray.util.multiprocessing.Pool: the standard library's pool on actors."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Any

import pytest
import ray
from ray.util.multiprocessing import Pool

pytestmark = pytest.mark.usefixtures("cluster")


@pytest.fixture
def pool() -> Iterator[Pool]:
    made = Pool(processes=2)
    yield made
    made.terminate()
    made.join()


def failing() -> Any:
    def fail(n: int) -> int:
        raise ValueError(f"no {n}")

    return fail


SQUARE, ADD, FAIL = (lambda n: n * n), (lambda a, b: a + b), failing()


def test_util_pool_map(pool: Pool) -> None:
    assert pool.map(SQUARE, range(5)) == [0, 1, 4, 9, 16]


def test_util_pool_map_with_a_chunk_size(pool: Pool) -> None:
    assert pool.map(SQUARE, range(5), chunksize=2) == [0, 1, 4, 9, 16]


def test_util_pool_map_of_nothing(pool: Pool) -> None:
    assert pool.map(SQUARE, []) == []


def test_util_pool_map_error(pool: Pool) -> None:
    with pytest.raises(ValueError, match="no"):
        pool.map(FAIL, [1, 2])


def test_util_pool_starmap(pool: Pool) -> None:
    assert pool.starmap(ADD, [(1, 2), (3, 4)]) == [3, 7]


def test_util_pool_apply(pool: Pool) -> None:
    assert pool.apply(ADD, (1, 2)) == 3
    assert pool.apply(ADD, (1,), {"b": 5}) == 6


def test_util_pool_apply_error(pool: Pool) -> None:
    with pytest.raises(ValueError, match="no 3"):
        pool.apply(FAIL, (3,))


def test_util_pool_apply_async(pool: Pool) -> None:
    result = pool.apply_async(ADD, (1, 2))
    result.wait(timeout=30)
    assert result.ready()
    assert result.successful()
    assert result.get(timeout=30) == 3


def test_util_pool_apply_async_error(pool: Pool) -> None:
    result = pool.apply_async(FAIL, (3,))
    result.wait(timeout=30)
    assert not result.successful()
    with pytest.raises(ValueError, match="no 3"):
        result.get(timeout=30)


def test_util_pool_map_async(pool: Pool) -> None:
    assert pool.map_async(SQUARE, range(4)).get(timeout=30) == [0, 1, 4, 9]


def test_util_pool_starmap_async(pool: Pool) -> None:
    assert pool.starmap_async(ADD, [(1, 2), (3, 4)]).get(timeout=30) == [3, 7]


def test_util_pool_callbacks(pool: Pool) -> None:
    done: list[Any] = []
    failed: list[Any] = []
    pool.map_async(SQUARE, [2, 3], callback=done.append, error_callback=failed.append).get(timeout=30)
    result = pool.apply_async(FAIL, (1,), callback=done.append, error_callback=failed.append)
    result.wait(timeout=30)
    pool.close()
    pool.join()
    assert done == [[4, 9]]
    assert len(failed) == 1
    assert "no 1" in repr(failed[0])


@pytest.mark.chosen_difference(
    "error_callback gets the error itself, as in the standard library; Ray's gets a wrapper",
    id="D-pool-errors",
)
def test_util_pool_error_callback_gets_the_error(pool: Pool) -> None:
    failed: list[Any] = []
    pool.apply_async(FAIL, (1,), error_callback=failed.append).wait(timeout=30)
    pool.close()
    pool.join()
    assert isinstance(failed[0], ValueError)


def test_util_pool_imap(pool: Pool) -> None:
    results = pool.imap(SQUARE, range(5), chunksize=2)
    assert next(results) == 0
    assert list(results) == [1, 4, 9, 16]


def test_util_pool_imap_unordered(pool: Pool) -> None:
    assert sorted(pool.imap_unordered(SQUARE, range(5))) == [0, 1, 4, 9, 16]


@pytest.mark.chosen_difference(
    "imap raises the error of an item, as in the standard library; Ray yields it as a value",
    id="D-pool-errors",
)
@pytest.mark.parametrize("how", ["imap", "imap_unordered"])
def test_util_pool_imap_error(pool: Pool, how: str) -> None:
    with pytest.raises(ValueError, match="no 1"):
        list(getattr(pool, how)(FAIL, [1]))


def test_util_pool_runs_in_other_processes(pool: Pool) -> None:
    pids = set(pool.map(lambda _: os.getpid(), range(8), chunksize=1))
    assert os.getpid() not in pids
    assert 1 <= len(pids) <= 2


def test_util_pool_initializer() -> None:
    def prepare(value: str) -> None:
        os.environ["POOL_PREPARED"] = value

    made = Pool(processes=1, initializer=prepare, initargs=("yes",))
    assert made.apply(lambda: os.environ.get("POOL_PREPARED")) == "yes"
    made.terminate()
    made.join()


def test_util_pool_as_a_context_manager() -> None:
    with Pool(processes=1) as made:
        assert made.map(SQUARE, [3]) == [9]
    with pytest.raises(ValueError):
        made.map(SQUARE, [3])


def test_util_pool_after_close_takes_nothing_more() -> None:
    made = Pool(processes=1)
    pending = made.apply_async(SQUARE, (3,))
    made.close()
    with pytest.raises(ValueError):
        made.apply(SQUARE, (3,))
    made.join()
    assert pending.get(timeout=30) == 9


def test_util_pool_join_needs_close_first() -> None:
    made = Pool(processes=1)
    with pytest.raises(ValueError):
        made.join()
    made.terminate()
    made.join()


@pytest.mark.parametrize("processes", [0, -1])
def test_util_pool_bad_number_of_processes(processes: int) -> None:
    with pytest.raises(ValueError):
        Pool(processes=processes)


def test_util_pool_more_processes_than_cpus_is_refused() -> None:
    with pytest.raises(ValueError):
        Pool(processes=99)


def test_util_pool_remote_args() -> None:
    made = Pool(processes=1, ray_remote_args={"num_cpus": 0.5, "runtime_env": {"env_vars": {"POOLED": "1"}}})
    assert made.apply(lambda: os.environ.get("POOLED")) == "1"
    made.terminate()
    made.join()


def test_util_pool_makes_all_cpus_by_default() -> None:
    made = Pool()
    pids = set(made.map(lambda _: os.getpid(), range(20), chunksize=1))
    assert 1 <= len(pids) <= int(ray.cluster_resources()["CPU"])
    made.terminate()
    made.join()
