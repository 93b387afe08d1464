"""The decision of the autoscaler, by examples and by properties."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from skate.autoscaler.demand import Demand, Group, Limits, Node, fits, holds, target, to_retire, too_large

WORKER = {"CPU": 4.0, "GPU": 1.0}
HEAD = Node("head", {"CPU": 1.0}, {"CPU": 1.0}, is_head=True)
BUSY_HEAD = Node("head", {"CPU": 1.0}, {"CPU": 0.0}, is_head=True)
LIMITS = Limits(0, 10, 60.0)


def cpus(*amounts: float) -> tuple[dict[str, float], ...]:
    return tuple({"CPU": amount} for amount in amounts)


def worker(name: str, free: float = 4.0, idle_s: float = 0.0, draining: bool = False) -> Node:
    return Node(name, {"CPU": 4.0}, {"CPU": free}, idle_s, draining)


CASES: dict[str, tuple[list[Node], int, Demand, int]] = {
    "nothing waits": ([HEAD], 0, Demand(), 0),
    "it fits on the head": ([HEAD], 0, Demand(cpus(1)), 0),
    "four tasks share a worker": ([BUSY_HEAD], 0, Demand(cpus(1, 1, 1, 1)), 1),
    "five do not": ([BUSY_HEAD], 0, Demand(cpus(1, 1, 1, 1, 1)), 2),
    "a worker that starts counts": ([BUSY_HEAD], 1, Demand(cpus(1, 1, 1, 1)), 1),
    "one that drains does not": ([BUSY_HEAD, worker("a", draining=True)], 0, Demand(cpus(4)), 1),
    "no worker could run it": ([HEAD], 0, Demand(cpus(5)), 0),
    "never more than the limit": ([HEAD], 0, Demand(cpus(*[4.0] * 50)), 10),
    "packed bundles": ([HEAD], 0, Demand(groups=(Group(cpus(2, 2), "STRICT_PACK"),)), 1),
    "bundles apart": ([HEAD], 0, Demand(groups=(Group(cpus(1, 1, 1), "STRICT_SPREAD"),)), 2),
    "requested, though nothing waits": ([HEAD], 0, Demand(requested=cpus(4, 4, 4)), 3),
    "requested, and there": ([HEAD, worker("a", free=0)], 0, Demand(requested=cpus(4)), 1),
    "fractions add up": ([BUSY_HEAD], 0, Demand(({"GPU": 0.1},) * 10), 1),
}


@pytest.mark.parametrize("case", CASES)
def test_targets(case: str) -> None:
    nodes, starting, demand, wanted = CASES[case]
    assert target(nodes, starting, demand, WORKER, LIMITS) == wanted


def test_the_first_worker_shows_its_size() -> None:
    assert target([HEAD], 0, Demand(cpus(4, 4, 4)), None, LIMITS) == 1
    assert target([HEAD], 1, Demand(cpus(4, 4, 4)), None, LIMITS) == 1
    assert target([HEAD, worker("a", free=0)], 0, Demand(cpus(4, 4)), {"CPU": 4.0}, LIMITS) == 3


def test_unused_workers_end_after_their_time() -> None:
    nodes = [
        HEAD,
        worker("a", idle_s=61),
        worker("b", idle_s=59),
        worker("c", free=3, idle_s=100),
        worker("d", idle_s=90),
    ]
    assert to_retire(nodes, Demand(), LIMITS) == ["d", "a"]
    assert to_retire(nodes, Demand(), Limits(3, 10, 60.0)) == ["d"]
    assert to_retire(nodes, Demand(tasks=cpus(1)), LIMITS) == []
    assert to_retire(nodes, Demand(requested=cpus(4, 4, 4)), LIMITS) == ["d"]


amounts = st.sampled_from([0.5, 1.0, 2.0, 4.0, 5.0])
shapes = st.builds(
    lambda c, g: {"CPU": c, **({"GPU": g} if g else {})}, amounts, st.sampled_from([0.0, 0.5, 1.0])
)


@st.composite
def nodes_of(draw: st.DrawFn) -> list[Node]:
    made = [draw(st.sampled_from([HEAD, BUSY_HEAD]))]
    for number in range(draw(st.integers(0, 5))):
        free = {"CPU": draw(st.sampled_from([0.0, 2.0, 4.0])), "GPU": draw(st.sampled_from([0.0, 1.0]))}
        made.append(
            Node(
                f"w{number}",
                WORKER,
                free,
                draw(st.sampled_from([0.0, 59.0, 60.0, 900.0])),
                draw(st.booleans()),
            )
        )
    return made


groups = st.builds(
    Group,
    st.lists(shapes, min_size=1, max_size=4).map(tuple),
    st.sampled_from(["PACK", "SPREAD", "STRICT_PACK", "STRICT_SPREAD"]),
)
demands = st.builds(
    Demand,
    st.lists(shapes, max_size=8).map(tuple),
    st.lists(groups, max_size=3).map(tuple),
    st.lists(shapes, max_size=5).map(tuple),
)
limits = st.builds(lambda low, more: Limits(low, low + more, 60.0), st.integers(0, 3), st.integers(0, 8))


@settings(max_examples=50, deadline=None)
@given(nodes_of(), st.integers(0, 3), demands, st.sampled_from([None, WORKER]), limits)
def test_the_target_keeps_its_limits_and_grows_with_the_demand(
    nodes: list[Node], starting: int, demand: Demand, size: dict[str, float] | None, bounds: Limits
) -> None:
    found = target(nodes, starting, demand, size, bounds)
    assert bounds.min_workers <= found <= bounds.max_workers
    running = sum(1 for node in nodes if not node.is_head and not node.draining)
    nothing = target(nodes, starting, Demand(), size, bounds)
    assert nothing == max(bounds.min_workers, min(bounds.max_workers, running + starting))
    assert found >= nothing


@settings(max_examples=50, deadline=None)
@given(nodes_of(), st.lists(shapes, max_size=8))
def test_enough_workers_start_for_all_tasks_that_a_worker_can_run(
    nodes: list[Node], tasks: list[dict[str, float]]
) -> None:
    possible = tuple(task for task in tasks if fits(task, WORKER))
    found = target(nodes, 0, Demand(possible), WORKER, Limits(0, 100, 60.0))
    running = [node for node in nodes if not node.is_head and not node.draining]
    rooms = [dict(node.free) for node in nodes if not node.draining]
    assert holds(rooms + [dict(WORKER) for _ in range(found - len(running))], possible)


@settings(max_examples=50, deadline=None)
@given(nodes_of(), demands, limits)
def test_only_unused_workers_end_and_what_is_requested_stays(
    nodes: list[Node], demand: Demand, bounds: Limits
) -> None:
    ended = to_retire(nodes, demand, bounds)
    by_name = {node.name: node for node in nodes}
    for name in ended:
        node = by_name[name]
        assert node.free == node.total and node.idle_s >= 60.0 and not node.is_head and not node.draining
    workers = [node for node in nodes if not node.is_head and not node.draining]
    assert not ended or len(workers) - len(ended) >= bounds.min_workers
    rest = [dict(node.total) for node in nodes if not node.draining and node.name not in ended]
    assert not ended or holds(rest, demand.requested)


@settings(max_examples=50, deadline=None)
@given(nodes_of(), demands, limits)
def test_a_worker_that_ends_is_not_started_again_at_once(
    nodes: list[Node], demand: Demand, bounds: Limits
) -> None:
    ended = set(to_retire(nodes, demand, bounds))
    if not ended:
        return
    waiting = Demand(requested=demand.requested)
    rest = [node for node in nodes if node.name not in ended]
    running = sum(1 for node in rest if not node.is_head and not node.draining)
    assert target(rest, 0, waiting, WORKER, bounds) <= max(running, bounds.min_workers)


def test_requests_that_no_worker_could_ever_hold() -> None:
    demand = Demand(
        cpus(1, 5, 5, 8), (Group(cpus(3, 3), "STRICT_PACK"), Group(cpus(3, 3), "STRICT_SPREAD")), cpus(9)
    )
    large = Node("large", {"CPU": 8.0}, {"CPU": 0.0})
    assert too_large([HEAD], demand, WORKER) == [{"CPU": 5}, {"CPU": 8}, {"CPU": 6.0}, {"CPU": 9}]
    assert too_large([HEAD, large], demand, WORKER) == [{"CPU": 9}]
