"""A task of a graph."""

from __future__ import annotations

from typing import Any

import skate
from skate.dag.node import DAGNode, Results


class FunctionNode(DAGNode):
    """One call of a remote function, returned by `f.bind(...)`; its result is a ref."""

    kind = "a function"

    def __init__(
        self,
        func_body: Any,
        func_args: Any,
        func_kwargs: dict[str, Any],
        func_options: dict[str, Any],
        other_args_to_resolve: dict[str, Any] | None = None,
    ) -> None:
        super().__init__(func_args, func_kwargs, func_options, other_args_to_resolve)
        self._body = func_body

    def call(self, results: Results) -> Any:
        """Submit the task."""
        args, kwargs = self.resolved(results)
        body = self._body
        if not hasattr(body, "remote"):
            body = skate.remote(body).options(**self._bound_options)
        return body.remote(*args, **kwargs)

    def label(self) -> str:
        """The name of the function."""
        return repr(self._body)
