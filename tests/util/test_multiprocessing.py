"""Pool: results, order, errors, callbacks, chunks, and how it ends."""

from __future__ import annotations

import functools
import itertools
import multiprocessing
import os
import pickle
import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from waiting import Gate, wait_for

import skate as ray
from skate.exceptions import ActorDiedError
from skate.util.multiprocessing import JoinableQueue, Pool, TimeoutError

pytestmark = pytest.mark.usefixtures("cluster")


@pytest.fixture(scope="module")
def shared(cluster: None) -> Iterator[Pool]:
    with Pool(2) as pool:
        yield pool


def square(value: int) -> int:
    return value * value


def add(left: int, right: int, extra: int = 0) -> int:
    return left + right + extra


def odd_fails(value: int) -> int:
    if value % 2:
        raise ValueError(f"odd: {value}")
    return value


def pid(_: object = None) -> int:
    return os.getpid()


def pass_gate(gate: Gate) -> str:
    gate.wait()
    return "through"


def test_apply(shared: Pool) -> None:
    assert shared.apply(square, (3,)) == 9
    assert shared.apply(add, [1], {"right": 2, "extra": 3}) == 6
    assert shared.apply(pid) != os.getpid()


def test_map_keeps_the_order(shared: Pool) -> None:
    assert shared.map(square, range(50)) == [value * value for value in range(50)]
    assert shared.map(square, (value for value in [2, 3]), chunksize=5) == [4, 9]
    assert shared.map(square, []) == []


def test_starmap(shared: Pool) -> None:
    assert shared.starmap(add, [(1, 2), [3, 4, 5]]) == [3, 12]
    assert shared.starmap_async(add, [(1, 2)], chunksize=1).get(20) == [3]


def test_local_functions_and_partials_can_be_mapped(shared: Pool) -> None:
    offset = 10
    assert shared.map(lambda value: value + offset, [1, 2]) == [11, 12]
    assert shared.map(functools.partial(add, 5), [1, 2]) == [6, 7]


@pytest.mark.parametrize("chunksize", [1, 3, None])
def test_imap(shared: Pool, chunksize: int | None) -> None:
    assert list(shared.imap(square, range(10), chunksize)) == [value * value for value in range(10)]
    assert sorted(shared.imap_unordered(square, iter(range(10)), chunksize)) == [v * v for v in range(10)]
    assert list(shared.imap(square, [], chunksize)) == []


def test_imap_takes_items_only_as_fast_as_results(shared: Pool) -> None:
    taken: list[int] = []
    results = shared.imap(square, (taken.append(item) or item for item in itertools.count()))
    for count in range(1, 10):
        next(results)
        assert len(taken) == 2 + count


def test_imap_unordered_gives_what_finishes_first(shared: Pool, gate: Callable[[str], Gate]) -> None:
    slow, fast = gate("slow"), gate("fast")
    fast.open()
    results = shared.imap_unordered(_gate_name, [slow, fast])
    assert next(results) == "fast"
    slow.open()
    assert next(results) == "slow"


def _gate_name(gate: Gate) -> str:
    gate.wait()
    return gate.path.name


def test_a_later_imap_result_waits_for_its_turn(shared: Pool, gate: Callable[[str], Gate]) -> None:
    slow, fast = gate("slow"), gate("fast")
    fast.open()
    results = shared.imap(_gate_name, [slow, fast])
    with pytest.raises(TimeoutError):
        results.next(timeout=0.05)
    slow.open()
    assert list(results) == ["slow", "fast"]


def test_an_error_arrives_as_itself_with_the_remote_traceback(shared: Pool) -> None:
    with pytest.raises(ValueError, match="odd: 3") as caught:
        shared.apply(odd_fails, (3,))
    assert type(caught.value) is ValueError
    assert "in odd_fails" in str(caught.value.__cause__)


def test_map_raises_the_first_error_in_order(shared: Pool) -> None:
    for chunksize in (1, 10):
        with pytest.raises(ValueError, match="odd: 3"):
            shared.map(odd_fails, [0, 2, 3, 5], chunksize)


