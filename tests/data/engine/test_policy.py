"""Decisions of a run: which work may start, which results are read, how many actors to run; and their queues."""

from __future__ import annotations

import pyarrow as pa

from skate.data.compute import Compute
from skate.data.execution import policy
from skate.data.execution.bundle import Bundle
from skate.data.execution.limits import Limits
from skate.data.execution.operators import ChainRunning, Outputs
from skate.data.execution.passing_operators import LimitRunning, MixRunning, UnionRunning, ZipRunning
from skate.data.execution.topology import Topology

SCHEMA = pa.schema([("a", pa.int64())])


def bundle(rows: int = 1, size: int = 100) -> Bundle:
    made = Bundle.of(pa.table({"a": list(range(rows))}))
    made.bytes = size
    return made


def chain(name: str, blocks: int = 0, **options: object) -> ChainRunning:
    sources = [object() for _ in range(blocks)] if blocks else None
    return ChainRunning(name, [], sources=sources, **options)  # type: ignore[arg-type]


def line(*operators: ChainRunning) -> Topology:
    topology = Topology()
    before = None
    for operator in operators:
        topology.add(operator, [] if before is None else [before])
        before = operator
    return topology


def first(topology: Topology, limits: Limits) -> object:
    return next(policy.choose(topology, limits), None)


def test_results_come_out_in_the_order_of_their_pieces() -> None:
    outputs = Outputs(ordered=True)
    outputs.add(1, bundle(size=7))
    outputs.end(1)
    assert not outputs.ready and outputs.waiting_bytes == 7
    outputs.add(0, bundle(size=3))
    assert outputs.ready_bytes == 3
    outputs.end(0)
    assert [outputs.pop().bytes, outputs.pop().bytes] == [3, 7]
    assert outputs.bytes == 0


def test_the_step_nearest_to_the_end_starts_first() -> None:
    reading, mapping = chain("read", 4), chain("map")
    topology = line(reading, mapping)
    limits = Limits(1 << 40, 8)
    assert first(topology, limits) is reading
    mapping.take(bundle(), 0)
    assert first(topology, limits) is mapping


def test_what_waits_at_the_next_step_holds_back_the_one_before() -> None:
    reading, mapping = chain("read", 9), chain("map")
    topology = line(reading, mapping)
    limits = Limits(2000, 8)
    mapping.take(bundle(size=900), 0)
    assert policy.held_bytes(reading, topology) == 900
    mapping.next_work()  # it is worked on now, so it no longer waits
    assert policy.held_bytes(reading, topology) == 0
    mapping.take(bundle(size=1500), 0)
    reading.tasks, reading.bytes_out = 1, 100
    assert not policy.may_start(reading, topology, policy.share_of(limits, topology))


def test_one_that_runs_nothing_and_holds_nothing_may_always_start() -> None:
    reading = chain("read", 3)
    topology = line(reading)
    assert policy.may_start(reading, topology, 0)
    reading.next_work()
    assert not policy.may_start(reading, topology, 0)


def test_a_full_house_does_not_keep_back_one_that_runs_nothing() -> None:
    reading, mapping = chain("read", 9), chain("map")
    topology = line(reading, mapping)
    limits = Limits(1 << 40, 2)
    reading.next_work(), reading.next_work()
    assert first(topology, limits) is None
    mapping.take(bundle(), 0)
    assert first(topology, limits) is mapping


def test_the_oldest_piece_is_read_others_only_while_there_is_room() -> None:
    reading = chain("read", 4)
    topology = line(reading)
    oldest, other = reading.next_work(), reading.next_work()
    reading.give(other, bundle(size=500))
    limits = Limits(400, 8)
    assert policy.readable(reading, oldest.sequence, topology, limits)
    assert not policy.readable(reading, other.sequence, topology, limits)
    assert policy.readable(reading, other.sequence, topology, Limits(10_000, 8))


def test_no_piece_is_held_back_where_that_would_keep_a_later_step_from_a_cpu() -> None:
    reading, mapping = chain("read", 4), chain("map")
    topology = line(reading, mapping)
    reading.next_work()
    other = reading.next_work()
    mapping.take(bundle(size=500), 0)
    assert policy.readable(reading, other.sequence, topology, Limits(100, 8, cpus=2))
    assert not policy.readable(reading, other.sequence, topology, Limits(100, 8, cpus=4))


def test_concurrency_bounds_the_pieces_at_once() -> None:
    reading = chain("read", 4, compute=Compute(tasks=2))
    topology = line(reading)
    reading.next_work(), reading.next_work()
    assert first(topology, Limits(1 << 40, 8)) is None


def test_actors_are_dealt_out_so_that_each_pool_has_one() -> None:
    one = {"CPU": 1.0}
    assert policy.allot({"CPU": 4}, [one, one], [8, 8]) == [2, 2]
    assert policy.allot({"CPU": 3}, [one, one], [8, 1]) == [2, 1]
    assert policy.allot({"CPU": 1}, [one, one], [1, 1]) == [1, 0]
    assert policy.allot({"CPU": 2, "GPU": 1}, [{"GPU": 1.0}, one], [4, 4]) == [1, 2]


def test_a_limit_lets_its_rows_through_and_is_full() -> None:
    limit = LimitRunning("limit", 3)
    limit.take(bundle(2), 0)
    assert not limit.full
    limit.take(bundle(5), 0)
    assert limit.full and [each.rows for each in limit.outputs.ready] == [2, 1]
    assert LimitRunning("limit", 0).full is False  # a first block tells the columns


def test_a_union_waits_with_later_inputs_and_holds_back_only_them() -> None:
    union = UnionRunning("union", 2)
    union.take(bundle(1, 50), 1)
    assert (union.holds(0), union.holds(1)) == (0, 50)
    union.take(bundle(2, 10), 0)
    assert [each.rows for each in union.outputs.ready] == [2]
    union.end(0)
    assert [each.rows for each in union.outputs.ready] == [2, 1] and union.holds(1) == 0


def test_a_zip_pairs_rows_as_they_come_from_blocks_of_any_size() -> None:
    zipped = ZipRunning("zip", 2)
    zipped.take(bundle(3), 0)
    assert not zipped.has_work()
    zipped.take(bundle(2), 1)
    assert not zipped.has_work()
    zipped.take(bundle(4), 1)
    work = zipped.next_work()
    assert [each.rows for each in work.bundles] == [3, 2, 1]
    zipped.take(bundle(3), 0)
    zipped.end(0)
    zipped.end(1)
    assert [each.rows for each in zipped.next_work().bundles] == [3, 3]
    assert not zipped.has_work()


def test_a_mix_takes_from_each_in_proportion() -> None:
    mix = MixRunning("mix", [2, 1], stop_on_shortest=False)
    for _ in range(4):
        mix.take(bundle(1, 1), 0)
        mix.take(bundle(1, 2), 1)
    mix.end(0), mix.end(1)
    assert [each.bytes for each in mix.outputs.ready] == [1, 2, 1, 1, 2, 1, 2, 2]
