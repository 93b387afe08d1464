"""Feasibility of requests: checked at submission, from the request and the resources of the cluster."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from skate.core.schedule.infeasible_request import infeasible_message
from skate.core.task.task import Task
from skate.protocol.fields import ErrorValue
from skate.protocol.states import PLAIN
from skate.protocol.strategies import BundleStrategy, LabelStrategy, NodeStrategy

if TYPE_CHECKING:
    from collections.abc import Callable

    from skate.core.cluster.membership import Membership
    from skate.core.schedule.scheduler import Scheduler

    BundleRefusal = Callable[[Task, bytes, int], ErrorValue | None]


class Feasibility:
    """Compares tasks with the total resources of the cluster's nodes."""

    def __init__(self, scheduler: Scheduler, members: Membership, bundle_refusal: BundleRefusal) -> None:
        self.scheduler = scheduler
        self.members = members
        self._bundle_refusal = bundle_refusal

    def refusal(self, task: Task) -> ErrorValue | None:
        """Return why a task can never run on the current cluster, or None; cached until the cluster changes."""
        template = task.template
        version, nodes = template.judged
        # What can run still can when another node has joined, so that changes no version.
        if version != self.scheduler.version or (
            template.refusal is not None and nodes != len(self.members.alive)
        ):
            template.judged = self.scheduler.version, len(self.members.alive)
            template.refusal = self._judge(task)
        strategy = template.strategy
        if isinstance(strategy, NodeStrategy) and strategy.when_busy == "fail" and not task.missing:
            return template.refusal or self._busy(task, strategy.node_id)
        return template.refusal

    def _busy(self, task: Task, node_id: bytes) -> ErrorValue | None:
        """Return the error of a task that must not wait for its node, if that has no room now."""
        need = task.template.placement or task.template.request
        for peer in (self.members.here, *self.members.alive.values()):
            if peer.node_id == node_id and peer.fits(need):
                return None
        what = "Task" if task.kind == PLAIN else "Actor"
        text = (
            f"{task.template.name} must run on node {node_id.hex()} without waiting (_fail_on_unavailable=True), but the node "
            "has no room for it now; pass _fail_on_unavailable=False to wait"
        )
        return (f"{what}UnschedulableError", {"message": text})

    def _judge(self, task: Task) -> ErrorValue | None:
        template = task.template
        strategy = template.strategy
        what = "Task" if task.kind == PLAIN else "Actor"
        if isinstance(strategy, BundleStrategy):
            return self._bundle_refusal(task, strategy.group_id, strategy.bundle)
        totals = self.members.totals()
        if isinstance(strategy, NodeStrategy):
            _, wanted, soft, _ = strategy
            if not soft and wanted not in self.members.ids():
                known = ", ".join(each.hex() for each in self.members.ids())
                text = (
                    f"{template.name} must run on node {wanted.hex()}, but no such node is alive; alive: {known}; "
                    "choose one of them or pass soft=True"
                )
                return (f"{what}UnschedulableError", {"message": text})
            if not soft:
                totals = [
                    total for each, total in zip(self.members.ids(), totals, strict=True) if each == wanted
                ]
        if isinstance(strategy, LabelStrategy):
            hard = strategy.hard
            if not any(matches(labels, hard) for labels in self.members.labels()):
                text = (
                    f"{template.name} requests a node with labels {hard}, but the nodes have "
                    f"{self.members.labels()}"
                )
                return (f"{what}UnschedulableError", {"message": text})
            totals = [
                total
                for labels, total in zip(self.members.labels(), totals, strict=True)
                if matches(labels, hard)
            ]
        request = {**template.request, **template.placement}
        if any(all(total.get(name, 0) >= units for name, units in request.items()) for total in totals):
            return None
        if not isinstance(strategy, NodeStrategy) and self.members.can_grow():
            return None
        message = infeasible_message(request, totals, template.name)
        return (f"{what}UnschedulableError", {"message": message})


def matches(labels: dict[str, str], wanted: Any) -> bool:
    """Return True if a node's labels meet conditions (key, operator, values); operators: in, not_in, exists, absent, any."""
    for key, operator, values in wanted:
        if operator == "any":  # one of several sets of conditions
            if not any(matches(labels, each) for each in values):
                return False
            continue
        value = labels.get(key)
        if operator == "in" and value not in values:
            return False
        if operator == "not_in" and value in values:
            return False
        if operator == "exists" and value is None:
            return False
        if operator == "absent" and value is not None:
            return False
    return True
