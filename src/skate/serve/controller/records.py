"""The controller's records of applications, deployments and replicas, as plain data."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from typing import Any

from skate.resources import Resources
from skate.serve.config.autoscaling import TimeStampedValue
from skate.serve.config.deployment import DeploymentConfig
from skate.serve.context import GangContext, ReplicaRank
from skate.serve.controller.autoscaler import Scaler, bounded, share_of
from skate.serve.controller.states import DeploymentStatus, DeploymentStatusTrigger, ReplicaState

Key = tuple[str, str]
STARTING, RUNNING, UPDATING = ReplicaState.STARTING, ReplicaState.RUNNING, ReplicaState.UPDATING
STOPPING, RECOVERING = ReplicaState.STOPPING, ReplicaState.RECOVERING
#: States in which a replica takes requests.
SERVING = (RUNNING, UPDATING, RECOVERING)
#: The number of attempts for a start whose process died without an exception.
CRASHES_MAX = 3
#: The number of attempts for each wanted replica, if a constructor raises while other replicas start.
STARTS_PER_REPLICA_MAX = 3


@dataclass
class ReplicaRecord:
    """One replica."""

    id: str
    version: str
    #: The settings it runs with, or None if unknown. If this is not the target's object, it must be reconfigured.
    config: DeploymentConfig | None
    state: ReplicaState
    since: float
    rank: int
    info: dict[str, Any] = field(default_factory=dict)
    checked: float = 0.0
    checking: bool = False
    failures: int = 0
    models: tuple[str, ...] = ()
    #: Its place in its gang, or None.
    gang: GangContext | None = None
    #: When its code was last asked for statistics, by method.
    asked: dict[str, float] = field(default_factory=dict)
    #: The last result of its `record_routing_stats`.
    routing_stats: Any = None
    #: The results of its `record_autoscaling_stats` over the look-back period, by metric.
    metrics: dict[str, deque[TimeStampedValue]] = field(default_factory=dict)
    #: The ranks that depend on its node. They are valid once `placed` is True.
    node_rank: int = 0
    local_rank: int = 0
    placed: bool = False

    @property
    def place(self) -> ReplicaRank:
        """Its ranks."""
        return ReplicaRank(self.rank, self.node_rank, self.local_rank)


@dataclass
class Target:
    """The desired state of a deployment."""

    name: str
    version: str
    config: DeploymentConfig
    actor: dict[str, Any]
    ingress: bool
    asgi: bool
    outbound: tuple[str, ...]
    docs_path: str | None
    #: True if its arguments contain API keys.
    guarded: bool = False

    @property
    def per_node(self) -> int | None:
        """The maximum number of replicas per node, or None."""
        limit: int | None = self.actor.get("max_replicas_per_node")
        return limit

    def resources(self) -> Resources:
        """The resources of a replica."""
        bundles = self.actor.get("placement_group_bundles")
        if bundles:
            return Resources.total(bundles)
        return Resources.from_options(self.actor["ray_actor_options"], default_cpus=1)


@dataclass
class DeploymentRecord:
    """One deployment: its desired and its actual state."""

    key: Key
    target: Target
    want: int
    replicas: dict[str, ReplicaRecord] = field(default_factory=dict)
    status: DeploymentStatus = DeploymentStatus.UPDATING
    trigger: DeploymentStatusTrigger = DeploymentStatusTrigger.CONFIG_UPDATE_STARTED
    message: str = ""
    #: The number of failed starts of the wanted version since the last successful one.
    failures: int = 0
    next_start: float = 0.0
    given_up: bool = False
    #: True if a replica of the wanted version has been ready, and of any version.
    proven: bool = False
    been_ready: bool = False
    #: True if a replica had API keys.
    guarded: bool = False
    #: The number of replicas that served when the current update began.
    rolling_from: int = 0
    error: Any = None
    deleting: bool = False
    scaler: Scaler = field(default_factory=Scaler)
    decisions: list[dict[str, Any]] = field(default_factory=list)
    scaling_error: str = ""

    def living(self) -> list[ReplicaRecord]:
        """Return the replicas that are not being stopped."""
        return [each for each in self.replicas.values() if each.state is not STOPPING]

    def serving(self) -> list[ReplicaRecord]:
        """Return the replicas that take requests."""
        return [each for each in self.replicas.values() if each.state in SERVING]

    def free_rank(self) -> int:
        """Return the lowest free rank."""
        taken = {each.rank for each in self.living()}
        return next(rank for rank in range(len(taken) + 1) if rank not in taken)

    def check(self) -> None:
        """Assert the invariants."""
        ranks = [one.rank for one in self.living()]
        assert len(ranks) == len(set(ranks)), (self.key, ranks)
        assert self.want >= 0
        assert not (self.deleting and ranks), self.key

    def counts(self) -> dict[str, int]:
        """Return the number of replicas by the name of their state."""
        found: dict[str, int] = {}
        for each in self.replicas.values():
            found[each.state.value] = found.get(each.state.value, 0) + 1
        return found


@dataclass
class ApplicationRecord:
    """One application."""

    name: str
    route_prefix: str | None
    ingress: str
    deployments: dict[str, DeploymentRecord]
    since: float
    config: dict[str, Any] | None = None
    source: str = "imperative"
    deleting: bool = False
    #: True if it has been RUNNING since the last deploy.
    ran: bool = False
    message: str = ""
    #: The import path and the working directory of its program.
    path: list[str] = field(default_factory=list)
    directory: str = ""
    external_scaler: bool = False
    #: The autoscaling policy for all deployments together, if there is one.
    policy: Any = None
    #: Why the code of a later request could not be imported. What was deployed before it continues to run.
    build_error: str = ""


#: The applications of a config that could not be built: their configs and the reasons, by name.
Broken = dict[str, tuple[Any, str]]


def record_build_errors(apps: dict[str, ApplicationRecord], broken: Broken, now: float) -> None:
    """Record which applications could not be built. Those without an earlier version have no deployments."""
    for name, (config, error) in broken.items():
        app = apps.get(name)
        if app is None or app.deleting:
            app = apps[name] = ApplicationRecord(name, None, "", {}, now, config, "declarative")
        app.since = now
        app.build_error = error


def wanted_of(
    config: DeploymentConfig, capacity: float | None, before: int | None = None, changed: bool = False
) -> int:
    """Return the number of replicas after a deploy, for a capacity in percent.

    Args:
        config: the deployment's settings.
        capacity: the target capacity, or None.
        before: the autoscaled number so far, which is kept within the bounds; None for a new deployment.
        changed: True if the deploy changes anything. Then `initial_replicas` is used instead, if it is set.
    """
    scaling = config.autoscaling_config
    if scaling is None:
        return in_gangs(config, share_of(config.num_replicas or 1, capacity))
    if before is None:
        return in_gangs(config, share_of(scaling.first, capacity))
    within = bounded(scaling, capacity)
    if capacity == 0:
        return 0
    if changed and scaling.initial_replicas is not None:
        before = share_of(scaling.initial_replicas, capacity)
    return in_gangs(config, min(within.max_replicas, max(within.min_replicas, before)))


def in_gangs(config: DeploymentConfig, number: int) -> int:
    """Round a number of replicas up to whole gangs, or down if that is more than the maximum."""
    gang = config.gang_scheduling_config
    if gang is None or number % gang.gang_size == 0:
        return number
    more = (number // gang.gang_size + 1) * gang.gang_size
    scaling = config.autoscaling_config
    over = scaling is not None and more > scaling.max_replicas
    return more - gang.gang_size if over else more


def starts_allowed(record: DeploymentRecord, one: ReplicaRecord, crashed: bool) -> int:
    """Return the number of failed starts after which a deployment is given up, when `one` has just failed."""
    retries: int | None = record.target.config.max_constructor_retry_count
    if retries is not None:
        return retries
    # While others may still succeed, an exception is not yet known to be a mistake of the code.
    if any(each.version == one.version for each in record.living()):
        return STARTS_PER_REPLICA_MAX * record.want
    return CRASHES_MAX if crashed else 1
