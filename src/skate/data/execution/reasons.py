"""Why an operator starts no more work now, in the words of users: the policy's rules in the order in which it applies them."""

from __future__ import annotations

from typing import NamedTuple

from skate.data.execution import policy
from skate.data.execution.limits import Limits
from skate.data.execution.operators import Running
from skate.data.execution.stats import size_text
from skate.data.execution.topology import Topology


class Reason(NamedTuple):
    """The rule that holds an operator back, "" if none does, and a sentence about it."""

    rule: str
    text: str


DONE, INPUT, CPUS, CONCURRENCY, ORDER, MEMORY, ACTORS, NONE = (
    "done", "input", "cpus", "concurrency", "order", "memory", "actors", "",
)  # fmt: skip


def why_not(operator: Running, topology: Topology, limits: Limits, has_room: bool = True) -> Reason:
    """Return why an operator starts no piece of work now.

    Args:
        operator: the operator.
        topology: all operators.
        limits: what the run may use.
        has_room: False if it runs in actors, and all of them are busy.
    """
    if operator.finished:
        return Reason(DONE, "It is done.")
    if not operator.has_work():
        return _without_work(operator, topology)
    running = sum(each.running for each in topology.operators if each.compute.actors is None)
    if running >= limits.slots and operator.compute.actors is None and operator.running:
        return Reason(CPUS, f"The run has {running} tasks in progress, as many as the session's CPUs allow.")
    found = _own_limit(operator, topology, policy.share_of(limits, topology))
    if found.rule or has_room:
        return found
    return Reason(ACTORS, "All of its actors are busy.")


def _own_limit(operator: Running, topology: Topology, share: int) -> Reason:
    """Return the rule of `policy.may_start` that an operator with work does not meet."""
    most = operator.compute.tasks
    if most is not None and operator.running >= most:
        return Reason(CONCURRENCY, f"It runs {operator.running} tasks, and concurrency allows {most}.")
    held = policy.held_bytes(operator, topology)
    if not operator.running and not held:
        return Reason(NONE, "It may start more work.")
    early = len(operator.outputs.ended) + operator.running
    if operator.outputs.ordered and early >= policy.WINDOW:
        return Reason(
            ORDER, f"Results are kept in order, and {early} pieces of work are ahead of the oldest."
        )
    if held + (operator.running + 1) * policy.expected_bytes(operator) > share:
        return Reason(MEMORY, _about_memory(operator, topology, held, share))
    return Reason(NONE, "It may start more work.")


def _without_work(operator: Running, topology: Topology) -> Reason:
    waits_for = [each.name for each in topology.inputs_of(operator) if not each.finished]
    if waits_for:
        return Reason(INPUT, f"It waits for blocks of {', '.join(waits_for)}.")
    if operator.running:
        return Reason(INPUT, "Its last pieces of work are in progress.")
    return Reason(INPUT, _about_results(operator, topology))


def _about_results(operator: Running, topology: Topology) -> str:
    target = topology.target_of(operator)
    taker = "the program that reads the dataset" if target is None else target[0].name
    return f"Its last results wait for {taker}."


def _about_memory(operator: Running, topology: Topology, held: int, share: int) -> str:
    next_bytes = policy.expected_bytes(operator)
    target = topology.target_of(operator)
    while target is not None and target[0].passes:
        target = topology.target_of(target[0])
    taker = "the program that reads the dataset" if target is None else target[0].name
    parts = [f"results of {size_text(held)} wait for {taker}"] if held else []
    if operator.running:
        added = size_text(operator.running * next_bytes)
        parts.append(f"its {operator.running} pieces of work in progress are expected to add {added}")
    text = " and ".join(parts)
    return f"{text[:1].upper()}{text[1:]}; one more with {size_text(next_bytes)} would exceed its share of {size_text(share)}."
