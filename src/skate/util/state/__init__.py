"""The state of the session: `list_tasks()`, `get_actor(id)`, `summarize_objects()`, `memory_summary()`.

common.py      the rows, one dataclass per kind
api.py         list_..., get_...
summary.py     summarize_...
memory.py      memory_summary: the references to each object, as a table
logs.py        list_logs, get_log: the last output of workers
exception.py   errors of queries
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
