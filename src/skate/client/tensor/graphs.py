"""The connection between the client and lazy graphs: `bind` creates nodes of `skate.dag`, which itself builds on
the API.

The package is looked up by its name when a graph is first bound, so that the client depends on nothing above
it.
"""

from __future__ import annotations

import importlib
from typing import Any


def bind_function(body: Any, args: Any, kwargs: dict[str, Any], options: dict[str, Any]) -> Any:
    """A node that calls a remote function."""
    return importlib.import_module("skate.dag.function_node").FunctionNode(body, args, kwargs, options)


def bind_class(body: Any, args: Any, kwargs: dict[str, Any], options: dict[str, Any], cls: type) -> Any:
    """A node that starts an actor."""
    return importlib.import_module("skate.dag.class_node").bind_class(body, args, kwargs, options, cls)


def bind_method(
    handle: Any, method: Any, name: str, args: Any, kwargs: dict[str, Any], options: dict[str, Any]
) -> Any:
    """A node that calls a method of a living actor; with several results a tuple of nodes."""
    nodes = importlib.import_module("skate.dag.class_node")
    return nodes.bind_method(handle, name, args, kwargs, options, method)
