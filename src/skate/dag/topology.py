"""The topology of a graph to compile, validated."""

from __future__ import annotations

import io
from collections.abc import Iterator
from typing import Any

from skate.dag.class_node import ClassMethodNode, ClassMethodOutput, ClassNode
from skate.dag.function_node import FunctionNode
from skate.dag.input_node import InputAttributeNode, InputNode
from skate.dag.node import DAGNode, inside_a_container
from skate.dag.output_node import MultiOutputNode

_PLAIN = frozenset({int, float, str, bytes, bool, type(None), complex})


class Topology:
    """The nodes of a graph: its input, its calls in the order of their binding, its outputs."""

    def __init__(self, root: DAGNode) -> None:
        self.root = root
        self.nodes = root.upstream()
        self.outputs: list[DAGNode] = list(root.get_args()) if isinstance(root, MultiOutputNode) else [root]
        self._check_kinds()
        self._check_insides()
        self.input = self._the_input()
        self._check_arguments()
        self.parts = [node for node in self.nodes if isinstance(node, InputAttributeNode)]
        self._check_parts()
        self._check_leaves()
        self._mark()
        calls = [
            node for node in self.nodes if isinstance(node, ClassMethodNode) and node.is_class_method_call
        ]
        self.calls = sorted(calls, key=lambda node: node.bind_index)
        self.numbers = {node: number for number, node in enumerate(self.nodes)}

    def _check_kinds(self) -> None:
        for node in self.nodes:
            if isinstance(node, FunctionNode):
                raise NotImplementedError(
                    f"Compiled DAGs currently only support actor method nodes; {node.label()} is a function. Make it a "
                    "method of an actor"
                )
            if isinstance(node, ClassNode):
                raise ValueError(
                    "Compiled DAGs can only bind methods to an actor that is already created with Actor.remote(); start "
                    f"{node.label()} with .remote() and bind the methods of the handle"
                )
            if isinstance(node, MultiOutputNode) and node is not self.root:
                raise NotImplementedError(
                    "a MultiOutputNode can only be the end of a compiled graph, not inside it"
                )
        for node in self.outputs:
            if not isinstance(node, DAGNode):
                raise ValueError(f"MultiOutputNode takes nodes, got {node!r:.80}")
            if not isinstance(node, ClassMethodNode):
                raise AssertionError(
                    f"the output of a compiled graph must be the result of a method; got {node!r}, "
                    f"{node.kind}"
                )

    def _the_input(self) -> InputNode:
        inputs = [node for node in self.nodes if isinstance(node, InputNode)]
        if not inputs:
            raise ValueError(
                "No InputNode found in the DAG: when traversing upwards, no upstream node was found for "
                f"{self.root.label()}; bind a method to `with InputNode() as given: ...`"
            )
        if len(inputs) > 1:
            raise AssertionError(
                f"More than one InputNode found: a compiled graph must have one, got {len(inputs)}"
            )
        return inputs[0]

    def _check_insides(self) -> None:
        for node in self.nodes:
            if isinstance(node, ClassMethodNode):
                for value in (*node.get_args(), *node.get_kwargs().values()):
                    if not isinstance(value, DAGNode):
                        _check_inside(value, node)

    def _check_arguments(self) -> None:
        for node in self.nodes:
            if not isinstance(node, ClassMethodNode) or not node.is_class_method_call:
                continue
            for value in node.get_kwargs().values():
                if isinstance(value, DAGNode):
                    raise ValueError(
                        "Compiled DAG currently does not support binding to other DAG nodes as kwargs: pass "
                        f"{value.label()} to {node.label()} as a positional argument"
                    )
            if not any(isinstance(value, DAGNode) for value in node.get_args()):
                raise ValueError(
                    "Compiled DAGs require each task to take a ray.dag.InputNode or at least one other DAGNode as an "
                    f"input; {node.label()} takes none"
                )

    def _check_parts(self) -> None:
        used = {part.key for part in self.parts}
        made = {part.key for part in self.input.all_parts()}
        whole = any(
            self.input in node.parents() for node in self.nodes if not isinstance(node, InputAttributeNode)
        )
        if self.parts and whole:
            raise ValueError(
                "All tasks must either use InputNode() directly, or they must index to specific args or kwargs."
            )
        unused = sorted(made - used, key=str)
        if self.parts and unused:
            names = ", ".join(map(str, sorted(made, key=str)))
            raise ValueError(
                f"Compiled Graph expects input to be accessed using all of attributes {names}, but "
                f"{', '.join(map(str, unused))} is unused. Ensure all input attributes are used and contribute to the "
                "computation of the Compiled Graph output."
            )

    def _check_leaves(self) -> None:
        inside = set(self.nodes)
        leaves = []
        for node in self._connected():
            if node in inside:
                continue
            if not any(True for _ in node.downstream()):
                leaves.append(node)
        if leaves:
            names = ", ".join(node.label() for node in leaves)
            raise ValueError(
                "Compiled DAG doesn't support leaf nodes, i.e., nodes that don't have downstream nodes and are not output "
                f"nodes. There are {len(leaves)} leaf nodes in the DAG. Please add the outputs of {names} to the "
                "MultiOutputNode, as an exception in them would not be seen."
            )

    def _connected(self) -> Iterator[DAGNode]:
        """Return every node connected with these that could be part of the graph."""
        seen: dict[DAGNode, None] = dict.fromkeys(self.nodes)
        pending = list(self.nodes)
        while pending:
            node = pending.pop()
            for each in (*node.downstream(), *node.parents()):
                if each not in seen and isinstance(each, ClassMethodNode):
                    seen[each] = None
                    pending.append(each)
        return iter(seen)

    def _mark(self) -> None:
        """Mark these nodes as compiled, which is allowed only once."""
        for node in self.nodes:
            before = node._compiled_by
            if before is self.root:
                raise ValueError(
                    "It is not allowed to call `experimental_compile` on the same DAG object multiple times no matter "
                    "whether `teardown` is called or not. Please reuse the existing compiled DAG or create a new one."
                )
            if before is not None:
                raise ValueError(
                    "The DAG was compiled more than once. The following two nodes call `experimental_compile`: "
                    f"{before!r} and {self.root!r}; bind the methods again for another graph"
                )
        for node in self.nodes:
            node._compiled_by = self.root


def _check_inside(value: Any, node: ClassMethodNode) -> None:
    """Reject nodes inside an argument: the method would receive a node, not its value."""
    if type(value) in _PLAIN:
        return
    found: list[DAGNode] = []
    import cloudpickle  # takes 10 ms, and only complex arguments need it

    class Scanner(cloudpickle.Pickler):  # type: ignore[misc]
        def persistent_id(self, obj: Any) -> Any:
            if isinstance(obj, DAGNode):
                found.append(obj)
                return "node"
            return None

    try:
        Scanner(io.BytesIO(), protocol=5).dump(value)
    except Exception:  # it is reported when the argument is sent
        return
    if found:
        raise ValueError(inside_a_container(len(found), value, node))


def owner_of(node: DAGNode) -> Any:
    """Return the actor that computes a node's value; None for the input."""
    return node.actor if isinstance(node, (ClassMethodNode, ClassMethodOutput)) else None
