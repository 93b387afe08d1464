"""Semantics of Serve, numbered as in the inventory of Ray's interface (SERVE-1 to SERVE-18)."""

from __future__ import annotations

import asyncio
import os
import pathlib
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import httpx
import pytest
import ray
from fastapi import FastAPI
from ray import serve
from ray.serve.handle import DeploymentHandle
from ray.serve.schema import ServeDeploySchema
from waiting import wait_for

LIGHT: dict[str, Any] = {"ray_actor_options": {"num_cpus": 0}}

api = FastAPI()


@serve.deployment(**LIGHT)
@serve.ingress(api)
class Typed:
    @api.get("/double/{number}")
    def double(self, number: int) -> int:
        return number * 2


@serve.deployment(max_ongoing_requests=20, **LIGHT)
class Leaf:
    """Answers handles and HTTP; what it was asked for is in the argument or the query."""

    def __init__(self, word: str = "leaf") -> None:
        self.word = word
        self.sizes: list[int] = []
        self.loads: list[str] = []

    async def __call__(self, request: Any = None) -> Any:
        if isinstance(request, str) or request is None:
            return f"{self.word} {request}"
        what = request.query_params.get("what", "text")
        if what == "fail":
            raise RuntimeError("a secret reason")
        if what == "model":
            return await self.model(serve.get_multiplexed_model_id())
        return {"path": request.url.path} if what == "dict" else self.word

    async def fail(self) -> None:
        raise KeyError("what was asked")

    async def count(self, to: int) -> Any:
        for number in range(to):
            yield number

    @serve.batch(max_batch_size=4, batch_wait_timeout_s=1.0)
    async def batched(self, values: list[int]) -> list[int]:
        self.sizes.append(len(values))
        return [value * 2 for value in values]

    async def one_of_a_batch(self, value: int) -> int:
        return int(await self.batched(value))

    async def batch_sizes(self) -> list[int]:
        return self.sizes

    @serve.multiplexed(max_num_models_per_replica=2)
    async def model(self, name: str) -> str:
        self.loads.append(name)
        return f"model {name}"

    async def ask_model(self) -> str:
        return await self.model(serve.get_multiplexed_model_id())

    async def loaded(self) -> list[str]:
        return self.loads


@serve.deployment(**LIGHT)
class Tree:
    def __init__(self, left: DeploymentHandle, right: DeploymentHandle) -> None:
        self.parts = [left, right]

    async def __call__(self, *_: Any) -> list[str]:
        kinds = [type(part).__name__ for part in self.parts]
        return [*kinds, *(await asyncio.gather(*(part.remote("asked") for part in self.parts)))]


@pytest.fixture(scope="module")
def leaf(server: str) -> Any:
    yield serve.run(Leaf.bind(), name="leaf", route_prefix="/leaf")
    serve.delete("leaf")


# -- SERVE-1: composition


def test_serve_1_bound_applications_become_handles(deploy: Callable[..., Any]) -> None:
    handle = deploy(Tree.bind(Leaf.bind("a"), Leaf.options(name="Other").bind("b")))
    assert handle.remote().result() == ["DeploymentHandle", "DeploymentHandle", "a asked", "b asked"]


def test_serve_1_run_without_bind(server: str) -> None:
    with pytest.raises(TypeError, match="bind"):
        serve.run(Leaf)


@pytest.mark.chosen_difference("it says to call bind()", id="D-messages")
def test_serve_1_constructing_a_deployment_says_bind() -> None:
    with pytest.raises(RuntimeError, match="bind"):
        Leaf()


# -- SERVE-2: HTTP


def test_serve_2_sub_paths_reach_the_ingress(leaf: Any, http: httpx.Client) -> None:
    assert http.get("/leaf/any/thing?what=dict").json() == {"path": "/leaf/any/thing"}


def test_serve_2_what_a_return_value_becomes(leaf: Any, http: httpx.Client) -> None:
    text, table = http.get("/leaf"), http.get("/leaf?what=dict")
    assert text.headers["content-type"].startswith("text/plain") and text.text == "leaf"
    assert table.headers["content-type"] == "application/json"


def test_serve_2_a_failure_has_no_detail(leaf: Any, http: httpx.Client) -> None:
    got = http.get("/leaf?what=fail")
    assert (got.status_code, got.text) == (500, "Internal Server Error")


def test_serve_2_fastapi_checks_its_input(deploy: Callable[..., Any], http: httpx.Client) -> None:
    deploy(Typed.bind(), "typed")
    assert http.get("/typed/double/4").json() == 8
    assert http.get("/typed/double/four").status_code == 422


# -- SERVE-3: Serve's own paths


def test_serve_3_health_and_routes(leaf: Any, http: httpx.Client) -> None:
    health = http.get("/-/healthz")
    assert (health.status_code, health.text) == (200, "success")
    assert http.get("/-/routes").json()["/leaf"] == "leaf"


