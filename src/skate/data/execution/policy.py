"""Decisions of a run: which work may start, which results to read, how many actors to run. Pure.

An operator holds blocks that are not yet consumed: results of its own, results queued at the next operator, and
the expected results of its running pieces of work. It may start another piece while that is within its share of
the budget. The operator nearest to the end comes first, so that blocks are consumed before more are made.

Why every plan ends, with any budget: an operator that runs nothing and whose results are all consumed may
always start a piece. Take the last operator that has anything left to do: nothing waits behind it, so it may
start a piece, or it runs one whose results are read, as the oldest piece's always are; see `readable`. Pieces
of other operators cannot keep it from a CPU forever: when all CPUs are taken, no piece is held back, so one of
them ends.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from skate.data.execution.limits import Limits
from skate.data.execution.operators import Running
from skate.data.execution.topology import Topology
from skate.resources import Resources

#: How many pieces an operator may be ahead of its oldest unfinished one.
WINDOW = 64
#: The expected output of a piece of work before any has ended.
FIRST_BYTES = 16 << 20


def share_of(limits: Limits, topology: Topology) -> int:
    """Return the bytes that one operator may hold."""
    working = sum(not operator.finished for operator in topology.operators)
    return limits.budget_bytes // max(1, working)


def choose(topology: Topology, limits: Limits) -> Iterator[Running]:
    """Return the operators that may start a piece of work now, the best first."""
    operators = topology.operators
    running = sum(operator.running for operator in operators if operator.compute.actors is None)
    share = share_of(limits, topology)
    for operator in reversed(operators):
        if not operator.has_work():
            continue
        pooled = operator.compute.actors is not None
        # An idle operator is not held back by the pieces of others; otherwise the last step might wait for
        # the first forever.
        if running >= limits.slots and not pooled and operator.running:
            continue
        if may_start(operator, topology, share):
            yield operator


def may_start(operator: Running, topology: Topology, share: int) -> bool:
    """True if one more piece of work fits into the operator's share."""
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
    """Return the bytes of results not yet consumed: here, and on the way to the next working operator."""
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
    """Return the expected output of a piece of work, judged by those that have ended."""
    ended = operator.tasks - operator.running
    return operator.bytes_out // ended if ended > 0 else FIRST_BYTES


def readable(operator: Running, sequence: int, topology: Topology, limits: Limits) -> bool:
    """True if the next result of a piece of work is read now; False to make the piece wait.

    The results of the oldest piece are always read, unless it has unused earlier ones; those of other pieces
    while there is room.
    """
    share = share_of(limits, topology)
    held = held_bytes(operator, topology)
    if held < share or (sequence == operator.outputs.head and not held - operator.outputs.waiting_bytes):
        return True
    return _cpus_taken(operator, topology, limits)


def _cpus_taken(operator: Running, topology: Topology, limits: Limits) -> bool:
    """True if waiting pieces could keep a later operator from a CPU."""
    wanted = any(
        (each.running or each.has_work()) and each.compute.actors is None for each in topology.after(operator)
    )
    if not wanted:
        return False
    taken = sum(each.running * each.cpus for each in topology.operators if each.compute.actors is None)
    return taken >= limits.cpus


def allot(
    totals: Mapping[str, float], requested: Sequence[Mapping[str, float]], wanted: Sequence[int]
) -> list[int]:
    """Divide the resources among pools: the number of actors of each, first one each, then more in turn.

    Pool number i needs `wanted[i]` actors that request `requested[i]` each. A pool that gets none has 0.
    """
    left = Resources(totals)
    needs = [Resources(each) for each in requested]
    given = [0] * len(needs)
    moved = True
    while moved:
        moved = False
        for i, request in enumerate(needs):
            if given[i] < wanted[i] and request.fits(left):
                left -= request
                given[i] += 1
                moved = True
    return given
