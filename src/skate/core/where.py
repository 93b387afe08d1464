"""On which node a task runs: a function of what it asks for and of what the nodes have."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from skate.core.feasibility import matches
from skate.core.tasks import PLAIN, Task, Template

if TYPE_CHECKING:
    from skate.core.peers import Peer, Peers


class Where:
    """Chooses nodes."""

    def __init__(self, peers: Peers) -> None:
        self._peers = peers
        self._turn = 0

    def choose(self, task: Task) -> Peer | None:
        """The node for a task, this one included; None if it has to wait for one."""
        peers = self._peers
        here = peers.here
        template = task.template
        kind = template.strategy[0] if template.strategy else ""
        if kind == "bundle":
            return self._bundle(task)
        nodes = self.candidates(template)
        if not nodes:
            return None
        if len(nodes) == 1 and (kind == "node" or nodes[0] is here):
            return nodes[0]
        need = self._need(template)
        if kind == "spread":
            return self._spread(task, nodes, need)
        near = self._near(task, nodes, need)
        if near is not None:
            return near
        if here in nodes and self._free_here(task, need):
            return here
        other = self._roomiest(task, nodes, need)
        if other is not None:
            return other
        return here if here in nodes else None

    def somewhere(self, task: Task) -> bool:
        """Whether some node would take a task now; whose turn it is stays as it was."""
        turn = self._turn
        found = self.choose(task) is not None
        self._turn = turn
        return found

    def elsewhere(self, task: Task) -> Peer | None:
        """A peer that has room for a task that is queued here, or None."""
        template = task.template
        kind = template.strategy[0] if template.strategy else ""
        if kind in ("bundle", "node"):
            return None
        return self._roomiest(task, self.candidates(template), self._need(template))

    def candidates(self, template: Template) -> list[Peer]:
        """The nodes that could run it when they are idle, those that it would rather have if there are such."""
        peers = self._peers
        strategy = template.strategy
        kind = strategy[0] if strategy else ""
        nodes = [peers.here, *peers.alive.values()]
        request, placement = template.request, template.placement
        nodes = [n for n in nodes if _has(n.total, request) and _has(n.total, placement)]
        if strategy is None or kind == "spread":
            return nodes
        if kind == "node":
            _, wanted, soft = strategy[:3]
            found = [n for n in nodes if n.node_id == wanted]
            return found or (nodes if soft else [])
        if kind == "labels":
            _, hard, preferred = strategy[:3]
            nodes = [n for n in nodes if matches(n.labels, hard)]
            return [n for n in nodes if matches(n.labels, preferred)] or nodes
        return nodes

    @staticmethod
    def _need(template: Template) -> dict[str, int]:
        return template.placement if template.placement else template.request

    def _free_here(self, task: Task, need: dict[str, int]) -> bool:
        scheduler = self._peers.node.scheduler
        return self._peers.here.fits(need) and scheduler.class_of(task) not in scheduler.waiting

    def _room(self, task: Task, peer: Peer, need: dict[str, int]) -> bool:
        """Whether a peer can take one more: it has it free, or its short tasks will soon be through."""
        if peer.fits(need):
            return True
        if task.kind != PLAIN:
            return False
        scheduler = self._peers.node.scheduler
        depth = scheduler.depth(task)
        under_way = peer.classes.get(scheduler.class_of(task), 0)
        if depth <= 1 or not under_way:
            return False
        slots = min((peer.total[name] // units for name, units in need.items() if units), default=1)
        return under_way < depth * slots

    def _roomiest(self, task: Task, nodes: list[Peer], need: dict[str, int]) -> Peer | None:
        here = self._peers.here
        best: Peer | None = None
        most = -1.0
        for node in nodes:
            if node is here or not self._room(task, node, need):
                continue
            free = min(
                (node.available.get(n, 0) / node.total[n] for n in need if node.total.get(n)), default=1.0
            )
            if free > most:
                best, most = node, free
        return best

    def _near(self, task: Task, nodes: list[Peer], need: dict[str, int]) -> Peer | None:
        """The node where the largest argument is, if it has room."""
        if not task.deps:
            return None
        objects = self._peers.node.objects
        best: Any = None
        most = 0
        for _, oid in task.deps:
            record = objects.get(oid)
            if record is not None and record.size > most:
                most = record.size
                best = (
                    self._peers.here
                    if record.away is None or record.away.place is None
                    else record.away.place
                )
        if best is None or best not in nodes:
            return None
        if best is self._peers.here:
            return best if self._free_here(task, need) else None
        return best if self._room(task, best, need) else None

    def _spread(self, task: Task, nodes: list[Peer], need: dict[str, int]) -> Peer | None:
        """In turn among those that have room."""
        here = self._peers.here
        count = len(nodes)
        for step in range(count):
            node = nodes[(self._turn + step) % count]
            if self._free_here(task, need) if node is here else node.fits(need):
                self._turn += step + 1
                return node
        return here if here in nodes else None

    def _bundle(self, task: Task) -> Peer | None:
        """Where its bundle is; of several that would do, the one with the fewest tasks to a bundle."""
        peers = self._peers
        _, group_id, index = task.template.strategy[:3]  # type: ignore[index]
        group = peers.node.placement.groups.get(group_id)
        if group is None:
            return peers.here
        if index >= 0:
            return group.places.get(index)
        scheduler = peers.node.scheduler
        sched_class = scheduler.class_of(task)
        request = task.template.request
        best: Peer | None = None
        least = 0.0
        for node in dict.fromkeys(group.places.values()):
            bundles = [group.bundles[i] for i, place in group.places.items() if place is node]
            slots = sum(_slots(bundle, request) for bundle in bundles)
            if not slots:
                continue
            if node is peers.here:
                load = (len(sched_class.queue) + len(sched_class.workers)) / slots
            else:
                load = node.classes.get(sched_class, 0) / slots
            if best is None or load < least:
                best, least = node, load
        return best


def _has(total: dict[str, int], request: dict[str, int]) -> bool:
    return all(total.get(name, 0) >= units for name, units in request.items())


def _slots(bundle: dict[str, int], request: dict[str, int]) -> int:
    """How often a request fits into a bundle."""
    return min((bundle.get(name, 0) // units for name, units in request.items() if units), default=1)
