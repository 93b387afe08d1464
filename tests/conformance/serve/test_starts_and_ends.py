"""Replicas that start, fail or end, and requests that are cancelled, as their callers see them."""

from __future__ import annotations

import asyncio
import os
import pathlib
from collections.abc import Callable
from typing import Any

import httpx
import pytest
import ray
from ray import serve
from ray._common.test_utils import SignalActor
from ray.serve.exceptions import RayServeException, RequestCancelledError
from ray.serve.handle import DeploymentHandle
from waiting import wait_for

Deploy = Callable[..., Any]
LIGHT: dict[str, Any] = {"ray_actor_options": {"num_cpus": 0}}


def test_healthz_before_and_after_the_first_route(deploy: Deploy, http: httpx.Client) -> None:
    @serve.deployment(**LIGHT)
    class Leaf:
        def __call__(self, *_: Any) -> str:
            return "leaf"

    def health() -> tuple[int, str]:
        got = http.get("/-/healthz")
        return got.status_code, got.text

    missing = (503, "Route table is not populated yet.")
    assert health() == missing
    deploy(Leaf.bind(), "hidden", route_prefix=None)
    assert health() == missing
    deploy(Leaf.bind(), "shown")
    wait_for(lambda: health() == (200, "success"))
    serve.delete("shown")
    assert health() == (200, "success"), "an empty table is in order once there was a route"


@serve.deployment(num_replicas=3, **LIGHT)
class Ranked:
    def __init__(self) -> None:
        self.first = serve.get_replica_context().rank

    def __call__(self, *_: Any) -> tuple[int, int, int, bool]:
        rank = serve.get_replica_context().rank
        return rank.rank, rank.node_rank, rank.local_rank, self.first == rank

    def end(self, rank: int) -> None:
        if serve.get_replica_context().rank.rank == rank:
            os._exit(1)


def _ranks(handle: DeploymentHandle) -> set[tuple[int, int, int]]:
    return {handle.remote().result(timeout_s=20)[:3] for _ in range(40)}


def test_ranks_on_a_node(deploy: Deploy) -> None:
    handle = deploy(Ranked.bind(), "ranked")
    found = {handle.remote().result(timeout_s=20) for _ in range(60)}
    assert {one[0] for one in found} == {one[2] for one in found} == {0, 1, 2}
    assert all(node == 0 and same for _, node, _, same in found)
    deploy(Ranked.options(num_replicas=2).bind(), "ranked")
    wait_for(lambda: {(one[0], one[1]) for one in _ranks(handle)} == {(0, 0), (1, 0)})
    assert {one[2] for one in _ranks(handle)} == {0, 1}


def test_a_constructor_that_fails_once_beside_others(deploy: Deploy, tmp_path: pathlib.Path) -> None:
    mark = tmp_path / "mark"

    @serve.deployment(num_replicas=2, **LIGHT)
    class Transient:
        def __init__(self) -> None:
            try:
                mark.touch(exist_ok=False)
            except FileExistsError:
                return
            raise RuntimeError("only the first one")

        def __call__(self, *_: Any) -> str:
            return "hi"

    assert deploy(Transient.bind()).remote().result(timeout_s=30) == "hi"


def test_status_lists_the_deployments_of_the_newest_run(deploy: Deploy) -> None:
    @serve.deployment(**LIGHT)
    class Old:
        def __init__(self, gate: Any) -> None:
            self.gate = gate

        async def __call__(self, *_: Any) -> str:
            return "old"

        async def __del__(self) -> None:
            await self.gate.wait.remote()

    @serve.deployment(**LIGHT)
    def new(*_: Any) -> str:
        return "new"

    gate = SignalActor.remote()
    deploy(Old.bind(gate), "renewed")
    assert deploy(new.bind(), "renewed").remote().result(timeout_s=20) == "new"
    assert set(serve.status().applications["renewed"].deployments) == {"new"}
    ray.get(gate.send.remote(), timeout=20)  # now the old replica may end


def test_unavailable_over_http(deploy: Deploy, http: httpx.Client) -> None:
    @serve.deployment(max_constructor_retry_count=1, **LIGHT)
    class Broken:
        def __init__(self) -> None:
            raise ValueError("no model")

    with pytest.raises(RuntimeError):
        deploy(Broken.bind(), "broken")
    got = http.get("/broken")
    assert got.status_code == 503 and "unavailable" in got.text


