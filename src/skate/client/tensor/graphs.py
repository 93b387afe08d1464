"""Creation of graph nodes for `bind`.

The nodes are in `skate.dag`, which builds on the API. This module imports it when a graph is first bound.
"""

from __future__ import annotations

from typing import Any


def bind_function(body: Any, args: Any, kwargs: dict[str, Any], options: dict[str, Any]) -> Any:
    """Return a node that calls a remote function."""
    from skate.dag.function_node import FunctionNode  # the only upward import, see the module docstring

    return FunctionNode(body, args, kwargs, options)


def bind_class(body: Any, args: Any, kwargs: dict[str, Any], options: dict[str, Any], cls: type) -> Any:
    """Return a node that starts an actor."""
    from skate.dag import class_node  # see the module docstring

    return class_node.bind_class(body, args, kwargs, options, cls)


def bind_method(
    handle: Any, method: Any, name: str, args: Any, kwargs: dict[str, Any], options: dict[str, Any]
) -> Any:
    """Return a node that calls a method of a living actor; a tuple of nodes if it has several results."""
    from skate.dag import class_node  # see the module docstring

    return class_node.bind_method(handle, name, args, kwargs, options, method)
