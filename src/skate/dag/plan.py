"""The plan of a compiled graph: the steps of each actor, and the rings between actors. Computed once, before
execution."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from skate.dag.class_node import ClassMethodNode, ClassMethodOutput
from skate.dag.input_node import InputAttributeNode
from skate.dag.loop import CONSTANT, LOCAL, RING, Step
from skate.dag.node import DAGNode
from skate.dag.topology import Topology, owner_of
from skate.experimental.channel.graph import Place, RingPlan

DRIVER = 0


def _tensors() -> Any:
    from skate.dag import tensors  # needed only for graphs that send tensors separately from their values

    return tensors


class Plan:
    """The members (the driver is 0, actors follow in the order of their first call), their steps, and the rings."""

    def __init__(self, topology: Topology, slots: int, slot_bytes: int, default: Any = "create") -> None:
        self._topology = topology
        #: The default communicators for tensors: one of the user's, or those created here.
        self._default = default
        self._created: dict[DAGNode, Any] = {}
        self.actors: list[Any] = list(dict.fromkeys(node.actor for node in topology.calls))
        self._members = {actor: number for number, actor in enumerate(self.actors, 1)}
        self._rings: dict[DAGNode, int] = {}
        plans: list[RingPlan] = []
        for node, readers in self._readers().items():
            if readers:
                self._rings[node] = len(plans)
                plans.append(RingPlan(self._member(node), readers, slots, slot_bytes))
        self.place = Place(len(self.actors) + 1, plans)
        #: (key, ring): `key` is None for the input as a whole, the index or name of a part otherwise.
        self.inputs = [
            (node.key if isinstance(node, InputAttributeNode) else None, ring)
            for node, ring in self._rings.items()
            if owner_of(node) is None
        ]
        #: The ring of each output.
        self.outputs = [self._rings[node] for node in topology.outputs]

    def _member(self, node: DAGNode) -> int:
        owner = owner_of(node)
        return DRIVER if owner is None else self._members[owner]

    def _readers(self) -> dict[DAGNode, list[int]]:
        """Return the members that read a node's value from shared memory."""
        found: dict[DAGNode, dict[int, None]] = {}
        for call in self._topology.calls:
            member = self._members[call.actor]
            for value in call.get_args():
                if isinstance(value, DAGNode) and (self._member(value) != member):
                    found.setdefault(value, {})[member] = None
        for node in self._topology.outputs:
            found.setdefault(node, {})[DRIVER] = None
        order = self._topology.numbers
        return {
            node: list(readers) for node, readers in sorted(found.items(), key=lambda item: order[item[0]])
        }

    def steps(self, actor: Any) -> list[Step]:
        """Return the steps of an actor in each execution, in order."""
        return [self._step(call) for call in self._topology.calls if call.actor == actor]

    def routes(self, actor: Any) -> dict[int, Any]:
        """Return the rings of an actor whose tensors use a communicator, with their routes."""
        member = self._members[actor]
        found: dict[int, Any] = {}
        for node, ring in self._rings.items():
            readers = self.place.rings[ring].readers
            communicator = self._communicator(node, readers)
            if communicator is None or owner_of(node) is None or DRIVER in readers:
                continue
            if owner_of(node) == actor:
                peers = tuple(communicator.get_rank(self.actors[reader - 1]) for reader in readers)
            elif member in readers:
                peers = (communicator.get_rank(owner_of(node)),)
            else:
                continue
            found[ring] = _tensors().Route(communicator, communicator.get_rank(actor), peers)
        return found

    def _communicator(self, node: DAGNode, readers: Sequence[int]) -> Any:
        """Return the communicator for the tensors of a node; None for shared memory."""
        hint = node.type_hint
        if not hint.requires_accelerator() or owner_of(node) is None:
            return None
        if hint.get_custom_communicator() is not None:
            return hint.get_custom_communicator()
        if not isinstance(self._default, str):
            return self._default
        if node not in self._created:
            actors = [owner_of(node), *(self.actors[reader - 1] for reader in readers if reader != DRIVER)]
            from skate.experimental.channel.group_communicator import (
                NCCLCommunicator,
            )  # needed only for graphs with tensors

            self._created[node] = NCCLCommunicator(len(actors), actors)
        return self._created[node]

    def accelerated(self) -> list[Any]:
        """Return the actors that need a GPU."""
        found: dict[Any, None] = {}
        for node, ring in self._rings.items():
            hint = node.type_hint
            if hint.requires_accelerator() and hint.get_custom_communicator() is None:
                if owner_of(node) is not None and isinstance(self._default, str):
                    found[owner_of(node)] = None
                    readers = self.place.rings[ring].readers
                    found.update(dict.fromkeys(self.actors[r - 1] for r in readers if r != DRIVER))
        for call in self._topology.calls:
            operation = getattr(call, "collective_op", None)
            if operation is not None and operation.communicator.get_transport_name() == "nccl":
                found[call.actor] = None
        return list(found)

    def _step(self, call: ClassMethodNode) -> Step:
        numbers = self._topology.numbers
        member = self._members[call.actor]
        args: list[tuple[int, Any]] = []
        for value in call.get_args():
            if not isinstance(value, DAGNode):
                args.append((CONSTANT, value))
            elif self._member(value) == member:
                args.append((LOCAL, numbers[value]))
            else:
                args.append((RING, self._rings[value]))
        parts = [
            node
            for node in self._topology.nodes
            if isinstance(node, ClassMethodOutput) and node.class_method_call is call
        ]
        parts.sort(key=lambda node: node.output_idx)
        nodes: list[ClassMethodNode] = [*parts] or [call]
        rings = {numbers[node]: self._rings[node] for node in nodes if node in self._rings}
        return Step(
            numbers[call],
            call.step_body(),
            tuple(args),
            call.get_kwargs(),
            tuple(numbers[node] for node in parts),
            rings,
            call.label(),
        )
