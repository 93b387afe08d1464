"""Drawings of compiled graphs: DOT for graphviz, and text."""

from __future__ import annotations

import importlib
import shutil
import subprocess
from typing import TYPE_CHECKING, Any

from skate.dag.class_node import ClassMethodNode, ClassMethodOutput
from skate.dag.input_node import InputAttributeNode, InputNode
from skate.dag.node import DAGNode
from skate.dag.output_node import MultiOutputNode

if TYPE_CHECKING:
    from skate.dag.plan import Plan
    from skate.dag.topology import Topology

SOURCES = ("dot", "gv")
_COLUMN = 30


class Drawing:
    """The nodes of a graph, numbered in traversal order from the input, and the edges between them."""

    def __init__(self, topology: Topology, plan: Plan) -> None:
        self._plan = plan
        self._end = topology.root if isinstance(topology.root, MultiOutputNode) else None
        inside = set(topology.nodes)
        self.nodes: list[DAGNode | None] = [topology.input]
        at = 0
        while at < len(self.nodes):
            node = self.nodes[at]
            following: list[DAGNode | None] = (
                [] if node is None else [each for each in node.downstream() if each in inside]
            )
            if self._end is None and node is topology.root:
                following = [None]  # the output has no node of its own, but is drawn
            for each in following:
                if each not in self.nodes:
                    self.nodes.append(each)
            at += 1
        numbers = {node: number for number, node in enumerate(self.nodes)}
        self.edges: list[tuple[int, int]] = []
        for number, node in enumerate(self.nodes):
            parents = [topology.root] if node is None else node.parents()
            self.edges += [(numbers[each], number) for each in parents if each in numbers]

    def title(self, number: int) -> list[str]:
        """Return the lines of a node's box."""
        node = self.nodes[number]
        lines = [f"Task {number}"]
        if node is None or isinstance(node, MultiOutputNode):
            lines.append("MultiOutputNode")
        elif isinstance(node, InputAttributeNode):
            lines.append(f"InputAttributeNode[{node.key}]")
        elif isinstance(node, InputNode):
            lines.append("InputNode")
        elif isinstance(node, ClassMethodOutput):
            lines.append(f"ClassMethodOutputNode[{node.output_idx}]")
        elif isinstance(node, ClassMethodNode):
            lines += [f"Actor: {_short(node)}...", f"Method: {node.get_method_name()}"]
        return lines

    def word(self, number: int) -> str:
        """A one-word label of a node."""
        node = self.nodes[number]
        if isinstance(node, ClassMethodOutput):
            return f"{number}:Output[{node.output_idx}]"
        if isinstance(node, ClassMethodNode):
            return f"{number}:Actor_{_short(node)}:{node.get_method_name()}"
        return f"{number}:{self.title(number)[-1]}"

    def is_direct(self, number: int) -> bool:
        """True if a node's tensors go from device to device."""
        node = self.nodes[number]
        return node is not None and node.type_hint.requires_accelerator()

    def dot(self, channel_details: bool) -> str:
        """Return the source for graphviz."""
        lines = ["digraph compiled_graph {"]
        for number in range(len(self.nodes)):
            label = "\\n".join(self.title(number))
            lines.append(f'\t{number} [label="{label}" shape=rectangle style=filled fillcolor=white]')
        for one, other in self.edges:
            kind = "AcceleratorType" if self.is_direct(one) else "SharedMemoryType"
            if channel_details:
                kind += f", {self._plan.place.rings[0].slots} slots" if self._plan.place.rings else ""
            lines.append(f'\t{one} -> {other} [label="{kind}"]')
        return "\n".join([*lines, "}", ""])

    def text(self) -> str:
        """Return the nodes, the edges, and a text drawing."""
        lines = ["Nodes Information:"]
        for number in range(len(self.nodes)):
            first, *rest = self.title(number)
            lines.append(f'{number} [label="{first}  {" ".join(rest)}"] ')
        lines += ["", "Edges Information:"]
        lines += [f"{one} {'+++>' if self.is_direct(one) else '--->'} {other}" for one, other in self.edges]
        lines += [
            "",
            "Legend:",
            "+++> : Represents Accelerator-type data channels",
            "---> : Represents Shared Memory data channels",
            "",
            "Graph Built:",
        ]
        rows = self._rows()
        for place, row in enumerate(rows):
            if place:
                lines.append(_joints(len(rows[place - 1]), len(row)))
            lines.append("".join(self.word(number).ljust(_COLUMN) for number in row).rstrip())
        return "\n".join([*lines, ""])

    def _rows(self) -> list[list[int]]:
        depth = [0] * len(self.nodes)
        for _ in self.nodes:
            for one, other in self.edges:
                depth[other] = max(depth[other], depth[one] + 1)
        rows: list[list[int]] = [[] for _ in range(max(depth) + 1)]
        for number, level in enumerate(depth):
            rows[level].append(number)
        return rows


def _joints(above: int, below: int) -> str:
    if below > above:
        return "|" + ("-" * (_COLUMN - 2) + ">|") * (below - 1)
    if above > below:
        return "|" + ("<" + "-" * (_COLUMN - 2) + "|") * (above - 1)
    return "".join("|".ljust(_COLUMN) for _ in range(above)).rstrip()


def _short(node: ClassMethodNode) -> str:
    return str(node.actor._skate_id.hex())[-6:]


def visualize(
    topology: Topology, plan: Plan, filename: str, form: str, view: bool, channel_details: bool
) -> str:
    """Draw a graph; return the text, or the source of the drawing."""
    drawing = Drawing(topology, plan)
    if form == "ascii":
        if channel_details:
            raise ValueError("Parameters 'channel_details' are not compatible with 'ascii' format.")
        if view:
            raise ValueError("Parameters 'view' are not compatible with 'ascii' format.")
        return drawing.text()
    source = drawing.dot(channel_details)
    if form in SOURCES:
        with open(f"{filename}.{form}", "w") as file:
            file.write(source)
        return source
    try:
        graphviz: Any = importlib.import_module("graphviz")
    except ImportError:
        program = shutil.which("dot")
        if program is None:
            raise ImportError(
                "Please install graphviz to visualize the compiled graph. You can install it by running `pip "
                "install graphviz`. "
                'visualize(format="ascii") and format="dot" need nothing.'
            ) from None
        subprocess.run([program, f"-T{form}", "-o", f"{filename}.{form}"], input=source.encode(), check=True)
        return source
    graphviz.Source(source).render(filename, format=form, view=view)
    return source
