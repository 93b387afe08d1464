"""Several results of a graph at once."""

from __future__ import annotations

from typing import Any

from skate.dag.node import DAGNode, Results


class MultiOutputNode(DAGNode):
    """The end of a graph with several results: `execute` returns the list of their refs."""

    kind = "an output"

    takes_containers = True

    def __init__(self, args: Any, other_args_to_resolve: dict[str, Any] | None = None) -> None:
        if not isinstance(args, (list, tuple)):
            raise ValueError(
                "Invalid input type for `args`: MultiOutputNode takes a list of nodes, got a "
                f"{type(args).__name__}"
            )
        super().__init__(args, {}, {}, other_args_to_resolve)

    def call(self, results: Results) -> list[Any]:
        """Return the results."""
        return list(self.resolved(results)[0])
