"""The connection between the client and lazy graphs: `bind` creates nodes of `skate.dag`, which itself builds on
the API.

The package is imported when a graph is first bound.
"""

from __future__ import annotations

from typing import Any


def bind_function(body: Any, args: Any, kwargs: dict[str, Any], options: dict[str, Any]) -> Any:
    """A node that calls a remote function."""
    from skate.dag.function_node import FunctionNode  # the one arrow upwards, see above

    return FunctionNode(body, args, kwargs, options)


def bind_class(body: Any, args: Any, kwargs: dict[str, Any], options: dict[str, Any], cls: type) -> Any:
    """A node that starts an actor."""
    from skate.dag import class_node  # as above

    return class_node.bind_class(body, args, kwargs, options, cls)


def bind_method(
    handle: Any, method: Any, name: str, args: Any, kwargs: dict[str, Any], options: dict[str, Any]
) -> Any:
    """A node that calls a method of a living actor; with several results a tuple of nodes."""
    from skate.dag import class_node  # as above

    return class_node.bind_method(handle, name, args, kwargs, options, method)