def test_imap_goes_on_after_an_error(shared: Pool) -> None:
    results = shared.imap(odd_fails, range(4), 2)
    assert next(results) == 0
    with pytest.raises(ValueError, match="odd: 1"):
        next(results)
    assert next(results) == 2
    with pytest.raises(ValueError, match="odd: 3"):
        next(results)
    with pytest.raises(StopIteration):
        next(results)


def test_an_error_of_the_iterable_comes_in_its_turn(shared: Pool) -> None:
    def items() -> Iterator[int]:
        yield 3
        raise LookupError("no more")

    results = shared.imap(square, items())
    assert next(results) == 9
    with pytest.raises(LookupError, match="no more"):
        next(results)
    assert list(results) == []


def test_an_error_that_cannot_be_pickled_still_arrives(shared: Pool) -> None:
    def fail() -> None:
        error = ValueError("has a lock")
        error.lock = threading.Lock()  # type: ignore[attr-defined]
        raise error

    with pytest.raises(Exception, match="has a lock"):
        shared.apply(fail)
    assert shared.apply(square, (2,)) == 4


def test_an_argument_that_cannot_be_pickled_is_the_calls_error(shared: Pool) -> None:
    result = shared.apply_async(square, (threading.Lock(),))
    with pytest.raises(TypeError, match="lock"):
        result.get(20)
    assert shared.apply(square, (2,)) == 4


def test_async_result(shared: Pool, gate: Callable[[str], Gate]) -> None:
    slow = gate("slow")
    result = shared.apply_async(pass_gate, (slow,))
    result.wait(0.01)
    assert not result.ready()
    with pytest.raises(ValueError, match="not ready"):
        result.successful()
    with pytest.raises(multiprocessing.TimeoutError):
        result.get(timeout=0.01)
    slow.open()
    assert result.get(timeout=20) == "through"
    assert result.ready() and result.successful()
    failed = shared.map_async(odd_fails, [1])
    failed.wait()
    assert failed.ready() and not failed.successful()


def test_callbacks_run_before_the_result_is_ready(shared: Pool) -> None:
    seen: list[Any] = []
    shared.apply_async(square, (3,), callback=seen.append).get(20)
    shared.map_async(square, range(3), 1, seen.append, seen.append).get(20)
    shared.starmap_async(add, [(1, 2)], callback=seen.append).get(20)
    shared.map_async(square, [], callback=seen.append).get(20)
    failed = shared.map_async(odd_fails, [0, 1, 3], 1, callback=seen.append, error_callback=seen.append)
    failed.wait(20)
    assert seen[:-1] == [9, [0, 1, 4], [3], []]
    assert isinstance(seen[-1], ValueError) and str(seen[-1]) == "odd: 1"


def test_a_callback_may_use_the_pool(shared: Pool) -> None:
    later: list[Any] = []
    shared.apply_async(
        square, (3,), callback=lambda value: later.append(shared.apply_async(square, (value,)))
    )
    wait_for(lambda: later, what="the callback to run")
    assert later[0].get(20) == 81


def test_a_callback_that_raises_is_logged(shared: Pool, caplog: pytest.LogCaptureFixture) -> None:
    def fail(_: Any) -> None:
        raise RuntimeError("in the callback")

    assert shared.apply_async(square, (3,), callback=fail).get(20) == 9
    assert shared.apply(square, (4,)) == 16
    assert "in the callback" in caplog.text


def test_no_call_waits_behind_a_long_one_while_an_actor_is_idle(
    shared: Pool, gate: Callable[[str], Gate]
) -> None:
    slow = gate("slow")
    first = shared.apply_async(pass_gate, (slow,))
    assert shared.map(square, range(20), chunksize=1) == [value * value for value in range(20)]
    assert not first.ready()
    slow.open()
    assert first.get(20) == "through"


def test_the_initializer_runs_in_every_actor_and_may_set_globals() -> None:
    def remember(value: int) -> None:
        global remembered
        remembered = value

    def recall(value: int) -> int:
        return remembered + value  # type: ignore[name-defined]

    with Pool(2, initializer=remember, initargs=(100,)) as pool:
        assert pool.map(recall, range(6), chunksize=1) == [100, 101, 102, 103, 104, 105]
        assert pool.apply(functools.partial(recall, 7)) == 107


