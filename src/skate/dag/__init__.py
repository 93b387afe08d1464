"""Lazy graphs: calls are recorded with `bind` and made by `execute`.

node.py            DAGNode: arguments, walking the graph, execute
function_node.py   FunctionNode: one task
class_node.py      ClassNode, ClassMethodNode: one actor, one call of a method
input_node.py      InputNode, InputAttributeNode: the arguments of `execute`
output_node.py     MultiOutputNode: several results at once
compiled.py        CompiledDAG: the same graph executed many times, through shared memory
    topology.py    checks, and the connected parts of a graph
    plan.py        the steps of each actor, and the rings between actors
    loop.py        the execution loop of an actor
    references.py  CompiledDAGRef, CompiledDAGFuture: results that are fetched once
    context.py     DAGContext: settings of the process; settings.py has those of one graph
    visualization.py  DOT and text
drawing.py         `plot` of a graph that is not compiled
nesting.py         nodes inside of values
constants.py       keys of the nodes' bindings
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from skate import lazy_loader
from skate.dag.class_node import ClassMethodNode, ClassNode
from skate.dag.compiled import CompiledDAG
from skate.dag.constants import (
    BIND_INDEX_KEY,
    COLLECTIVE_OPERATION_KEY,
    DAGNODE_TYPE_KEY,
    IS_CLASS_METHOD_OUTPUT_KEY,
    PARENT_CLASS_NODE_KEY,
    PREV_CLASS_METHOD_CALL_KEY,
)
from skate.dag.context import DAGContext
from skate.dag.dot_plot import plot
from skate.dag.function_node import FunctionNode
from skate.dag.input_node import DAGInputData, InputAttributeNode, InputNode
from skate.dag.node import DAGNode
from skate.dag.output_node import MultiOutputNode
from skate.dag.references import CompiledDAGFuture, CompiledDAGRef

if TYPE_CHECKING:
    from skate.dag.collective_node import CollectiveOutputNode

# It imports the communicators, which graphs without collective operations do not need.
__getattr__ = lazy_loader.getter(globals(), {"skate.dag.collective_node": ("CollectiveOutputNode",)})

__all__ = [
    "BIND_INDEX_KEY",
    "COLLECTIVE_OPERATION_KEY",
    "ClassMethodNode",
    "CollectiveOutputNode",
    "ClassNode",
    "CompiledDAG",
    "CompiledDAGFuture",
    "CompiledDAGRef",
    "DAGNODE_TYPE_KEY",
    "DAGContext",
    "DAGInputData",
    "DAGNode",
    "FunctionNode",
    "IS_CLASS_METHOD_OUTPUT_KEY",
    "InputAttributeNode",
    "InputNode",
    "MultiOutputNode",
    "PARENT_CLASS_NODE_KEY",
    "PREV_CLASS_METHOD_CALL_KEY",
    "plot",
]
