"""Collective operations of compiled graphs."""

from __future__ import annotations

from typing import Any

from skate.util.collective.types import ReduceOp


class Reduction:
    """A reduction of tensors: `allreduce.bind([node, ...])` returns one node per input."""

    def __init__(self, kind: str) -> None:
        self._kind = kind

    def bind(self, input_nodes: list[Any], op: ReduceOp = ReduceOp.SUM, transport: Any = None) -> list[Any]:
        """Create one node per input: the result in that input's actor.

        `input_nodes`: results of methods, one per participating actor. `transport`: a Communicator of these
        actors; NCCL otherwise. Raises ValueError for anything else.
        """
        nodes: list[Any] = _bind(self._kind, input_nodes, op, transport)
        return nodes


class Gathering:
    """A concatenation of tensors: `allgather.bind([node, ...])` returns one node per input."""

    def bind(self, input_nodes: list[Any], transport: Any = None) -> list[Any]:
        """Create one node per input: all tensors concatenated. Arguments as in `allreduce.bind`."""
        nodes: list[Any] = _bind("allgather", input_nodes, ReduceOp.SUM, transport)
        return nodes


def _bind(kind: str, inputs: Any, op: Any, transport: Any) -> Any:
    from skate.dag.collective_node import bind  # imports the channels of this package

    return bind(kind, inputs, op, transport)


allgather = Gathering()
allreduce = Reduction("allreduce")
reducescatter = Reduction("reducescatter")