def test_a_deployment_that_cannot_be_pickled() -> None:
    numbers = (number for number in range(3))

    class Holder:
        def __call__(self, *_: Any) -> int:
            return next(numbers)

    with pytest.raises(TypeError, match=r"Could not serialize the deployment[\s\S]*non-serializable"):
        serve.deployment(Holder)


@serve.deployment(**LIGHT)
class Bare:
    def there(self) -> int:
        return 1


def test_the_methods_there_are(deploy: Deploy) -> None:
    with pytest.raises(RayServeException, match=r"Available methods: \['there'\]"):
        deploy(Bare.bind()).absent.remote().result(timeout_s=20)


@serve.deployment(**LIGHT)
class Front:
    def __init__(self, add: DeploymentHandle, double: DeploymentHandle) -> None:
        self.add = add
        self.double = double

    async def __call__(self, number: int) -> int:
        result: int = await self.double.remote(self.add.remote(number))
        return result


@serve.deployment(**LIGHT)
class Adder:
    def __call__(self, number: int) -> int:
        if number == 0:
            os._exit(0)
        return number + 1


@serve.deployment(**LIGHT)
class Doubler:
    def __call__(self, number: int) -> int:
        return number * 2


def test_a_request_whose_argument_is_lost(deploy: Deploy) -> None:
    handle = deploy(Front.bind(Adder.bind(), Doubler.bind()))
    assert handle.remote(5).result(timeout_s=20) == 12
    with pytest.raises(RayServeException) as caught:
        handle.remote(0).result(timeout_s=20)
    assert "Adder" in str(caught.value) and "Doubler" in str(caught.value)


@serve.deployment(**LIGHT)
class Counting:
    async def upto(self, number: int) -> Any:
        for each in range(number):
            yield each


def test_refs_of_a_stream_outlive_the_response(deploy: Deploy) -> None:
    refs = deploy(Counting.bind()).options(stream=True).upto.remote(5)._to_object_ref_gen_sync()
    assert ray.get(list(refs), timeout=20) == [0, 1, 2, 3, 4]


@serve.deployment(**LIGHT)
class Waiting:
    async def __call__(self, begun: Any, ended: Any) -> str:
        try:
            await begun.send.remote()
            await asyncio.Event().wait()  # until it is cancelled
        except asyncio.CancelledError:
            await ended.send.remote()
        return "caught"


@serve.deployment(**LIGHT)
class Around:
    def __init__(self, inner: DeploymentHandle) -> None:
        self.inner = inner

    async def __call__(self, begun: Any, ended: Any) -> str:
        self.inner.remote(begun, ended)
        try:
            await asyncio.Event().wait()  # until it is cancelled
        except asyncio.CancelledError:
            return "caught, too"
        return "not cancelled"


def test_code_that_catches_its_cancellation(deploy: Deploy) -> None:
    handle = deploy(Around.bind(Waiting.bind()))
    begun, ended = SignalActor.remote(), SignalActor.remote()
    response = handle.remote(begun, ended)
    ray.get(begun.wait.remote(), timeout=30)
    response.cancel()
    ray.get(ended.wait.remote(), timeout=30)  # also the request that it has sent and does not wait for
    with pytest.raises(RequestCancelledError):
        response.result(timeout_s=20)


class Kept:
    def get(self, *names: str) -> list[str | None]:
        return [os.environ.get(name) for name in names]


def test_shared_actors_have_the_environment_of_the_replicas(deploy: Deploy) -> None:
    own = {"runtime_env": {"env_vars": {"SECOND": "own"}}}
    shared = [{"name": "kept", "actor_class": ray.remote(Kept), "actor_options": own}]
    environment = {"env_vars": {"FIRST": "of the replicas", "SECOND": "of the replicas"}}

    @serve.deployment(ray_actor_options={"num_cpus": 0, "runtime_env": environment}, deployment_actors=shared)
    class Sharing:
        async def __call__(self, *_: Any) -> Any:
            return await serve.get_deployment_actor("kept").get.remote("FIRST", "SECOND")

    assert deploy(Sharing.bind()).remote().result(timeout_s=30) == ["of the replicas", "own"]