# -- SERVE-4: handles


def test_serve_4_remote_does_not_block(leaf: Any) -> None:
    response = leaf.remote("x")
    assert type(response).__name__ == "DeploymentResponse" and response.result(timeout_s=20) == "leaf x"


def test_serve_4_streams_yield(leaf: Any) -> None:
    assert list(leaf.options(stream=True).count.remote(4)) == [0, 1, 2, 3]


def test_serve_4_exceptions_arrive_as_themselves(leaf: Any) -> None:
    with pytest.raises(KeyError, match="what was asked") as caught:
        leaf.fail.remote().result()
    assert isinstance(caught.value, ray.exceptions.RayTaskError)


def test_serve_4_result_in_async_code(leaf: Any) -> None:
    async def wrong() -> None:
        leaf.remote("x").result()

    with pytest.raises(RuntimeError):
        asyncio.run(wrong())


def test_serve_4_await(leaf: Any) -> None:
    async def right() -> Any:
        return await leaf.remote("x")

    assert asyncio.run(right()) == "leaf x"


# -- SERVE-5 and 6: batches and models


def test_serve_5_four_calls_are_one_batch(leaf: Any) -> None:
    answers = [leaf.one_of_a_batch.remote(number) for number in range(4)]
    assert [each.result() for each in answers] == [0, 2, 4, 6]
    assert leaf.batch_sizes.remote().result() == [4]


def test_serve_6_models_by_handle_and_header(leaf: Any, http: httpx.Client) -> None:
    assert leaf.options(multiplexed_model_id="a").ask_model.remote().result() == "model a"
    got = http.get("/leaf?what=model", headers={"serve_multiplexed_model_id": "b"})
    assert got.text == "model b"
    leaf.options(multiplexed_model_id="a").ask_model.remote().result()  # the one used last is a again
    leaf.options(multiplexed_model_id="c").ask_model.remote().result()  # b goes
    leaf.options(multiplexed_model_id="a").ask_model.remote().result()
    assert leaf.loaded.remote().result() == ["a", "b", "c"]


# -- SERVE-7: back pressure


def test_serve_7_a_full_queue(deploy: Callable[..., Any], http: httpx.Client) -> None:
    @serve.deployment(max_ongoing_requests=1, max_queued_requests=1, **LIGHT)
    class Slow:
        async def __call__(self, *_: Any) -> str:
            await asyncio.sleep(0.5)  # the work itself
            return "done"

    handle = deploy(Slow.bind(), "full")
    answers = [handle.remote() for _ in range(5)]
    outcomes = []
    for each in answers:
        try:
            outcomes.append(each.result())
        except serve.exceptions.BackPressureError as error:
            assert "1" in str(error)
            outcomes.append("refused")
    assert set(outcomes) == {"done", "refused"}
    with ThreadPoolExecutor(5) as pool:
        assert set(pool.map(lambda _: http.get("/full").status_code, range(5))) == {200, 503}


# -- SERVE-8 to 11 are in test_refusals.py


# -- SERVE-12: health and the end


def test_serve_12_a_failing_replica_is_replaced(deploy: Callable[..., Any], tmp_path: pathlib.Path) -> None:
    ill = tmp_path / "ill"

    @serve.deployment(health_check_period_s=0.2, health_check_timeout_s=5, **LIGHT)
    class Watched:
        def __init__(self) -> None:
            self.ill = False

        async def check_health(self) -> None:
            if self.ill:
                raise RuntimeError("the model has gone")

        async def pid(self) -> int:
            return os.getpid()

        async def fall_ill(self) -> None:
            self.ill = True

    handle = deploy(Watched.bind())
    first = handle.pid.remote().result()
    handle.fall_ill.remote().result()

    def replaced() -> bool:
        try:
            return bool(handle.pid.remote().result(timeout_s=20) != first)
        except (ray.exceptions.RayActorError, TimeoutError):
            return False

    wait_for(replaced, what="the replica to be replaced")
    assert not ill.exists()


def test_serve_12_an_async_finalizer_is_awaited(deploy: Callable[..., Any], gate: Any) -> None:
    ended = gate("ended")

    @serve.deployment(graceful_shutdown_wait_loop_s=0.1, **LIGHT)
    class Ends:
        async def __call__(self) -> str:
            return "here"

        async def __del__(self) -> None:
            await asyncio.sleep(0.01)  # the work itself
            ended.open()

    handle = deploy(Ends.bind(), "ends")
    assert handle.remote().result() == "here"
    serve.delete("ends")
    ended.wait()


# -- SERVE-13: autoscaling


def test_serve_13_settings() -> None:
    config = serve.config.AutoscalingConfig()
    assert (config.target_ongoing_requests, config.min_replicas, config.max_replicas) == (2, 1, 1)
    assert (config.look_back_period_s, config.upscale_delay_s, config.downscale_delay_s) == (30, 30, 600)


