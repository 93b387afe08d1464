"""Custom routers: their notifications, their rankings, and the inherited helpers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from ray import serve
from ray.serve.config import RequestRouterConfig
from ray.serve.request_router import (
    FIFOMixin,
    LocalityMixin,
    MultiplexMixin,
    PendingRequest,
    ReplicaID,
    ReplicaResult,
    RequestRouter,
    RunningReplica,
)

LIGHT: dict[str, Any] = {"ray_actor_options": {"num_cpus": 0}}
Deploy = Callable[..., Any]


class Recording(FIFOMixin, MultiplexMixin, LocalityMixin, RequestRouter):
    """Always takes the replica of the lowest name, and writes down what it is served."""

    seen: list[Any] = []

    def initialize_state(self, **kwargs: Any) -> None:
        type(self).seen = [("state", kwargs)]

    async def choose_replicas(
        self, candidate_replicas: list[RunningReplica], pending_request: PendingRequest | None = None
    ) -> list[list[RunningReplica]]:
        if pending_request is not None:
            pending_request.routing_context.should_backoff = True
            of_request = pending_request.metadata
            self.seen.append(("asked", list(pending_request.args), of_request.call_method))
            self.seen.append(("ids", of_request.request_id != "", of_request.internal_request_id != ""))
            self.seen.append(("created", pending_request.created_at > 1e9))
        ranks = self.rank_replicas_via_locality(candidate_replicas)
        models = self.rank_replicas_via_multiplex(candidate_replicas, "m")
        self.seen.append(("ranks", [len(each) for each in ranks], len(models)))
        free = self.select_available_replicas(candidate_replicas)
        self.seen.append(("free", len(free), len(self.curr_replicas), self.app_name != ""))
        self.seen.append(("all", self.apply_locality_routing() == set(self.curr_replicas)))
        self.seen.append(("models", self.apply_multiplex_routing() == set(self.curr_replicas)))
        first = sorted(candidate_replicas, key=lambda each: each.replica_id.unique_id)[:1]
        one = first[0]
        self.seen.append(("one", one.max_ongoing_requests, set(one.multiplexed_model_ids), one.routing_stats))
        self.seen.append(("kind", one.is_cross_language, one.availability_zone, one.replica_metadata))
        self.seen.append(("equal", one == candidate_replicas[candidate_replicas.index(one)]))
        return [first]

    def on_request_routed(self, pending_request: PendingRequest, replica_id: ReplicaID, result: Any) -> None:
        self.seen.append(("routed", isinstance(replica_id, ReplicaID)))
        self.seen.append(("result", isinstance(result, ReplicaResult)))
        result.add_done_callback(lambda _: self.seen.append(("done", True)))


@serve.deployment(
    num_replicas=2,
    max_ongoing_requests=7,
    request_router_config=RequestRouterConfig(
        request_router_class=Recording, request_router_kwargs={"word": "hi"}
    ),
    **LIGHT,
)
class Served:
    def record_replica_metadata(self) -> dict[str, Any]:
        return {"zone": "north"}

    async def who(self, word: str) -> str:
        tag: str = serve.get_replica_context().replica_tag
        return tag


@pytest.fixture(scope="module")
def served(server: str) -> Any:
    handle = serve.run(Served.bind(), name="routed", route_prefix=None)
    tags = {handle.who.remote("x").result(timeout_s=30) for _ in range(6)}
    yield tags, list(Recording.seen)
    serve.delete("routed")


def test_it_chooses(served: Any) -> None:
    assert len(served[0]) == 1


EXPECTED = [
    ("state", {"word": "hi"}),
    ("asked", ["x"], "who"),
    ("ids", True, True),
    ("created", True),
    ("ranks", [2, 0, 0], 3),
    ("free", 2, 2, True),
    ("all", True),
    ("models", True),
    ("one", 7, set(), {}),
    ("kind", False, None, {"zone": "north"}),
    ("equal", True),
    ("routed", True),
    ("result", True),
    ("done", True),
]


@pytest.mark.parametrize("what", EXPECTED, ids=lambda what: what[0])
def test_it_is_told(served: Any, what: Any) -> None:
    assert what in served[1], [each for each in served[1] if each[0] == what[0]]


def test_nothing_is_chosen_by_the_base() -> None:
    with pytest.raises(TypeError, match="abstract"):
        RequestRouter(None, None)  # type: ignore[abstract]


def test_pending_requests() -> None:
    import asyncio

    async def made() -> PendingRequest:
        one = PendingRequest(args=[1], kwargs={}, metadata=None)
        before = one.future
        one.reset_future()
        assert one.future is not before and not one.future.done()
        return one

    one = asyncio.run(made())
    assert one.args == [1] and one.resolved is False
    assert one.routing_context.should_backoff is False and one.routing_context.tried_same_node is False


def test_round_robin(deploy: Deploy) -> None:
    path = "ray.serve.experimental.round_robin_router:RoundRobinRouter"

    @serve.deployment(num_replicas=3, request_router_config={"request_router_class": path}, **LIGHT)
    def who() -> str:
        tag: str = serve.get_replica_context().replica_tag
        return tag

    handle = deploy(who.bind(), route_prefix=None)
    tags = [handle.remote().result(timeout_s=30) for _ in range(9)]
    assert len(set(tags)) == 3 and tags[:3] == tags[3:6] == tags[6:]


def test_metadata_that_is_no_dict(deploy: Deploy) -> None:
    @serve.deployment(max_constructor_retry_count=1, **LIGHT)
    class Wrong:
        def record_replica_metadata(self) -> Any:
            return [1]

        def __call__(self) -> int:
            return 1

    with pytest.raises(RuntimeError):
        deploy(Wrong.bind(), route_prefix=None)


class Lowest(RequestRouter):
    async def choose_replicas(
        self, candidate_replicas: list[RunningReplica], pending_request: PendingRequest | None = None
    ) -> list[list[RunningReplica]]:
        return [sorted(candidate_replicas, key=lambda each: each.replica_id.unique_id)[:1]]


class Highest(RequestRouter):
    async def choose_replicas(
        self, candidate_replicas: list[RunningReplica], pending_request: PendingRequest | None = None
    ) -> list[list[RunningReplica]]:
        return [sorted(candidate_replicas, key=lambda each: each.replica_id.unique_id)[-1:]]


def test_a_deployment_may_get_another_router_and_none(deploy: Deploy) -> None:
    @serve.deployment(num_replicas=2, **LIGHT)
    class Named:
        def __call__(self) -> str:
            name: str = serve.get_replica_context().replica_id.unique_id
            return name

    def chosen(**options: Any) -> set[str]:
        handle = deploy(Named.options(**options).bind(), "routed")
        return {handle.remote().result(timeout_s=30) for _ in range(30)}

    lowest = chosen(request_router_config=RequestRouterConfig(request_router_class=Lowest))
    highest = chosen(request_router_config=RequestRouterConfig(request_router_class=Highest))
    assert (len(lowest), len(highest), len(chosen())) == (1, 1, 2)
