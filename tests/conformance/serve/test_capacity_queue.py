"""The queue that hands out the places of replicas, alone and behind its router."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import ray
from ray import serve
from ray._common.test_utils import SignalActor, wait_for_condition
from ray.serve.config import DeploymentActorConfig, RequestRouterConfig
from ray.serve.experimental.capacity_queue import CapacityQueue

Deploy = Callable[..., Any]
ROUTER = "ray.serve.experimental.capacity_queue_router:CapacityQueueRouter"


def queue(timeout_s: float = 10, ttl_s: float | None = None, **places: int) -> Any:
    made = CapacityQueue.remote(timeout_s, ttl_s, _enable_long_poll=False)
    ray.get([made.register_replica.remote(name, count) for name, count in places.items()])
    return made


def test_places_go_to_the_replica_with_the_fewest_requests(server: str) -> None:
    one = queue(a=2, b=2)
    taken = [ray.get(one.acquire.remote()) for _ in range(4)]
    assert sorted(taken[:2]) == sorted(taken[2:]) == ["a", "b"]
    assert ray.get(one.get_replica_in_flight.remote()) == {"a": (2, 2), "b": (2, 2)}
    assert ray.get(one.get_queue_length.remote()) == 0
    ray.get(one.release.remote("b"))
    assert ray.get(one.acquire.remote()) == "b"
    stats = ray.get(one.get_stats.remote())
    assert (stats.num_replicas, stats.total_capacity, stats.total_in_flight, stats.queue_size) == (2, 4, 4, 0)
    assert (stats.total_acquires, stats.total_releases, stats.total_timeouts, stats.num_waiters) == (
        5,
        1,
        0,
        0,
    )


def test_a_caller_waits_for_a_place(server: str) -> None:
    one = queue(a=1)
    assert ray.get(one.acquire.remote()) == "a"
    late = one.acquire.remote()
    wait_for_condition(lambda: ray.get(one.get_num_waiters.remote()) == 1)
    ray.get(one.release.remote("a"))
    assert ray.get(late, timeout=10) == "a"
    later = one.acquire.remote()
    ray.get(one.register_replica.remote("b", 1))
    assert ray.get(later, timeout=10) == "b"
    assert ray.get(one.get_stats.remote()).max_waiters_seen == 1


def test_a_caller_that_waits_too_long_gets_none(server: str) -> None:
    one = queue(timeout_s=0.05)
    assert ray.get(one.acquire.remote()) is None
    assert ray.get(one.acquire.remote(timeout_s=0.01)) is None
    assert ray.get(one.get_stats.remote()).total_timeouts == 2


def test_replicas_that_have_ended_have_no_places(server: str) -> None:
    one = queue(a=1, b=1)
    ray.get(one.unregister_replica.remote("a"))
    ray.get(one.unregister_replica.remote("nobody"))
    ray.get(one.register_replica.remote("b", 9))
    assert ray.get(one.get_registered_replicas.remote()) == ["b"]
    assert ray.get(one.get_queue_length.remote()) == 1
    ray.get(one.release.remote("a"))
    assert ray.get(one.acquire.remote()) == "b"


def test_places_that_are_never_released_come_back(server: str) -> None:
    one = queue(ttl_s=0.2, a=1)
    assert ray.get(one.acquire.remote()) == "a"
    assert ray.get(one.acquire.remote(), timeout=10) == "a"


def queued(**kwargs: Any) -> dict[str, Any]:
    shared = {"acquire_timeout_s": 0.5, "token_ttl_s": None}
    return {
        "deployment_actors": [
            DeploymentActorConfig(
                name="places", actor_class=CapacityQueue, init_kwargs=shared, actor_options={"num_cpus": 0}
            )
        ],
        "request_router_config": RequestRouterConfig(
            request_router_class=ROUTER, request_router_kwargs=kwargs
        ),
        "ray_actor_options": {"num_cpus": 0},
    }


def test_the_router_takes_a_place_for_each_request(deploy: Deploy) -> None:
    gate = SignalActor.remote()

    @serve.deployment(num_replicas=2, max_ongoing_requests=2, **queued(capacity_queue_actor_name="places"))
    class Slow:
        async def __call__(self) -> str:
            await gate.wait.remote()
            tag: str = serve.get_replica_context().replica_tag
            return tag

        async def places(self) -> Any:
            return await serve.get_deployment_actor("places").get_replica_in_flight.remote()

    handle = deploy(Slow.bind(), route_prefix=None)
    running = [handle.remote() for _ in range(3)]

    def taken() -> list[int]:
        return sorted(count for count, _ in handle.places.remote().result(timeout_s=30).values())

    wait_for_condition(lambda: taken() == [2, 2], timeout=30)  # the question itself has the fourth place
    ray.get(gate.send.remote())
    tags = [each.result(timeout_s=30) for each in running]
    assert len(set(tags)) == 2
    wait_for_condition(lambda: taken() == [0, 1], timeout=30)


def test_a_cancelled_request_gives_its_place_back(deploy: Deploy) -> None:
    gate = SignalActor.remote()

    @serve.deployment(max_ongoing_requests=1, **queued(capacity_queue_actor_name="places"))
    class Slow:
        async def __call__(self) -> str:
            await gate.wait.remote()
            return "done"

    handle = deploy(Slow.bind(), route_prefix=None)
    first = handle.remote()
    wait_for_condition(lambda: ray.get(gate.cur_num_waiters.remote()) == 1, timeout=30)
    second = handle.remote()
    second.cancel()
    with pytest.raises(serve.exceptions.RequestCancelledError):
        second.result(timeout_s=30)
    ray.get(gate.send.remote())
    assert first.result(timeout_s=30) == "done"
    assert handle.remote().result(timeout_s=30) == "done"


def test_without_its_queue_a_router_sends_requests_all_the_same(deploy: Deploy) -> None:
    @serve.deployment(**queued(capacity_queue_actor_name="nobody", max_fault_retries=1))
    def answer() -> int:
        return 4

    assert deploy(answer.bind(), route_prefix=None).remote().result(timeout_s=30) == 4


def test_the_router_needs_the_name_of_its_queue(server: str) -> None:
    from ray.serve.experimental.capacity_queue_router import DEFAULT_MAX_FAULT_RETRIES, CapacityQueueRouter

    with pytest.raises(ValueError, match="CapacityQueueRouter requires 'capacity_queue_actor_name'"):
        CapacityQueueRouter.initialize_state(object.__new__(CapacityQueueRouter))
    assert DEFAULT_MAX_FAULT_RETRIES == 3
