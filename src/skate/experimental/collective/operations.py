"""Collective operations of compiled graphs."""

from __future__ import annotations

from typing import Any

from skate.util.collective.types import ReduceOp


class Reduction:
    """An operation that puts tensors together: `allreduce.bind([node, ...])` gives as many nodes."""

    def __init__(self, kind: str) -> None:
        self._kind = kind

    def bind(self, input_nodes: list[Any], op: ReduceOp = ReduceOp.SUM, transport: Any = None) -> list[Any]:
        """A node for each input: the result as that input's actor has it.

        `input_nodes`: results of methods, one for each actor that takes part. `transport`: a Communicator of these
        actors; NCCL otherwise. Raises ValueError for anything else.
        """
        nodes: list[Any] = _bind(self._kind, input_nodes, op, transport)
        return nodes


class Gathering:
    """An operation that lines tensors up: `allgather.bind([node, ...])` gives as many nodes."""

    def bind(self, input_nodes: list[Any], transport: Any = None) -> list[Any]:
        """A node for each input: all tensors, one behind the other. Arguments as in `allreduce.bind`."""
        nodes: list[Any] = _bind("allgather", input_nodes, ReduceOp.SUM, transport)
        return nodes


def _bind(kind: str, inputs: Any, op: Any, transport: Any) -> Any:
    from skate.dag.collective_node import bind  # it imports the channels beside this package

    return bind(kind, inputs, op, transport)


allgather = Gathering()
allreduce = Reduction("allreduce")
reducescatter = Reduction("reducescatter")
