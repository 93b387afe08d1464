"""What may start, what may be read, how many actors there are: decisions of a run, pure.

An operator holds blocks that nobody has used up: results of its own, results that wait at the operator they go to, and what it
is expected to give by the pieces of work that are under way. It may start another piece while that is within its share of
the budget. The one nearest to the end comes first, so that blocks are used up before more are made.

Why every plan comes to an end, with any budget: an operator that runs nothing and whose results are all used up may always
start a piece. Take the last operator that has anything left to do: what it holds waits for nobody, so it may start a piece, or
it runs one whose results are read, as the oldest piece's always are; see `readable`. The pieces of others cannot keep it from a
CPU for ever: where all are taken, no piece is held back, so one of them ends.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from skate.data.execution.limits import Limits
from skate.data.execution.operators import Running
from skate.data.execution.topology import Topology

#: Pieces that an operator may be ahead of the oldest that has not ended.
WINDOW = 64
#: What a piece of work is expected to give before any has ended.
FIRST_BYTES = 16 << 20


def share_of(limits: Limits, topology: Topology) -> int:
    """Bytes that one operator may hold."""
    working = sum(not operator.finished for operator in topology.operators)
    return limits.budget_bytes // max(1, working)


def choose(topology: Topology, limits: Limits) -> Iterator[Running]:
    """The operators that may start a piece of work now, the best first."""
    operators = topology.operators
    running = sum(operator.running for operator in operators if operator.compute.actors is None)
    share = share_of(limits, topology)
    for operator in reversed(operators):
        if not operator.has_work():
            continue
        pooled = operator.compute.actors is not None
        # One that runs nothing is not kept back by the pieces of others, or the last step might wait for the first for ever.
        if running >= limits.slots and not pooled and operator.running:
            continue
        if may_start(operator, topology, share):
            yield operator


def may_start(operator: Running, topology: Topology, share: int) -> bool:
    """Whether one more piece of work fits into what an operator may use."""
    most = operator.compute.tasks
    if most is not None and operator.running >= most:
        return False
    held = held_bytes(operator, topology)
    if not operator.running and not held:
        return True
    if operator.outputs.ordered and len(operator.outputs.ended) + operator.running >= WINDOW:
        return False
    return held + (operator.running + 1) * expected_bytes(operator) <= share


def held_bytes(operator: Running, topology: Topology) -> int:
    """Bytes of results that nobody has used up: here, and on the way to the next operator that works."""
    held = operator.outputs.bytes
    target = topology.target_of(operator)
    while target is not None:
        taker, number = target
        held += taker.holds(number)
        if not taker.passes:
            break
        held += taker.outputs.ready_bytes
        target = topology.target_of(taker)
    return held


def expected_bytes(operator: Running) -> int:
    """What a piece of work gives, by those that have ended."""
    ended = operator.tasks - operator.running
    return operator.bytes_out // ended if ended > 0 else FIRST_BYTES


def readable(operator: Running, sequence: int, topology: Topology, limits: Limits) -> bool:
    """Whether the next result of a piece of work is taken now, or the piece is made to wait with it.

    The oldest piece's always are, unless results of its own wait to be used; those of others while there is room.
    """
    share = share_of(limits, topology)
    held = held_bytes(operator, topology)
    if held < share or (sequence == operator.outputs.head and not held - operator.outputs.waiting_bytes):
        return True
    return _crowded(operator, topology, limits)


def _crowded(operator: Running, topology: Topology, limits: Limits) -> bool:
    """Whether pieces that are made to wait could keep a later operator from a CPU."""
    wanted = any(
        (each.running or each.has_work()) and each.compute.actors is None for each in topology.after(operator)
    )
    if not wanted:
        return False
    taken = sum(each.running * each.cpus for each in topology.operators if each.compute.actors is None)
    return taken >= limits.cpus


def allot(
    totals: Mapping[str, float], asked: Sequence[Mapping[str, float]], wanted: Sequence[int]
) -> list[int]:
    """How many actors each of several pools may have out of what there is: one each, then more in turn.

    Pool number i wants `wanted[i]` actors that ask for `asked[i]` each. A pool that gets none has 0.
    """
    left = dict(totals)
    given = [0] * len(asked)
    moved = True
    while moved:
        moved = False
        for i, asks in enumerate(asked):
            if given[i] < wanted[i] and all(
                left.get(name, 0) >= amount - 1e-9 for name, amount in asks.items()
            ):
                for name, amount in asks.items():
                    left[name] -= amount
                given[i] += 1
                moved = True
    return given
