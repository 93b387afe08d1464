"""Rows of the state API, one dataclass per kind, with Ray's columns.

Detail columns are None unless `detail=True` was given. Columns that Ray does not have come last.
"""

from __future__ import annotations

from dataclasses import dataclass, field, fields
from enum import Enum
from typing import Any

from skate import lazy_loader

DEFAULT_RPC_TIMEOUT = 30
DEFAULT_LIMIT = 100
DEFAULT_LOG_LIMIT = 1000
RAY_MAX_LIMIT_FROM_API_SERVER = 10_000
RAY_MAX_LIMIT_FROM_DATA_SOURCE = 10_000
DEFAULT_DOWNLOAD_FILENAME = "file.txt"
DRIVER_TASK_ID_PREFIX = "ffffffffffffffffffffffffffffffffffffffff"
#: The possible states of each kind of row.
AVAILABLE_STATES = {
    "actors": ("DEPENDENCIES_UNREADY", "PENDING_CREATION", "ALIVE", "RESTARTING", "DEAD"),
    "placement_groups": ("PENDING", "CREATED", "RESCHEDULING", "REMOVED"),
    "nodes": ("ALIVE", "DEAD"),
    "jobs": ("RUNNING", "STOPPED", "SUCCEEDED", "FAILED", "PENDING"),
}

PredicateType = str

Filter = tuple[str, str, Any]


class StateResource(Enum):
    """The kinds that can be listed."""

    ACTORS = "actors"
    JOBS = "jobs"
    PLACEMENT_GROUPS = "placement_groups"
    NODES = "nodes"
    WORKERS = "workers"
    TASKS = "tasks"
    OBJECTS = "objects"
    RUNTIME_ENVS = "runtime_envs"
    CLUSTER_EVENTS = "cluster_events"


class SummaryResource(Enum):
    """The kinds that can be summarized."""

    ACTORS = "actors"
    TASKS = "tasks"
    OBJECTS = "objects"


def column(*, filterable: bool = True, detail: bool = False, format_fn: Any = None, **kwargs: Any) -> Any:
    """A column: in every row or only in detailed ones, and whether filters may name it."""
    return field(default=None, metadata={"detail": detail, "filterable": filterable})


def detail(*, filterable: bool = False) -> Any:
    """Declare a column of detailed rows."""
    return column(detail=True, filterable=filterable)


class StateSchema:
    """One row: its columns are attributes and items."""

    @classmethod
    def list_columns(cls, detail: bool = True) -> list[str]:
        """The names of the columns, in order."""
        return [each.name for each in fields(cls) if detail or not each.metadata["detail"]]  # type: ignore[arg-type]

    @classmethod
    def columns(cls) -> set[str]:
        """The names of all columns."""
        return set(cls.list_columns())

    @classmethod
    def filterable_columns(cls) -> set[str]:
        """The columns that filters may name."""
        return {each.name for each in fields(cls) if each.metadata["filterable"]}  # type: ignore[arg-type]

    @classmethod
    def base_columns(cls) -> set[str]:
        """The columns of every row."""
        return set(cls.list_columns(detail=False))

    @classmethod
    def detail_columns(cls) -> set[str]:
        """The columns of detailed rows."""
        return set(cls.list_columns(detail=True))

    def asdict(self) -> dict[str, Any]:
        """The row as a dict."""
        return dict(self.__dict__)

    def __getitem__(self, key: str) -> Any:
        return getattr(self, key)

    def __setitem__(self, key: str, value: Any) -> None:
        setattr(self, key, value)

    def get(self, key: str, default: Any = None) -> Any:
        """Return a column, or `default` if there is none of that name."""
        return getattr(self, key, default)


@dataclass
class ActorState(StateSchema):
    """An actor. `state`: DEPENDENCIES_UNREADY, PENDING_CREATION, ALIVE, RESTARTING or DEAD."""

    actor_id: str = column()
    class_name: str = column()
    state: str = column()
    job_id: str = column()
    name: str | None = column()
    node_id: str | None = column()
    pid: int | None = column()
    ray_namespace: str | None = column()
    serialized_runtime_env: str | None = detail()
    required_resources: dict[str, float] | None = detail()
    death_cause: dict[str, Any] | None = detail()
    is_detached: bool | None = detail()
    placement_group_id: str | None = detail(filterable=True)
    repr_name: str | None = detail(filterable=True)
    num_restarts: int = detail()
    num_restarts_due_to_lineage_reconstruction: int = detail()
    num_restarts_due_to_node_preemption: int = detail()
    call_site: str | None = detail()
    label_selector: dict[str, str] | None = detail()
    fallback_strategy: dict[str, Any] | None = detail()


