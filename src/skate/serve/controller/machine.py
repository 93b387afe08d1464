"""Decides which replicas to start, configure and stop to reach the desired state.

Pure: each method takes an event and the time, and returns actions. The actor executes them and reports the results.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from skate.resources import Resources
from skate.serve.controller.actions import Action, Check, Configure, Start, Stop
from skate.serve.controller.gang import gangs
from skate.serve.controller.ranks import close_gaps
from skate.serve.controller.records import (
    RECOVERING,
    RUNNING,
    STARTING,
    STOPPING,
    UPDATING,
    ApplicationRecord,
    DeploymentRecord,
    Key,
    ReplicaRecord,
    Target,
    in_gangs,
    starts_allowed,
    wanted_of,
)
from skate.serve.controller.states import (
    ApplicationStatus,
    DeploymentStatus,
    DeploymentStatusTrigger,
)

#: A replica is replaced after this many failed health checks in a row.
HEALTH_FAILURES_MAX = 3
BACKOFF_SECONDS_MAX = 64.0
_Trigger = DeploymentStatusTrigger


class Machine:
    """All applications. After each event, `changed` is True if the state must be published."""

    def __init__(self, seed: str = "") -> None:
        #: Makes the names of replicas differ from those of an earlier controller.
        self.seed = seed
        self.apps: dict[str, ApplicationRecord] = {}
        self.capacity: float | None = None
        self.changed = False
        #: The free resources of the cluster, or None if unknown, which counts as enough.
        self.free: Resources | None = None
        #: The number of nodes, for deployments with a limit of replicas per node.
        self.nodes = 1
        #: The nodes that are about to leave. Replicas there are replaced by others elsewhere.
        self.draining: frozenset[str] = frozenset()
        self._count = 0

    # -- requests

    def deploy(self, app: ApplicationRecord, targets: list[Target], now: float) -> list[Action]:
        """Process the deployment of an application, new or changed."""
        self.changed = True
        old = self.apps.get(app.name)
        before = dict(old.deployments) if old is not None else {}
        app.since = now
        self.apps[app.name] = app
        for target in targets:
            key = (app.name, target.name)
            record = before.pop(target.name, None)
            if record is None:
                record = DeploymentRecord(key, target, wanted_of(target.config, self.capacity))
            else:
                self._retarget(record, target)
            app.deployments[target.name] = record
        actions: list[Action] = []
        for record in before.values():  # no longer part of the application
            record.deleting = True
            record.want = 0
            app.deployments[record.target.name] = record
        for record in list(app.deployments.values()):
            actions += self._reconcile(record, now)
        return actions

    def _retarget(self, record: DeploymentRecord, target: Target) -> None:
        same = record.target.version == target.version
        changed = not same or record.target.config != target.config
        record.deleting = False
        if not changed and not record.given_up:
            target.config = record.target.config
        else:
            record.status = DeploymentStatus.UPDATING
            record.trigger = _Trigger.CONFIG_UPDATE_STARTED
            record.message = ""
        if not same or record.given_up:
            record.proven = False
        if not same:
            record.rolling_from = len(record.serving())
        before = record.want if target.config.autoscaling_config is not None and not record.deleting else None
        record.want = wanted_of(target.config, self.capacity, before, changed)
        record.target = target
        record.failures = 0
        record.given_up = False
        record.error = None
        record.next_start = 0.0

    def delete(self, name: str, now: float) -> list[Action]:
        """Process the deletion of an application."""
        app = self.apps.get(name)
        if app is None:
            return []
        self.changed = True
        app.deleting = True
        actions: list[Action] = []
        for record in list(app.deployments.values()):
            record.deleting = True
            record.want = 0
            record.trigger = _Trigger.DELETING
            actions += self._reconcile(record, now)
        self._remove_ended()
        return actions

    def scale(self, key: Key, want: int, now: float, why: str = "") -> list[Action]:
        """Process a change of the number of replicas."""
        record = self.record(key)
        want = want if record is None else in_gangs(record.target.config, want)
        if record is None or record.want == want or record.deleting:
            return []
        up = want > record.want
        record.decisions = [
            *record.decisions[-9:],
            {"time": now, "from": record.want, "to": want, "reason": why},
        ]
        record.want = want
        record.status = DeploymentStatus.UPSCALING if up else DeploymentStatus.DOWNSCALING
        record.trigger = _Trigger.AUTOSCALING if why else _Trigger.CONFIG_UPDATE_STARTED
        record.message = ""
        self.changed = True
        return self._reconcile(record, now)

    # -- events

    def ready(self, key: Key, replica: str, info: dict[str, Any], now: float) -> list[Action]:
        """Process a replica's successful start."""
        record, one = self._find(key, replica)
        if record is None or one is None or one.state is not STARTING:
            return []
        one.state = RUNNING
        one.since = one.checked = now
        one.info = info
        if one.version == record.target.version:
            record.proven = True
            record.failures = 0
            record.next_start = 0.0
            record.guarded = False
        record.guarded |= bool(info.get("guarded"))
        record.been_ready = True
        self.changed = True
        return self._reconcile(record, now)

    def failed(self, key: Key, replica: str, error: Any, crashed: bool, now: float) -> list[Action]:
        """Process a replica's failed start. `crashed` is True if its process died, rather than its code raising an exception."""
        record, one = self._find(key, replica)
        if record is None or one is None:
            return []
        del record.replicas[replica]
        if one.version == record.target.version and not record.deleting and one.state is not STOPPING:
            record.failures += 1
            record.error = error
            record.message = f"a replica could not start: {error}"
            record.trigger = _Trigger.REPLICA_STARTUP_FAILED
            record.next_start = now + min(2.0 ** (record.failures - 1), BACKOFF_SECONDS_MAX)
            if not record.proven and record.failures >= starts_allowed(record, one, crashed):
                record.given_up = True
                record.status = DeploymentStatus.DEPLOY_FAILED
            elif record.proven:
                record.status = DeploymentStatus.UNHEALTHY
        self.changed = True
        return self._reconcile(record, now)

    def configured(self, key: Key, replica: str, error: Any, now: float) -> list[Action]:
        """Process the result of a replica's reconfiguration."""
        record, one = self._find(key, replica)
        if record is None or one is None or one.state is not UPDATING:
            return []
        one.state = RUNNING
        if error is not None:
            record.error = error
            record.message = f"reconfigure failed: {error}"
            record.status = DeploymentStatus.UNHEALTHY
            record.trigger = _Trigger.CONFIG_UPDATE_STARTED
            record.given_up = True
        self.changed = True
        return self._reconcile(record, now)

    def lost(self, key: Key, replica: str, now: float) -> list[Action]:
        """Process the end of a replica's process."""
        record, one = self._find(key, replica)
        if record is None or one is None:
            return []
        if one.state is STARTING:
            return self.failed(key, replica, "its process ended", True, now)
        del record.replicas[replica]
        self.changed = True
        if one.state is not STOPPING and not record.deleting:
            record.status = DeploymentStatus.UNHEALTHY
            record.trigger = _Trigger.HEALTH_CHECK_FAILED
            record.message = f"the process of replica {replica} has ended; starting another one"
        return self._reconcile(record, now)

    stopped = lost

    def checked(self, key: Key, replica: str, error: Any, now: float) -> list[Action]:
        """Process the result of a health check; `error` is None on success."""
        record, one = self._find(key, replica)
        if record is None or one is None:
            return []
        one.checking = False
        one.checked = now
        if error is None:
            one.failures = 0
            if one.state is RECOVERING:
                one.state = RUNNING
                self.changed = True
            return self._reconcile(record, now)
        one.failures += 1
        if one.failures < HEALTH_FAILURES_MAX or one.state is STOPPING:
            return []
        record.status = DeploymentStatus.UNHEALTHY
        record.trigger = _Trigger.HEALTH_CHECK_FAILED
        record.message = f"replica {replica} failed its health checks and is replaced: {error}"
        self.changed = True
        return [self._stop(record, one, now), *self._reconcile(record, now)]

    def tick(self, now: float) -> list[Action]:
        """Start due health checks, and retry delayed starts."""
        actions: list[Action] = []
        for app in list(self.apps.values()):
            for record in list(app.deployments.values()):
                config = record.target.config
                for one in record.replicas.values():
                    due = one.failures > 0 or now - one.checked >= config.health_check_period_s
                    if one.state in (RUNNING, RECOVERING) and due and not one.checking:
                        one.checking = True
                        actions.append(Check(record.key, one.id, config.health_check_timeout_s))
                # There may be room now, or a retry may be due.
                replicas = record.living()
                rolling = any(self._is_old(record, one) for one in replicas)
                if rolling or len(replicas) < record.want and now >= record.next_start:
                    actions += self._reconcile(record, now)
        return actions

    def restored(self, now: float) -> list[Action]:
        """Process a restart of the controller: check every replica."""
        self.changed = True
        actions: list[Action] = []
        for app in self.apps.values():
            for record in app.deployments.values():
                ending = [one for one in record.replicas.values() if one.state in (STARTING, STOPPING)]
                actions += [self._stop(record, one, now) for one in ending]
                actions += [self._stop(record, one, now, grace_s=0) for one in gangs.torn(record.living())]
                for one in record.living():
                    if one.state is UPDATING:
                        one.config = None  # it may not have received its settings, so send them again
                    one.state = RECOVERING
                    one.checking = True
                    actions.append(Check(record.key, one.id, record.target.config.health_check_timeout_s))
        return actions

    # -- reconciliation

    def _reconcile(self, record: DeploymentRecord, now: float) -> list[Action]:
        actions: list[Action] = []
        if record.deleting:
            for one in record.living():
                actions.append(self._stop(record, one, now))
            self._remove_ended()
            return actions
        target = record.target
        # A gang that has lost a member ends, and another one takes its place.
        actions += [self._stop(record, one, now, grace_s=0) for one in gangs.torn(record.living())]
        living = record.living()
        old = gangs.with_siblings([one for one in living if self._is_old(record, one)], living)
        replaced = {one.id for one in old}
        current = [one for one in living if one.id not in replaced]
        actions += self._configure(record, current)
        actions += self._shrink(record, current, now)
        if old:
            actions += self._roll(record, current, old, now)
        elif len(current) < record.want and not record.given_up:
            if now >= record.next_start:
                missing = record.want - len(current)
                if target.per_node is not None:  # stopping replicas keep their places until they have ended
                    missing = min(missing, target.per_node * self.nodes - len(record.replicas))
                for _ in range(missing // gangs.size_of(target.config)):
                    actions += self._start(record, now)
        for one in close_gaps(record):
            one.state = UPDATING
            actions.append(Configure(record.key, one.id, target.config, one.place))
        self._set_healthy(record)
        return actions

    def _configure(self, record: DeploymentRecord, current: list[ReplicaRecord]) -> list[Action]:
        actions: list[Action] = []
        for one in current:
            if one.state is RUNNING and one.config is not record.target.config:
                changed = one.config != record.target.config
                one.config = record.target.config
                if changed:
                    one.state = UPDATING
                    actions.append(Configure(record.key, one.id, record.target.config, one.place))
        return actions

    def _shrink(self, record: DeploymentRecord, current: list[ReplicaRecord], now: float) -> list[Action]:
        surplus = len(current) - record.want
        if surplus <= 0:
            return []
        # Stop replicas that do not serve yet first, then the youngest.
        order = sorted(gangs.units(current), key=lambda unit: (not gangs.starts(unit), -unit[0].since))
        leaving = [one for unit in gangs.surplus(order, surplus) for one in unit]
        for one in leaving:
            current.remove(one)
        return [self._stop(record, one, now) for one in leaving]

    def _roll(
        self, record: DeploymentRecord, current: list[ReplicaRecord], old: list[ReplicaRecord], now: float
    ) -> list[Action]:
        """Replace replicas in batches. If there is room for both, a new replica serves before an old one stops."""
        actions: list[Action] = []
        config = record.target.config
        size = gangs.size_of(config)
        batch = max(1, math.floor(config.rolling_update_percentage * record.want) // size) * size
        serving = [one for one in current if one.state is not STARTING]
        waiting = gangs.units(old)
        old_units = [unit for unit in waiting if not gangs.starts(unit)]
        old_serving = sum(map(len, old_units))
        ending = [unit for unit in waiting if gangs.starts(unit)]
        by_age = sorted(old_units, key=lambda unit: unit[0].since)
        surplus = gangs.surplus(by_age, len(serving) + old_serving - record.want)
        for unit in ending + surplus:
            actions += [self._stop(record, one, now) for one in unit]
        old_units = [unit for unit in old_units if unit not in surplus]
        old_serving -= sum(map(len, surplus))
        if record.given_up or now < record.next_start:
            return actions
        starting = len(current) - len(serving)
        missing = record.want - len(current)
        leaving = sum(one.state is STOPPING for one in record.replicas.values())
        least = min(record.want, record.rolling_from) - batch
        for _ in range(max(0, min(missing, batch - starting)) // size):
            if self._room(record):
                actions += self._start(record, now)
            elif (
                old_units
                # one on a draining node serves as long as it can
                and old_units[0][0].version != record.target.version
                and leaving + starting < batch
                and len(serving) + old_serving > least
            ):
                # There is no room for both, so stop an old one first. Its requests wait for other replicas.
                unit = old_units.pop(0)
                actions += [self._stop(record, one, now) for one in unit]
                leaving += len(unit)
                old_serving -= len(unit)
        return actions

    def _is_old(self, record: DeploymentRecord, one: ReplicaRecord) -> bool:
        """Return True if a replica is to be replaced: it has other code, or its node is about to leave."""
        return one.version != record.target.version or one.info.get("node") in self.draining

    def drain(self, nodes: frozenset[str], now: float) -> list[Action]:
        """Process a change of the nodes that are about to leave."""
        if nodes == self.draining:
            return []
        self.draining = nodes
        actions: list[Action] = []
        for record in self.each():
            if not record.deleting and any(self._is_old(record, one) for one in record.living()):
                record.rolling_from = len(record.serving())
                record.next_start = 0.0
            actions += self._reconcile(record, now)
        return actions

    def _room(self, record: DeploymentRecord) -> bool:
        target = record.target
        if target.per_node is not None and len(record.replicas) >= target.per_node * self.nodes:
            return False
        if self.free is None:
            return True
        needs = target.resources() * gangs.size_of(target.config)
        if not needs.fits(self.free):
            return False
        self.free -= needs
        return True

    def _start(self, record: DeploymentRecord, now: float) -> list[Action]:
        """Start one replica, or one gang."""
        target = record.target
        names = []
        for _ in range(gangs.size_of(target.config)):
            self._count += 1
            names.append(f"{self.seed}{self._count:x}")
        actions: list[Action] = []
        for name, gang in zip(names, gangs.members(record.key, target.config, names), strict=True):
            rank = record.free_rank()
            one = ReplicaRecord(name, target.version, target.config, STARTING, now, rank, gang=gang)
            record.replicas[name] = one
            actions.append(Start(record.key, name, rank))
        return actions

    def _stop(
        self, record: DeploymentRecord, one: ReplicaRecord, now: float, grace_s: float | None = None
    ) -> Action:
        if grace_s is None:
            grace_s = record.target.config.graceful_shutdown_timeout_s
        one.state = STOPPING
        one.since = now
        self.changed = True
        return Stop(record.key, one.id, grace_s)

    def _set_healthy(self, record: DeploymentRecord) -> None:
        """Set HEALTHY when the deployment is in its desired state."""
        target = record.target
        good = [
            one
            for one in record.replicas.values()
            if one.state is RUNNING and one.version == target.version and one.config == target.config
        ]
        if len(good) != record.want or len(record.living()) != record.want or record.given_up:
            return
        if record.status is DeploymentStatus.HEALTHY:
            return
        triggers = {
            DeploymentStatus.UPSCALING: _Trigger.UPSCALE_COMPLETED,
            DeploymentStatus.DOWNSCALING: _Trigger.DOWNSCALE_COMPLETED,
        }
        record.trigger = triggers.get(record.status, _Trigger.CONFIG_UPDATE_COMPLETED)
        record.status = DeploymentStatus.HEALTHY
        record.message = ""
        self.changed = True
        app = self.apps.get(record.key[0])
        if app is not None and self.status_of(app) is ApplicationStatus.RUNNING:
            app.ran = True

    def _remove_ended(self) -> None:
        for app in list(self.apps.values()):
            for name, record in list(app.deployments.items()):
                if record.deleting and not record.replicas:
                    del app.deployments[name]
            if app.deleting and not app.deployments:
                del self.apps[app.name]
                self.changed = True

    # -- queries

    def record(self, key: Key) -> DeploymentRecord | None:
        """Return the record of a deployment, or None."""
        app = self.apps.get(key[0])
        return None if app is None else app.deployments.get(key[1])

    def _find(self, key: Key, replica: str) -> tuple[DeploymentRecord | None, ReplicaRecord | None]:
        record = self.record(key)
        return record, None if record is None else record.replicas.get(replica)

    def each(self) -> list[DeploymentRecord]:
        """Return the records of all deployments."""
        return [record for app in self.apps.values() for record in app.deployments.values()]

    def status_of(self, app: ApplicationRecord) -> ApplicationStatus:
        """Return the status of an application."""
        if app.deleting:
            return ApplicationStatus.DELETING
        if app.build_error:
            return ApplicationStatus.DEPLOY_FAILED
        records = [record for record in app.deployments.values() if not record.deleting]
        states = {record.status for record in records}
        if DeploymentStatus.DEPLOY_FAILED in states:
            return ApplicationStatus.DEPLOY_FAILED
        if DeploymentStatus.UNHEALTHY in states:
            return ApplicationStatus.UNHEALTHY
        if DeploymentStatus.UPDATING in states:
            return ApplicationStatus.DEPLOYING
        return ApplicationStatus.RUNNING

    def check(self, limit: Callable[[DeploymentRecord], int] | None = None) -> None:
        """Assert the invariants."""
        for record in self.each():
            record.check()
            assert not gangs.torn(record.living()), record.key
            if limit is not None:
                assert len(record.living()) <= limit(record), (record.key, len(record.living()))

    def __repr__(self) -> str:
        lines = []
        for record in self.each():
            counts = " ".join(f"{state.lower()}={count}" for state, count in record.counts().items())
            lines.append(f"{record.key[0]}/{record.key[1]} want={record.want} {counts}".rstrip())
        return f"<Machine {'; '.join(lines)}>"
