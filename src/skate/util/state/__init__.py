"""What there is and what goes on: `list_tasks()`, `get_actor(id)`, `summarize_objects()`, `memory_summary()`.

common.py      the rows, one dataclass a kind
api.py         list_..., get_...
summary.py     summarize_...
memory.py      memory_summary: who keeps which object, as a table
logs.py        list_logs, get_log: what workers printed last
exception.py   what questions end in
"""

from __future__ import annotations

from skate.util.state.api import (
    get_actor,
    get_job,
    get_node,
    get_objects,
    get_placement_group,
    get_task,
    get_worker,
    list_actors,
    list_cluster_events,
    list_jobs,
    list_nodes,
    list_objects,
    list_placement_groups,
    list_runtime_envs,
    list_tasks,
    list_workers,
)
from skate.util.state.client import StateApiClient
from skate.util.state.logs import get_log, list_logs
from skate.util.state.memory import memory_summary
from skate.util.state.summary import summarize_actors, summarize_objects, summarize_tasks

__all__ = [
    "StateApiClient",
    "get_actor",
    "get_job",
    "get_log",
    "get_node",
    "get_objects",
    "get_placement_group",
    "get_task",
    "get_worker",
    "list_actors",
    "list_cluster_events",
    "list_jobs",
    "list_logs",
    "list_nodes",
    "list_objects",
    "list_placement_groups",
    "list_runtime_envs",
    "list_tasks",
    "list_workers",
    "memory_summary",
    "summarize_actors",
    "summarize_objects",
    "summarize_tasks",
]