def test_a_failing_initializer_fails_the_pool() -> None:
    def fail() -> None:
        raise OSError("no licence")

    with pytest.raises(ActorDiedError, match="no licence"):
        Pool(1, initializer=fail)


def test_maxtasksperchild_replaces_processes() -> None:
    with Pool(1, maxtasksperchild=2) as pool:
        pids = [pool.apply(pid) for _ in range(6)]
    assert len(set(pids)) == 3
    assert pids[0] == pids[1] and pids[2] == pids[3] and pids[4] == pids[5]


def test_an_actor_that_died_is_replaced() -> None:
    with Pool(1) as pool:
        before = pool.apply(pid)
        with pytest.raises(ActorDiedError):
            pool.apply(os._exit, (1,))
        assert pool.apply(pid) != before


def test_ray_remote_args_reach_the_actors() -> None:
    with Pool(2, ray_remote_args={"runtime_env": {"env_vars": {"POOL_COLOUR": "green"}}}) as pool:
        assert pool.map(os.getenv, ["POOL_COLOUR"] * 4) == ["green"] * 4


def test_close_lets_the_work_finish(gate: Callable[[str], Gate]) -> None:
    slow = gate("slow")
    pool = Pool(2)
    result = pool.apply_async(pass_gate, (slow,))
    items = pool.imap(square, range(20))
    pool.close()
    assert repr(pool) == "<Pool state=CLOSE processes=2>"
    for refused in (lambda: pool.map(square, [1]), lambda: pool.apply(square, (1,)), pool.__enter__):
        with pytest.raises(ValueError, match="not running"):
            refused()
    slow.open()
    pool.join()
    assert result.get(0) == "through"
    assert list(items) == [value * value for value in range(20)]


def test_join_needs_a_closed_pool() -> None:
    with Pool(1) as pool, pytest.raises(ValueError, match="still running"):
        pool.join()


def test_terminate_fails_what_has_not_finished(gate: Callable[[str], Gate]) -> None:
    stuck = gate("stuck")
    pool = Pool(1)
    running, waiting = pool.apply_async(pass_gate, (stuck,)), pool.apply_async(square, (1,))
    pool.terminate()
    pool.join()
    for result in (running, waiting):
        with pytest.raises(ActorDiedError, match="terminated"):
            result.get(timeout=20)
    pool.terminate()


def test_the_end_of_the_block_terminates() -> None:
    with Pool(1) as pool:
        pass
    assert repr(pool) == "<Pool state=TERMINATE processes=1>"
    with pytest.raises(ValueError, match="not running"):
        pool.apply(square, (1,))


def test_a_result_outlives_the_last_reference_to_its_pool() -> None:
    assert Pool(1).map_async(square, range(10), chunksize=1).get(30)[-1] == 81


def test_bad_arguments_are_refused(shared: Pool) -> None:
    for processes in (0, -1):
        with pytest.raises(ValueError, match="1 or more"):
            Pool(processes)
    with pytest.raises(TypeError, match="processes"):
        Pool("two")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="2 CPUs"):
        Pool(99)
    with pytest.raises(ValueError, match="maxtasksperchild"):
        Pool(1, maxtasksperchild=0)
    with pytest.raises(TypeError, match="initializer"):
        Pool(1, initializer=5)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="callable"):
        shared.map(5, [1])  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="chunksize"):
        shared.map(square, [1], chunksize=0)


def test_a_pool_cannot_be_pickled(shared: Pool) -> None:
    with pytest.raises(NotImplementedError, match="pickled"):
        pickle.dumps(shared)


def test_the_default_size_is_the_clusters() -> None:
    with Pool() as pool:
        assert repr(pool) == "<Pool state=RUN processes=2>"


def test_the_package_has_the_names_of_multiprocessing() -> None:
    assert TimeoutError is multiprocessing.TimeoutError
    assert JoinableQueue is not None
    assert ray.is_initialized()
