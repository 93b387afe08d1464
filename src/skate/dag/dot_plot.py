"""A drawing of a bound graph: its named nodes and their dependencies."""

from __future__ import annotations

import importlib
import os
import shutil
import subprocess
import tempfile
from typing import Any

from skate.dag.class_node import ClassMethodNode, ClassNode
from skate.dag.function_node import FunctionNode
from skate.dag.input_node import InputAttributeNode
from skate.dag.node import DAGNode
from skate.dag.output_node import MultiOutputNode


def name_of(node: DAGNode) -> str:
    """Return the option `name` of a node, or the name of its function."""
    if node.is_input:
        return "INPUT_NODE"
    if isinstance(node, InputAttributeNode):
        return f"INPUT_ATTRIBUTE_NODE_{node.key}"
    if isinstance(node, MultiOutputNode):
        return "MultiOutputNode"
    chosen = node.get_options().get("name")
    if chosen:
        return str(chosen)
    if isinstance(node, ClassMethodNode):
        return node.get_method_name()
    if isinstance(node, ClassNode):
        return str(node.label())
    if isinstance(node, FunctionNode):
        return str(getattr(node._body, "__name__", node.label()))
    return str(node.label())


def names_of(nodes: list[DAGNode]) -> dict[DAGNode, str]:
    """Return a name for each node, with a number appended to duplicates."""
    used: dict[str, int] = {}
    names: dict[DAGNode, str] = {}
    for node in nodes:
        name = name_of(node)
        used[name] = used.get(name, -1) + 1
        names[node] = f"{name}_{used[name]}" if used[name] else name
    return names


def source_of(dag: DAGNode) -> str:
    """Return the graph in graphviz's language, drawn from left to right."""
    nodes = dag.upstream()
    names = {node: _quoted(name) for node, name in names_of(nodes).items()}
    lines = [f"  {name};" for name in names.values()] if len(nodes) == 1 else []
    lines += [f"  {names[each]} -> {names[node]};" for node in nodes for each in node.parents()]
    return "\n".join(["digraph G {", "  rankdir=LR;", *lines, "}", ""])


def _quoted(name: str) -> str:
    return name if name.isidentifier() else '"{}"'.format(name.replace('"', '\\"'))


def plot(dag: DAGNode, to_file: str | os.PathLike[str] | None = None) -> Any:
    """Draw a graph to a file; in a notebook, also return the drawing.

    `to_file`: the file; its suffix determines the format, PNG without one; "dot" needs no program. By default
    a temporary file, for notebooks. Raises ImportError if graphviz is not installed.
    """
    if to_file is None:
        with tempfile.TemporaryDirectory() as folder:
            return plot(dag, os.path.join(folder, "graph.png"))
    form = os.path.splitext(to_file)[1][1:] or "png"
    source = source_of(dag)
    if form in ("dot", "gv"):
        with open(to_file, "w") as file:
            file.write(source)
        return None
    program = shutil.which("dot")
    if program is None:
        raise ImportError(
            "graphviz is required to plot DAG, download it from https://graphviz.gitlab.io/download/ ; "
            "a file that ends in .dot needs no program"
        )
    subprocess.run([program, f"-T{form}", "-o", os.fspath(to_file)], input=source.encode(), check=True)
    return _shown(os.fspath(to_file))


def _shown(path: str) -> Any:
    try:
        return importlib.import_module("IPython.display").Image(filename=path)
    except ImportError:
        return None