@dataclass
class PlacementGroupState(StateSchema):
    """A placement group. `state`: PENDING, CREATED, RESCHEDULING or REMOVED."""

    placement_group_id: str = column()
    name: str = column()
    creator_job_id: str = column()
    state: str = column()
    bundles: list[dict[str, Any]] | None = detail()
    is_detached: bool | None = detail(filterable=True)
    stats: dict[str, Any] | None = detail()
    topology_strategy: dict[str, Any] | None = detail()
    topology_assignments: dict[str, Any] | None = detail()


@dataclass
class NodeState(StateSchema):
    """A node. `state`: ALIVE or DEAD."""

    node_id: str = column()
    node_ip: str = column()
    is_head_node: bool = column()
    state: str = column()
    state_message: str | None = column(filterable=False)
    node_name: str = column()
    resources_total: dict[str, float] = column(filterable=False)
    labels: dict[str, str] = column(filterable=False)
    start_time_ms: int | None = detail()
    end_time_ms: int | None = detail()


@dataclass
class JobState(StateSchema):
    """A job: a driver that runs. `status`: RUNNING."""

    type: str = column()
    job_id: str | None = column()
    submission_id: str | None = column()
    driver_info: dict[str, str] | None = column(filterable=False)
    status: str = column()
    entrypoint: str = column(filterable=False)
    message: str | None = column(filterable=False)
    error_type: str | None = column(filterable=False)
    start_time: int | None = detail()
    end_time: int | None = detail()
    metadata: dict[str, str] | None = detail()
    runtime_env: dict[str, Any] | None = detail()
    driver_agent_http_address: str | None = detail()
    driver_node_id: str | None = detail()
    driver_exit_code: int | None = detail()


@dataclass
class WorkerState(StateSchema):
    """A worker process or a driver. `worker_type`: WORKER or DRIVER."""

    worker_id: str = column()
    is_alive: bool = column()
    worker_type: str = column()
    exit_type: str | None = column()
    node_id: str = column()
    ip: str = column()
    pid: int = column()
    exit_detail: str | None = detail()
    worker_launch_time_ms: int | None = detail()
    worker_launched_time_ms: int | None = detail()
    start_time_ms: int | None = detail()
    end_time_ms: int | None = detail()
    debugger_port: int | None = detail(filterable=True)
    num_paused_threads: int | None = detail(filterable=True)


@dataclass
class ClusterEventState(StateSchema):
    """An event: the loss of a process."""

    severity: str = column()
    time: str = column(filterable=False)
    source_type: str = column()
    message: str = column(filterable=False)
    event_id: str = column()
    custom_fields: dict[str, Any] | None = detail()


@dataclass
class TaskState(StateSchema):
    """One attempt of a task; ended ones come from each node's history of the last 10,000.

    `state`: PENDING_ARGS_AVAIL, PENDING_NODE_ASSIGNMENT, PENDING_ACTOR_TASK_ORDERING_OR_CONCURRENCY, SUBMITTED_TO_WORKER,
    RUNNING, RUNNING_IN_RAY_GET, FINISHED or FAILED.
    """

    task_id: str = column()
    attempt_number: int = column()
    name: str = column()
    state: str = column()
    job_id: str = column()
    actor_id: str | None = column()
    type: str = column()
    func_or_class_name: str = column()
    parent_task_id: str = column()
    node_id: str | None = column()
    worker_id: str | None = column()
    worker_pid: int | None = column()
    error_type: str | None = column()
    language: str | None = detail(filterable=True)
    required_resources: dict[str, float] | None = detail()
    runtime_env_info: dict[str, Any] | None = detail()
    placement_group_id: str | None = detail(filterable=True)
    events: list[dict[str, Any]] | None = detail()
    profiling_data: dict[str, Any] | None = detail()
    creation_time_ms: int | None = detail()
    start_time_ms: int | None = detail()
    end_time_ms: int | None = detail()
    task_log_info: dict[str, Any] | None = detail()
    error_message: str | None = detail()
    is_debugger_paused: bool | None = detail(filterable=True)
    call_site: str | None = detail()
    label_selector: dict[str, str] | None = detail()
    fallback_strategy: dict[str, Any] | None = detail()
    #: The reason why a task is not running yet.
    waits_for: str | None = detail()


@dataclass
class ObjectState(StateSchema):
    """One reference that keeps an object alive; an object with several references has several rows.

    `reference_type`: LOCAL_REFERENCE, PINNED_IN_MEMORY (a view of the value), USED_BY_PENDING_TASK, CAPTURED_IN_OBJECT or
    ACTOR_HANDLE. `object_size` is in bytes, -1 while unknown.
    """

    object_id: str = column()
    object_size: int = column()
    task_status: str = column()
    attempt_number: int = column()
    reference_type: str = column()
    call_site: str = column()
    type: str = column()
    pid: int = column()
    ip: str = column()
    #: The node of the holder; the location of the value (process, arena, disk, another node); the owner of the count.
    node_id: str | None = detail(filterable=True)
    location: str | None = detail(filterable=True)
    owner_node_id: str | None = detail(filterable=True)
    #: The task that created it.
    task_name: str | None = detail(filterable=True)
    #: The holder: a process, a task, or the object or function that contains it; and the number of its references.
    holder: str | None = detail(filterable=True)
    count: int | None = detail()


