"""A task of a graph."""

from __future__ import annotations

from typing import Any

from skate.dag.node import DAGNode, Results


class FunctionNode(DAGNode):
    """One call of a remote function: what `f.bind(...)` returns; its result is a ref."""

    kind = "a function"

    def __init__(self, body: Any, args: Any, kwargs: dict[str, Any], options: dict[str, Any]) -> None:
        super().__init__(args, kwargs, options)
        self._body = body

    def call(self, results: Results) -> Any:
        """Submit the task."""
        args, kwargs = self.resolved(results)
        return self._body.remote(*args, **kwargs)

    def label(self) -> str:
        """The function."""
        return repr(self._body)
