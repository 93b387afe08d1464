"""Choice of the node for a task, from its request and the resources of the nodes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from skate.core.cluster.node_capacity_index import LINEAR_MAX, Changes, Choices, Ranking
from skate.core.schedule.feasibility import matches
from skate.core.task.task import Task, Template
from skate.protocol.states import PLAIN
from skate.protocol.strategies import ANY_BUNDLE, BundleStrategy, LabelStrategy, NodeStrategy, SpreadStrategy
from skate.protocol.values import DRIVER_NODE

if TYPE_CHECKING:
    from skate.core.cluster.membership import Membership, Peer
    from skate.core.object.object_table import ObjectTable
    from skate.core.placement.placement_group import PlacementGroup
    from skate.core.schedule.scheduler import Scheduler


class NodeSelector:
    """Chooses nodes for tasks."""

    def __init__(
        self,
        members: Membership,
        scheduler: Scheduler,
        objects: ObjectTable,
        groups: dict[bytes, PlacementGroup],
    ) -> None:
        self._members = members
        self._scheduler = scheduler
        self._objects = objects
        self._groups = groups
        self._turn = 0
        self.changes = Changes()
        #: By template; templates with equal requests share one entry.
        self._choices: dict[bytes, Choices] = {}
        self._shared: dict[Any, Choices] = {}
        self.linear_max = LINEAR_MAX

    def members_changed(self) -> None:
        """Recompute after a node has joined or left."""
        self._choices.clear()
        self._shared.clear()
        self.changes.resize(len(self._members.alive))

    def joined(self, peer: Peer) -> None:
        """Add a node that has joined; requests that prefer some nodes to others are computed again."""
        outdated = set()
        for shape, choices in self._shared.items():
            request, placement, strategy = shape
            if (
                isinstance(strategy, NodeStrategy | LabelStrategy)
                or DRIVER_NODE in peer.labels
                or any(DRIVER_NODE in node.labels for node in choices.nodes[:1])
            ):
                outdated.add(shape)
            elif _has(peer.total, dict(request)) and _has(peer.total, dict(placement)):
                choices.add(peer)
        self._forget(outdated)

    def left(self, peer: Peer) -> None:
        """Remove a node that is lost; requests that prefer some nodes to others are computed again."""
        outdated = set()
        for shape, choices in self._shared.items():
            if peer.cid not in choices.cids:
                continue
            if isinstance(shape[2], NodeStrategy | LabelStrategy) or len(choices.nodes) == 1:
                outdated.add(shape)
            else:
                choices.remove(peer)
        self._forget(outdated)

    def _forget(self, shapes: set[Any]) -> None:
        """Have the nodes for some kinds of requests computed again when they are needed."""
        if shapes:
            gone = {id(self._shared.pop(shape)) for shape in shapes}
            for key in [key for key, choices in self._choices.items() if id(choices) in gone]:
                del self._choices[key]
        self.changes.resize(len(self._members.alive))

    def choose(self, task: Task) -> Peer | None:
        """Return the node for a task, possibly this one; None if it must wait."""
        here = self._members.here
        template = task.template
        strategy = template.strategy
        if isinstance(strategy, BundleStrategy):
            return self._bundle(task, strategy)
        choices = self._choices.get(template.key) or self.choices(template)
        nodes = choices.nodes
        if not nodes:
            return None
        if len(nodes) == 1 and (isinstance(strategy, NodeStrategy) or nodes[0] is here):
            return nodes[0]
        need = self._need(template)
        if isinstance(strategy, SpreadStrategy):
            return self._spread(task, choices, need)
        if isinstance(strategy, NodeStrategy) and nodes[0].node_id == strategy.node_id:
            return self._spilled(task, choices, need)
        near = self._near(task, choices, need)
        if near is not None:
            return near
        if choices.here is not None and self._free_here(task, need):
            return here
        other = self._roomiest(task, choices, need)
        return choices.here if other is None else other

    def somewhere(self, task: Task) -> bool:
        """Return True if any node would take a task now; leave the rotation unchanged."""
        turns = self.choices(task.template).turns
        before = self._turn, dict(turns)
        found = self.choose(task) is not None
        self._turn = before[0]
        turns.clear()
        turns.update(before[1])
        return found

    def elsewhere(self, task: Task) -> Peer | None:
        """Return a peer with room for a task that is queued here, or None."""
        template = task.template
        if isinstance(template.strategy, NodeStrategy):
            return None
        if isinstance(template.strategy, BundleStrategy):
            return self._bundle_elsewhere(task, template.strategy)
        return self._roomiest(task, self.choices(template), self._need(template))

    def choices(self, template: Template) -> Choices:
        """Return the nodes that could run it when idle; cached until a node joins or leaves."""
        found = self._choices.get(template.key)
        if found is None:
            requests = [tuple(sorted(each.items())) for each in (template.request, template.placement)]
            shape = (*requests, template.strategy)
            found = self._shared.get(shape)
            if found is None:
                nodes = self._candidates(template)
                found = self._shared[shape] = Choices(nodes, self._members.here, self.linear_max)
            self._choices[template.key] = found
        return found

    def _candidates(self, template: Template) -> list[Peer]:
        """Return the nodes that could run it when idle: only the preferred ones, if there are any."""
        peers = self._members
        strategy = template.strategy
        request, placement = template.request, template.placement
        if isinstance(strategy, NodeStrategy):
            _, wanted, soft, when_busy = strategy
            place = peers.here if wanted == peers.here.node_id else peers.by_tag.get(wanted[:8])
            if (
                place is not None
                and place.alive
                and not place.draining
                and _has(place.total, request)
                and _has(place.total, placement)
            ):
                if when_busy != "spill":
                    return [place]
            elif soft:
                place = None
            else:
                return []
        nodes = [peers.here, *peers.alive.values()]
        nodes = [n for n in nodes if not n.draining and _has(n.total, request) and _has(n.total, placement)]
        nodes = [n for n in nodes if DRIVER_NODE not in n.labels] or nodes
        if isinstance(strategy, NodeStrategy) and place is not None:
            return [place, *(n for n in nodes if n is not place)]
        if isinstance(strategy, LabelStrategy):
            _, hard, preferred = strategy
            nodes = [n for n in nodes if matches(n.labels, hard)]
            return [n for n in nodes if matches(n.labels, preferred)] or nodes
        return nodes

    @staticmethod
    def _need(template: Template) -> dict[str, int]:
        return template.placement if template.placement else template.request

    def _free_here(self, task: Task, need: dict[str, int]) -> bool:
        scheduler = self._scheduler
        return self._members.here.fits(need) and scheduler.class_of(task) not in scheduler.waiting

    def _room(self, task: Task, peer: Peer, need: dict[str, int]) -> bool:
        """Return True if a peer can take one more task: it has free resources, or its short tasks will end soon."""
        if peer.fits(need):
            return True
        if task.kind != PLAIN:
            return False
        scheduler = self._scheduler
        depth = scheduler.depth(task)
        under_way = peer.classes.get(scheduler.class_of(task), 0)
        if depth <= 1 or not under_way:
            return False
        slots = min((peer.total[name] // units for name, units in need.items() if units), default=1)
        return under_way < depth * slots

    def _roomiest(self, task: Task, choices: Choices, need: dict[str, int]) -> Peer | None:
        """Return the peer with the largest free fraction, among those with room."""
        if choices.many:
            group = self._scheduler.class_of(task)
            ranking = choices.rankings.get(group)
            if ranking is None:
                ranking = Ranking(choices.others, lambda node: -_free_part(node, need), self.changes)
                choices.rankings[group] = ranking
            return ranking.best(lambda node: self._room(task, node, need))
        best: Peer | None = None
        most = 0.0
        for node in choices.others:
            if self._room(task, node, need):
                free = _free_part(node, need)
                if best is None or free > most:
                    best, most = node, free
        return best

    def _near(self, task: Task, choices: Choices, need: dict[str, int]) -> Peer | None:
        """Return the node that has the largest argument, if it has room."""
        if not task.deps:
            return None
        objects = self._objects
        best: Any = None
        most = 0
        for _, oid in task.deps:
            record = objects.get(oid)
            if record is not None and record.size > most:
                most = record.size
                best = (
                    self._members.here
                    if record.remote is None or record.remote.place is None
                    else record.remote.place
                )
        if best is None or best.cid not in choices.cids:
            return None
        if best is self._members.here:
            return best if self._free_here(task, need) else None
        return best if self._room(task, best, need) else None

    def _spilled(self, task: Task, choices: Choices, need: dict[str, int]) -> Peer:
        """Return the first of the nodes if it has room, otherwise another one with room, if there is one."""
        first, here = choices.nodes[0], self._members.here
        if self._free_here(task, need) if first is here else self._room(task, first, need):
            return first
        if choices.here is not None and first is not here and self._free_here(task, need):
            return here
        return self._roomiest(task, choices, need) or first

    def _spread(self, task: Task, choices: Choices, need: dict[str, int]) -> Peer | None:
        """Return the next node with room, in rotation."""
        here, nodes = self._members.here, choices.nodes
        if choices.many:
            return self._spread_widely(task, choices, need)
        count = len(nodes)
        for step in range(count):
            node = nodes[(self._turn + step) % count]
            if self._free_here(task, need) if node is here else node.fits(need):
                self._turn += step + 1
                return node
        return choices.here

    def _spread_widely(self, task: Task, choices: Choices, need: dict[str, int]) -> Peer | None:
        """Return the least recently used node with room, for many nodes."""
        turns = choices.turns
        ranking = choices.rankings.get("spread")
        if ranking is None:
            ranking = Ranking(choices.others, lambda node: turns.get(node.cid, 0), self.changes)
            choices.rankings["spread"] = ranking
        best = ranking.best(lambda node: node.fits(need))
        here = choices.here
        if here is not None and (best is None or turns.get(here.cid, 0) < turns.get(best.cid, 0)):
            if best is None or self._free_here(task, need):
                best = here
        if best is not None:
            self._turn += 1
            turns[best.cid] = self._turn
        return best

    def _bundle_elsewhere(self, task: Task, strategy: BundleStrategy) -> Peer | None:
        """Return the peer with the bundle of a task that was queued here before the group had a place."""
        here = self._members.here
        group = self._groups.get(strategy.group_id)
        if group is None or strategy.bundle == ANY_BUNDLE and here in group.places.values():
            return None
        place = self._bundle(task, strategy)
        return None if place is here else place

    def _bundle(self, task: Task, strategy: BundleStrategy) -> Peer | None:
        """Return the node of its bundle; of several that fit, the one with the fewest tasks per bundle."""
        peers = self._members
        _, group_id, index, _ = strategy
        group = self._groups.get(group_id)
        if group is None:  # it was removed, and the task will soon fail for that reason
            return None
        if index != ANY_BUNDLE:
            return group.places.get(index)
        scheduler = self._scheduler
        sched_class = scheduler.class_of(task)
        request = task.template.request
        slots: dict[Peer, int] = {}
        for i, place in group.places.items():
            slots[place] = slots.get(place, 0) + _slots(group.bundles[i], request)
        best: Peer | None = None
        least = 0.0
        for node, count in slots.items():
            if not count:
                continue
            if node is peers.here:
                load = (len(sched_class.queue) + len(sched_class.workers)) / count
            else:
                load = node.classes.get(sched_class, 0) / count
            if best is None or load < least:
                best, least = node, load
        return best


def _has(total: dict[str, int], request: dict[str, int]) -> bool:
    return all(total.get(name, 0) >= units for name, units in request.items())


def _slots(bundle: dict[str, int], request: dict[str, int]) -> int:
    """Return how many times a request fits into a bundle."""
    return min((bundle.get(name, 0) // units for name, units in request.items() if units), default=1)


def _free_part(node: Peer, need: dict[str, int]) -> float:
    """Return the free fraction of a node's scarcest resource."""
    available, total = node.available, node.total
    return min((available.get(n, 0) / total[n] for n in need if total.get(n)), default=1.0)