@dataclass
class RuntimeEnvState(StateSchema):
    """A requested runtime environment."""

    runtime_env: dict[str, Any] = column()
    success: bool = column()
    creation_time_ms: float | None = column(filterable=False)
    node_id: str = column()
    ref_cnt: int | None = detail()
    error: str | None = detail(filterable=True)


SCHEMAS: dict[str, type[StateSchema]] = {
    "actors": ActorState,
    "jobs": JobState,
    "placement_groups": PlacementGroupState,
    "nodes": NodeState,
    "workers": WorkerState,
    "tasks": TaskState,
    "objects": ObjectState,
    "runtime_envs": RuntimeEnvState,
    "cluster_events": ClusterEventState,
}


def check_filters(filters: list[Filter] | None, limit: int) -> list[Filter]:
    """Check filters and return them. Raises ValueError for an invalid condition or too high a limit."""
    if limit > RAY_MAX_LIMIT_FROM_API_SERVER:
        raise ValueError(f"limit={limit} exceeds the maximum, {RAY_MAX_LIMIT_FROM_API_SERVER}")
    checked = list(filters or ())
    for each in checked:
        if len(each) != 3:
            raise ValueError(f"a filter must be (column, '=' or '!=', value), got {each!r}")
        if each[1] not in ("=", "!="):
            raise ValueError(f"filters must use '=' or '!=', got {each[1]!r} (in {each!r})")
    return [(str(key).lower(), predicate, value) for key, predicate, value in checked]


@dataclass
class ListApiOptions:
    """Options of a list: the most rows, seconds to wait, True for all columns, and filters that must all hold."""

    limit: int = DEFAULT_LIMIT
    timeout: float = DEFAULT_RPC_TIMEOUT
    detail: bool = False
    filters: list[Filter] | None = None
    exclude_driver: bool = True
    #: Accepted for compatibility: the share of the timeout for Ray's server.
    server_timeout_multiplier: float = 0.8

    def __post_init__(self) -> None:
        self.filters = check_filters(self.filters, self.limit)

    def has_conflicting_filters(self) -> bool:
        """Return True if no row can match, because two filters require different values of one column."""
        wanted: dict[str, Any] = {}
        return any(
            predicate == "=" and wanted.setdefault(key, value) != value
            for key, predicate, value in self.filters or ()
        )


@dataclass
class GetApiOptions:
    """Options for one row: seconds to wait."""

    timeout: float = DEFAULT_RPC_TIMEOUT
    #: As in `ListApiOptions`.
    server_timeout_multiplier: float = 0.8


@dataclass
class SummaryApiOptions:
    """Options of a summary: seconds to wait, filters, and for tasks "func_name"."""

    timeout: float = DEFAULT_RPC_TIMEOUT
    filters: list[Filter] | None = None
    summary_by: str | None = None


@dataclass
class GetLogOptions:
    """The log to fetch: of a worker by its pid, of an actor or a task by its id, or a file by its name."""

    timeout: float
    node_id: str | None = None
    node_ip: str | None = None
    media_type: str = "file"
    filename: str | None = None
    download_filename: str = DEFAULT_DOWNLOAD_FILENAME
    actor_id: str | None = None
    task_id: str | None = None
    attempt_number: int = 0
    pid: int | None = None
    lines: int = 1000
    interval: float | None = None
    suffix: str = "out"
    submission_id: str | None = None


def resource_to_schema(resource: StateResource) -> type[StateSchema]:
    """The dataclass of the rows of a kind."""
    return SCHEMAS[resource.value]


def filter_fields(data: dict[str, Any], state_dataclass: type[StateSchema], detail: bool) -> dict[str, Any]:
    """Return the columns of a kind of row from a dict; None for missing ones."""
    return {name: data.get(name) for name in sorted(state_dataclass.list_columns(detail=detail))}


state_column = column
#: Names that Ray also defines here; their modules import this one.
_HOMES = {
    "skate.util.state.conversion": ("Humanify", "remove_ansi_escape_codes"),
    "skate.util.state.summary": (
        "ActorSummaries", "ActorSummaryPerClass", "ObjectSummaries", "ObjectSummaryPerKey", "StateSummary", "TaskSummaries",
        "TaskSummaryPerFuncOrClassName",
    ),
}  # fmt: skip
__getattr__ = lazy_loader.getter(globals(), _HOMES)
