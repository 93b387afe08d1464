"""The controller's proxies: one on each other node that has replicas."""

from __future__ import annotations

import asyncio
from typing import Any

import skate
from skate.exceptions import RayError
from skate.serve.controller.ports import ControllerPort
from skate.serve.identity import NAMESPACE
from skate.serve.proxy.proxy_actor import ProxyActor
from skate.util import list_named_actors
from skate.util.scheduling_strategies import NodeAffinitySchedulingStrategy

#: The names of the actors, each followed by the id of its node.
PREFIX = "SERVE_PROXY_ACTOR-"
#: How long a proxy stays on a node without replicas, so that load balancers can leave it.
_DRAIN_SECONDS = 30.0
_CONCURRENT = 10_000
#: How long to wait before a proxy that has failed is started again.
_PAUSE_SECONDS = 1.0


class NodeProxies:
    """Starts a proxy on each node that has replicas, and ends it when they have gone."""

    def __init__(self, controller: ControllerPort) -> None:
        self._controller = controller
        self._own_node = skate.get_runtime_context().get_node_id()
        self.actors: dict[str, Any] = {}
        #: Ids of each proxy for status reports, once it has begun.
        self.known: dict[str, dict[str, Any]] = {}
        #: The number of requests at each replica of other nodes, as last reported.
        self.loads: dict[str, dict[str, int]] = {}
        self._vacant_since: dict[str, float] = {}
        self._not_before: dict[str, float] = {}

    async def keepers_of(self, node: str) -> list[bytes]:
        """Return the addresses at which a replica on a node fetches the listening socket; none if that node has none."""
        keeper = self._controller.keeper
        if keeper is None or not self._serves(node):
            return []
        if node == self._own_node:
            return [keeper.name]
        return [await self._begin(node)]

    def _serves(self, node: str) -> bool:
        """Return True if this node accepts HTTP."""
        return node == self._own_node or self._controller.location != "HeadOnly"

    def load(self, replica: str, node: str) -> int:
        """Return the last reported number of requests at a replica of another node."""
        return self.loads.get(node, {}).get(replica, 0)

    def tick(self, now: float) -> None:
        """Start proxies where replicas are, and end those that have been without replicas for long."""
        hosting = {
            node
            for record in self._controller.machine.each()
            for one in record.replicas.values()
            if (node := one.info.get("node")) and one.info.get("pid")
        }
        for node in hosting - {self._own_node} - set(self.actors):
            if self._not_before.get(node, 0.0) <= now:
                self._not_before[node] = now + _PAUSE_SECONDS
                self._controller.pool.later(self._try(node))
        for node in hosting:
            self._vacant_since.pop(node, None)
        draining = self._controller.machine.draining
        for node in set(self.actors) - hosting:
            if node in draining or now - self._vacant_since.setdefault(node, now) > _DRAIN_SECONDS:
                self._controller.pool.later(self._retire(node))

    async def _try(self, node: str) -> None:
        try:
            await self._begin(node)
        except (
            RayError,
            RuntimeError,
        ):  # the node is leaving, or its port is taken: its replicas report that
            self._drop(node)

    async def _begin(self, node: str) -> bytes:
        actor = self.actors.get(node)
        if actor is None:
            actor = self.actors[node] = self._make(node)
            self._controller.pool.later(self._watch_end(node, actor))
        keeper = self._controller.keeper
        name: bytes = await actor.begin.remote(
            [*([] if keeper is None else [keeper.name]), *self._mailboxes(node)]
        )
        if node not in self.known:
            self.known[node] = await actor.about.remote()
        return name

    def _make(self, node: str) -> Any:
        controller = self._controller
        options = None
        if controller.keeper is not None and self._serves(node):
            options = controller.options.model_copy(update={"port": controller.keeper.port})
        return (
            skate.remote(ProxyActor)
            .options(
                name=PREFIX + node,
                namespace=NAMESPACE,
                lifetime="detached",
                get_if_exists=True,
                num_cpus=0,
                max_concurrency=_CONCURRENT,
                scheduling_strategy=NodeAffinitySchedulingStrategy(node, soft=False),
            )
            .remote(options)
        )

    def _mailboxes(self, node: str) -> list[bytes]:
        replicas = (one for record in self._controller.machine.each() for one in record.living())
        return [
            one.info["mailbox"]
            for one in replicas
            if one.info.get("node") == node and one.info.get("mailbox")
        ]

    async def _watch_end(self, node: str, actor: Any) -> None:
        try:
            await actor.live.remote()
        except Exception:  # only the end matters; the next tick starts another one if the node has replicas
            pass
        if self.actors.get(node) is actor:
            self._drop(node)

    def _drop(self, node: str) -> None:
        actor = self.actors.pop(node, None)
        self.known.pop(node, None)
        self.loads.pop(node, None)
        self._vacant_since.pop(node, None)
        if actor is not None:
            try:
                skate.kill(actor)
            except Exception:  # it has ended already
                pass

    async def _retire(self, node: str) -> None:
        actor = self.actors.get(node)
        if actor is not None:
            try:
                await asyncio.wait_for(actor.end.remote().as_future(), _DRAIN_SECONDS)
            except Exception:  # end it in any case
                pass
            self._drop(node)

    def find_again(self) -> None:
        """Get handles to the proxies of an earlier controller."""
        for named in list_named_actors(all_namespaces=True):
            name = named["name"]
            if named["namespace"] == NAMESPACE and name.startswith(PREFIX):
                node = name.removeprefix(PREFIX)
                try:
                    actor = self.actors[node] = skate.get_actor(name, namespace=NAMESPACE)
                except ValueError:  # it ended meanwhile
                    continue
                self._controller.pool.later(self._watch_end(node, actor))
                self._controller.pool.later(self._try(node))

    def end(self) -> None:
        """End all proxies."""
        for node in list(self.actors):
            self._drop(node)
