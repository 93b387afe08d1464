"""Collective operations of compiled graphs: one node per participating actor."""

from __future__ import annotations

from typing import Any

from skate.dag.class_node import ClassMethodNode
from skate.dag.constants import COLLECTIVE_OPERATION_KEY, PARENT_CLASS_NODE_KEY
from skate.dag.node import DAGNode
from skate.experimental.channel.communicator import Communicator
from skate.experimental.channel.group_communicator import NCCLCommunicator
from skate.experimental.channel.types import TRANSPORTS
from skate.util.collective.types import ReduceOp

KINDS = ("allreduce", "allgather", "reducescatter")


class CollectiveOperation:
    """One operation, shared by the nodes of the participating actors."""

    def __init__(self, kind: str, inputs: Any, op: Any, transport: Any) -> None:
        if not isinstance(inputs, (list, tuple)) or not inputs:
            raise ValueError(
                f"Expected input nodes for a collective operation: a list of them, got {inputs!r:.80}"
            )
        for node in inputs:
            if not isinstance(node, ClassMethodNode):
                raise ValueError(
                    f"Expected all input nodes to be DAGNode, but got {inputs!r:.80}; bind results of actors' methods"
                )
        if len(set(inputs)) != len(inputs):
            raise ValueError(
                "Expected unique input nodes for a collective operation, but found duplicates from input nodes"
            )
        actors = [node.actor for node in inputs]
        if len(set(actors)) != len(actors):
            raise ValueError(
                "Expected unique actor handles, but found duplicate actor handles from input nodes; an actor "
                "can take part only once"
            )
        if not hasattr(op, "name") or op.name not in ReduceOp.__members__:
            raise ValueError(f"Unexpected operation: {op}; op must be a ReduceOp")
        self.kind = kind
        self.op = ReduceOp[op.name]
        self.actors = actors
        self.communicator = self._communicator(transport)

    def _communicator(self, transport: Any) -> Any:
        if transport is None or isinstance(transport, str):
            if transport is not None and transport not in TRANSPORTS:
                raise ValueError(
                    "`transport` must be TorchTensorType.AUTO, TorchTensorType.ACCELERATOR or TorchTensorType.CPU, or a "
                    f"Communicator, got {transport!r}"
                )
            return NCCLCommunicator(len(self.actors), self.actors)
        if not isinstance(transport, Communicator):
            raise ValueError(f"transport must be a str or a Communicator, got {transport!r:.80}")
        if set(transport.get_actor_handles()) != set(self.actors):
            raise ValueError(
                "Expected actor handles to match the custom communicator group: the operation has "
                f"{self.actors}, the group {transport.get_actor_handles()}"
            )
        return transport


class CollectiveOutputNode(ClassMethodNode):
    """One actor's part in a collective operation; its value is the result for that actor."""

    kind = "a part of a collective operation"

    @property
    def collective_op(self) -> CollectiveOperation:
        """The operation."""
        found: CollectiveOperation = self._bound_other_args_to_resolve[COLLECTIVE_OPERATION_KEY]
        return found

    def step_body(self) -> Any:
        """The step for the actor's loop to call."""
        operation = self.collective_op
        rank = operation.communicator.get_rank(self.actor)
        return CollectiveStep(
            operation.kind, operation.op, operation.communicator, rank, len(operation.actors)
        )

    def call(self, results: Any) -> Any:
        """Raise NotImplementedError: the node needs a compiled graph."""
        raise NotImplementedError(
            f"{self.label()} runs only in compiled graphs: call experimental_compile() on the output"
        )


class CollectiveStep:
    """One actor's part of the operation, in its process."""

    def __init__(self, kind: str, op: ReduceOp, communicator: Any, rank: int, members: int) -> None:
        self._kind = kind
        self._op = op
        self._communicator = communicator
        self._rank = rank
        self._members = members

    def prepare(self, ready: dict[Any, Any]) -> None:
        """Join the communicator once for all steps of this process that use it."""
        self._communicator = joined(self._communicator, self._rank, ready)

    def __call__(self, tensor: Any) -> Any:
        import torch  # already imported, because the process has a tensor

        if not isinstance(tensor, torch.Tensor):
            raise ValueError(f"Expected a torch tensor, got {type(tensor).__name__}")
        communicator = self._communicator
        if self._kind == "allreduce":
            result = torch.empty_like(tensor, memory_format=torch.contiguous_format)
            communicator.allreduce(tensor, result, self._op)
        elif self._kind == "allgather":
            result = tensor.new_empty((self._members * tensor.shape[0], *tensor.shape[1:]))
            communicator.allgather(tensor, result)
        else:
            if not tensor.dim() or tensor.shape[0] % self._members:
                raise ValueError(
                    f"Expected the first dimension of the tensor to be divisible by the world size {self._members}, got "
                    f"the shape {tuple(tensor.shape)}"
                )
            result = tensor.new_empty((tensor.shape[0] // self._members, *tensor.shape[1:]))
            communicator.reducescatter(tensor, result, self._op)
        return result


def joined(communicator: Any, rank: int, ready: dict[Any, Any]) -> Any:
    """Return this process's initialized communicator for the given one."""
    key = getattr(communicator, "_id", None) or id(communicator)
    found = ready.get(key)
    if found is None:
        communicator.initialize(rank)
        found = ready[key] = communicator
    return found


def bind(kind: str, inputs: Any, op: Any, transport: Any) -> list[CollectiveOutputNode]:
    """Create one node per input, all part of one operation."""
    operation = CollectiveOperation(kind, inputs, op, transport)
    return [
        CollectiveOutputNode(
            kind, (node,), {}, {}, {PARENT_CLASS_NODE_KEY: node.actor, COLLECTIVE_OPERATION_KEY: operation}
        )
        for node in inputs
    ]


__all__ = ["CollectiveOperation", "CollectiveOutputNode", "CollectiveStep", "DAGNode", "bind"]
