"""Keys of the nodes' bindings besides arguments, and switches of compiled graphs, under Ray's names."""

from __future__ import annotations

import os

#: Keys of `get_other_args_to_resolve`.
PARENT_CLASS_NODE_KEY = "parent_class_node"
PREV_CLASS_METHOD_CALL_KEY = "prev_class_method_call"
BIND_INDEX_KEY = "bind_index"
IS_CLASS_METHOD_OUTPUT_KEY = "is_class_method_output"
COLLECTIVE_OPERATION_KEY = "collective_operation"

#: The key of a node's class in a graph as JSON.
DAGNODE_TYPE_KEY = "__dag_node_type__"

#: Ray's switches, set by the environment. Orders that would wait forever are always rejected, and profilers are
#: used as for any method.
RAY_CGRAPH_ENABLE_DETECT_DEADLOCK = os.environ.get("RAY_CGRAPH_ENABLE_DETECT_DEADLOCK", "1") == "1"
RAY_CGRAPH_ENABLE_PROFILING = os.environ.get("RAY_CGRAPH_ENABLE_PROFILING", "0") == "1"
RAY_CGRAPH_ENABLE_NVTX_PROFILING = os.environ.get("RAY_CGRAPH_ENABLE_NVTX_PROFILING", "0") == "1"
RAY_CGRAPH_ENABLE_TORCH_PROFILING = os.environ.get("RAY_CGRAPH_ENABLE_TORCH_PROFILING", "0") == "1"
RAY_CGRAPH_VISUALIZE_SCHEDULE = os.environ.get("RAY_CGRAPH_VISUALIZE_SCHEDULE", "0") == "1"
