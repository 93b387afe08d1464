"""Executes the machine's actions, and reports the results to it."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any

import skate
from skate.exceptions import ActorDiedError, ActorUnavailableError, RayActorError, RayTaskError
from skate.serve.controller import clock, spread
from skate.serve.controller.actions import Action, Check, Configure, Start, Stop
from skate.serve.controller.gang.gang_groups import GangGroups
from skate.serve.controller.ports import ControllerPort
from skate.serve.controller.ranks import assign_to_node
from skate.serve.controller.records import SERVING, STARTING, DeploymentRecord, Key, ReplicaRecord
from skate.serve.controller.shared_actors import SharedActors
from skate.serve.identity import NAMESPACE, REPLICA_PREFIX, DeploymentID, ReplicaID
from skate.serve.replica import import_roots
from skate.serve.replica.actor import Replica
from skate.serve.replica.order import Order
from skate.util import list_named_actors
from skate.util.placement_group import get_placement_group, placement_group, remove_placement_group
from skate.util.scheduling_strategies import NodeAffinitySchedulingStrategy, PlacementGroupSchedulingStrategy

_CONCURRENT = 100_000
_DIED = (ActorDiedError, ActorUnavailableError, RayActorError)
#: Additional time after its grace period in which a replica must report that it is done.
_MARGIN_SECONDS = 5.0


class ReplicaPool:
    """The replica actors, and the controller's background tasks."""

    def __init__(self, controller: ControllerPort) -> None:
        self.controller = controller
        self.actors: dict[str, Any] = {}
        self.groups: dict[str, Any] = {}
        self.gangs = GangGroups()
        self.shared = SharedActors()
        self._tasks: set[asyncio.Task[Any]] = set()
        self._classes: dict[str, Any] = {}

    def later(self, coroutine: Coroutine[Any, Any, None]) -> None:
        """Run a coroutine in the background."""
        task = asyncio.get_running_loop().create_task(coroutine)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def take(self, action: Action) -> None:
        """Start an action."""
        if isinstance(action, Start):
            self.later(self._start(action))
        elif isinstance(action, Configure):
            self.later(self._configure(action))
        elif isinstance(action, Stop):
            self.later(self._stop(action))
        else:
            assert isinstance(action, Check)
            self.later(self._check(action))

    def _report(self, what: str, *args: Any) -> None:
        controller = self.controller
        controller.update_free()
        controller.do(getattr(controller.machine, what)(*args, clock.now()))
        controller.publish()

    # -- starting

    async def _start(self, action: Start) -> None:
        controller = self.controller
        record = controller.machine.record(action.key)
        one = None if record is None else record.replicas.get(action.replica)
        if record is None or one is None:
            return
        try:
            await self.shared.ensure(record, one.version)
            if one.state is not STARTING:
                return  # it was stopped meanwhile
            actor = self._make(record, one)
            self.actors[action.replica] = actor
            assign_to_node(record, one, await actor.node.remote(), len(spread.nodes()) == 1)
            info = await actor.start.remote(one.place)
        except Exception as error:  # the constructor may raise anything, or there may be no room for it
            crashed = isinstance(error, _DIED) and not isinstance(error, RayTaskError)
            self._end(action.replica)
            self._report("failed", action.key, action.replica, Failure.of(error), crashed)
            return
        if one.state is not STARTING:
            return  # it is already being stopped
        self.later(self._watch_end(action.key, action.replica, actor))
        self._report("ready", action.key, action.replica, info)

    def _make(self, record: DeploymentRecord, one: ReplicaRecord) -> Any:
        """Create the actor of a replica. Raise the engine's error for invalid options."""
        controller = self.controller
        target = record.target
        app = controller.machine.apps[record.key[0]]
        deployment = DeploymentID(target.name, app.name)
        name = ReplicaID(one.id, deployment).to_full_id_str()
        code = controller.codes[one.version]
        http = None
        ingress = target.ingress and app.route_prefix is not None
        if ingress and controller.keeper is not None:
            http = {"options": controller.options, "keepers": [controller.keeper.name]}
        grpc = controller.grpc_options if target.ingress else None
        if grpc is not None and not grpc.grpc_servicer_functions:
            grpc = None
        order = Order(
            app=app.name,
            name=target.name,
            replica=one.id,
            code=code if isinstance(code, bytes) else skate.get(code),
            version=one.version,
            config=one.config,
            gang=one.gang,
            world_size=record.want,
            http=http,
            grpc=grpc,
            tracing=controller.tracing,
            grpc_host=controller.options.host,
            surroundings=import_roots.of(app.path, app.directory, controller.own_path),
        )
        options = self._options(record, one, name)
        title = deployment.to_replica_actor_class_name()
        kind = self._classes.get(title)
        if kind is None:
            kind = self._classes[title] = skate.remote(Replica)._renamed(title)
        return kind.options(
            name=name, namespace=NAMESPACE, lifetime="detached", max_concurrency=_CONCURRENT, **options
        ).remote(order)

    def _options(self, record: DeploymentRecord, one: ReplicaRecord, name: str) -> dict[str, Any]:
        target = record.target
        options = dict(target.actor["ray_actor_options"])
        bundles = target.actor.get("placement_group_bundles")
        if one.gang is not None:
            options["scheduling_strategy"] = self.gangs.strategy(record, one)
        elif bundles:
            group = placement_group(
                bundles,
                strategy=target.actor.get("placement_group_strategy") or "PACK",
                name=name,
                lifetime="detached",
                bundle_label_selector=target.actor.get("placement_group_bundle_label_selector"),
            )
            self.groups[one.id] = group
            options["scheduling_strategy"] = PlacementGroupSchedulingStrategy(
                placement_group=group,
                placement_group_bundle_index=0,
                placement_group_capture_child_tasks=True,
            )
        elif target.per_node is not None:
            one.info["node"] = spread.node_for(record, one, target.per_node)
            options["scheduling_strategy"] = NodeAffinitySchedulingStrategy(one.info["node"], soft=False)
        return {key: value for key, value in options.items() if value is not None}

    async def _watch_end(self, key: Key, replica: str, actor: Any) -> None:
        """Wait for the end of a replica's process."""
        try:
            await actor.live.remote()
        except Exception:  # only the end matters
            pass
        if self.actors.get(replica) is actor:
            self._end(replica)
            self._report("lost", key, replica)

    def _find_group(self, replica: str, name: str) -> None:
        try:
            self.groups[replica] = get_placement_group(name)
        except ValueError:  # it is gone
            return

    def find_again(self) -> None:
        """Get handles to the known replicas after a restart, and end the unknown ones."""
        known = {one.id for record in self.controller.machine.each() for one in record.replicas.values()}
        for named in list_named_actors(all_namespaces=True):
            name = named["name"]
            if named["namespace"] == NAMESPACE and name.startswith(REPLICA_PREFIX):
                if name.rpartition("#")[2] not in known:
                    _end_unknown(name)
        for record in self.controller.machine.each():
            self.shared.find_again(record)
            for one in list(record.replicas.values()):
                name = ReplicaID(one.id, DeploymentID(record.key[1], record.key[0])).to_full_id_str()
                try:
                    actor = skate.get_actor(name, namespace=NAMESPACE)
                except ValueError:  # it ended meanwhile
                    record.replicas.pop(one.id)
                    continue
                self.actors[one.id] = actor
                if one.gang is not None:
                    self.gangs.find_again(one.id, one.gang)
                elif record.target.actor.get("placement_group_bundles"):
                    self._find_group(one.id, name)
                if one.state in SERVING:
                    self.later(self._watch_end(record.key, one.id, actor))
        self.gangs.remove_unknown()

    # -- the rest of a replica's life

    async def _configure(self, action: Configure) -> None:
        error = None
        try:
            await self.actors[action.replica].reconfigure.remote(action.config, action.place)
        except Exception as raised:  # a user's reconfigure may raise anything
            error = Failure.of(raised)
        self._report("configured", action.key, action.replica, error)

    async def _check(self, action: Check) -> None:
        actor = self.actors.get(action.replica)
        if actor is None:
            return
        error: Any = None
        try:
            await asyncio.wait_for(actor.check.remote().as_future(), action.timeout_s)
        except (TimeoutError, asyncio.TimeoutError):
            error = f"it did not respond within {action.timeout_s} s"
        except _DIED:
            return  # reported elsewhere
        except Exception as raised:  # check_health reports failure by raising
            error = Failure.of(raised)
        self._report("checked", action.key, action.replica, error)

    async def _stop(self, action: Stop) -> None:
        actor = self.actors.get(action.replica)
        if actor is not None:
            self.controller.publish()
            await self.controller.await_watchers()
            try:
                call = actor.drain.remote(action.grace_s)
                await asyncio.wait_for(call.as_future(), action.grace_s + _MARGIN_SECONDS)
            except Exception:  # end it now in any case
                pass
        self._end(action.replica)
        self._report("stopped", action.key, action.replica)

    def _end(self, replica: str) -> None:
        actor = self.actors.pop(replica, None)
        self.controller.forget_watcher(replica)
        if actor is not None:
            try:
                skate.kill(actor)
            except Exception:  # it has ended already
                pass
        self.gangs.leave(replica)
        group = self.groups.pop(replica, None)
        if group is not None:
            remove_placement_group(group)


def _end_unknown(name: str) -> None:
    """End a replica that an earlier controller started just before it ended."""
    try:
        skate.kill(skate.get_actor(name, namespace=NAMESPACE))
    except ValueError:  # it has ended already
        pass


class Failure:
    """The reason of a replica's failure: a text, and the exception if it can be pickled."""

    def __init__(self, text: str, error: BaseException | None) -> None:
        self.text = text
        self.error = error

    @classmethod
    def of(cls, error: BaseException) -> Failure:
        """Build from an exception."""
        cause = getattr(error, "cause", None)
        shown = cause if isinstance(cause, BaseException) else error
        return cls(f"{type(shown).__name__}: {shown}".strip(), error)

    def __reduce__(self) -> Any:
        import pickle  # only those that are sent

        try:
            pickle.dumps(self.error)
        except Exception:  # a user's exception that cannot be pickled is reduced to its text
            return Failure, (self.text, None)
        return Failure, (self.text, self.error)

    def __str__(self) -> str:
        return self.text
