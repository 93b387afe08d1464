"""Which operator starts work next: the one nearest to the end that may, so that blocks are used up before more are made.

An operator may start a piece of work while what it holds (results nobody has taken, results to be expected of what it
runs) is within its share of the budget; one that runs nothing and whose results are all taken may always start one, so
that every plan comes to an end with any budget. Pure: all that it knows comes in as arguments.
"""

from __future__ import annotations

from collections.abc import Sequence

from skate.data.execution.operators import Running

#: Pieces that an operator may be ahead of the oldest that has not ended.
WINDOW = 64
#: What a piece of work is expected to give before any has ended.
FIRST_BYTES = 16 << 20


class Limits:
    """What a run may use: bytes of blocks, and tasks at once."""

    def __init__(self, budget_bytes: int, slots: int) -> None:
        self.budget_bytes = budget_bytes
        self.slots = slots


def choose(operators: Sequence[Running], limits: Limits) -> Running | None:
    """The operator that starts its next piece of work now, or None; `operators` are in the order of the plan."""
    if sum(operator.running for operator in operators) >= limits.slots:
        return None
    working = [operator for operator in operators if not operator.finished]
    share = limits.budget_bytes // max(1, len(working))
    for operator in reversed(operators):
        if operator.has_work() and may_start(operator, share):
            return operator
    return None


def may_start(operator: Running, share: int) -> bool:
    """Whether one more piece of work fits into what an operator may use."""
    most = operator.compute.tasks
    if most is not None and operator.running >= most:
        return False
    if not operator.running and not operator.outputs.bytes:
        return True
    if operator.outputs.ordered and len(operator.outputs.ended) + operator.running >= WINDOW:
        return False
    held = operator.outputs.bytes + (operator.running + 1) * expected_bytes(operator)
    return held <= share


def expected_bytes(operator: Running) -> int:
    """What a piece of work gives, by those that have ended."""
    ended = operator.tasks - operator.running
    return operator.bytes_out // ended if ended > 0 else FIRST_BYTES