def test_serve_13_replicas_follow_the_load_and_end_without(deploy: Callable[..., Any]) -> None:
    @serve.deployment(
        max_ongoing_requests=10,
        graceful_shutdown_wait_loop_s=0.1,
        autoscaling_config={
            "min_replicas": 0,
            "initial_replicas": 1,
            "max_replicas": 2,
            "target_ongoing_requests": 1,
            "upscale_delay_s": 0.2,
            "downscale_delay_s": 0.2,
            "metrics_interval_s": 0.1,
            "look_back_period_s": 0.4,
        },
        **LIGHT,
    )
    class Scaled:
        async def __call__(self) -> int:
            await asyncio.sleep(0.3)  # the work itself
            return os.getpid()

    handle = deploy(Scaled.bind(), "scaled")
    pids: set[int] = set()

    def two() -> bool:
        pids.update(each.result() for each in [handle.remote() for _ in range(8)])
        return len(pids) >= 2

    wait_for(two, timeout_s=40, what="a second replica under load")

    def states() -> dict[str, int]:
        found = serve.status().applications["scaled"].deployments["Scaled"].replica_states
        return {str(getattr(state, "value", state)): count for state, count in found.items()}

    wait_for(lambda: not states().get("RUNNING"), timeout_s=40, what="no replica without load")
    assert handle.remote().result(timeout_s=40)


# -- SERVE-14: status


def test_serve_14_status(leaf: Any) -> None:
    app = serve.status().applications["leaf"]
    assert app.status == "RUNNING"
    one = app.deployments["Leaf"]
    assert one.status == "HEALTHY" and one.status_trigger and one.replica_states == {"RUNNING": 1}


# -- SERVE-15: config files


def test_serve_15_a_file() -> None:
    file = {
        "http_options": {"port": 8123},
        "applications": [
            {
                "name": "a",
                "route_prefix": "/a",
                "import_path": "module:app",
                "args": {"x": 1},
                "deployments": [{"name": "D", "num_replicas": 3, "user_config": {"k": "v"}}],
            }
        ],
    }
    schema = ServeDeploySchema.model_validate(file)
    assert schema.http_options.port == 8123 and schema.applications[0].deployments[0].num_replicas == 3


@pytest.mark.parametrize(
    "change",
    [
        {"name": "b", "route_prefix": "/a"},  # the same route
        {"name": "a", "route_prefix": "/b"},  # the same name
        {"name": "b", "route_prefix": "/b", "import_path": "module"},  # nothing in the module
    ],
)
def test_serve_15_files_that_cannot_be(change: dict[str, Any]) -> None:
    first = {"name": "a", "route_prefix": "/a", "import_path": "module:app"}
    with pytest.raises(ValueError):
        ServeDeploySchema.model_validate({"applications": [first, {"import_path": "module:app"} | change]})


@pytest.mark.chosen_difference("found when the file is read", id="D-serve-files")
@pytest.mark.parametrize(
    ("change", "complaint"),
    [({"route_prefix": "b"}, "must start with a forward slash"), ({"replicas": 3}, "no field 'replicas'")],
)
def test_serve_15_more_that_is_found_at_once(change: dict[str, Any], complaint: str) -> None:
    with pytest.raises(ValueError, match=complaint):
        ServeDeploySchema.model_validate({"applications": [{"import_path": "module:app"} | change]})


# -- SERVE-16 is in tests/serve/test_grpc.py, which needs a service's handlers. SERVE-17: how long it takes


@pytest.mark.chosen_difference("Ray takes two seconds and more for each", id="D-serve-quick")
def test_serve_17_another_application_and_its_end(server: str) -> None:
    def seconds(what: Callable[[], Any]) -> float:
        began = time.monotonic()
        what()
        return time.monotonic() - began

    names = ["q1", "q2", "q3"]
    ran = [seconds(lambda n=n: serve.run(Leaf.bind(), name=n, route_prefix=f"/{n}")) for n in names]
    handle = serve.get_app_handle("q1")
    calls = sorted(seconds(lambda: handle.remote("x").result()) for _ in range(20))
    ended = [seconds(lambda n=n: serve.delete(n)) for n in names]
    assert min(ran) < 2.0 and min(ended) < 2.0 and calls[0] < 0.0059, (ran, ended, calls)


# -- SERVE-18: what it is made of


def test_serve_18_the_controller_is_a_named_actor(leaf: Any) -> None:
    names = {
        each["name"]
        for each in ray.util.list_named_actors(all_namespaces=True)
        if each["namespace"] == "serve"
    }
    assert "SERVE_CONTROLLER_ACTOR" in names
    assert ray.get_actor("SERVE_CONTROLLER_ACTOR", namespace="serve") is not None
    assert sum(name.startswith("SERVE_REPLICA::leaf#Leaf#") for name in names) == 1
