"""From serve.run to serve.delete: composition, updates, failures, status."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import httpx
import pytest
import ray
from ray import serve
from ray.serve.handle import DeploymentHandle
from waiting import wait_for

LIGHT: dict[str, Any] = {"ray_actor_options": {"num_cpus": 0}}


@serve.deployment(**LIGHT)
class Word:
    def __init__(self, word: str) -> None:
        self.word = word

    def __call__(self, *_: Any) -> str:
        return self.word

    def pid(self) -> int:
        return os.getpid()


@serve.deployment(**LIGHT)
class Joined:
    def __init__(self, *parts: DeploymentHandle, named: Any = None) -> None:
        self.parts = parts
        self.named = named

    async def __call__(self, *_: Any) -> str:
        words = await asyncio.gather(*(part.remote() for part in self.parts))
        return " ".join(words)

    async def by_name(self) -> str:
        return await self.named["x"][0].remote()

    async def kinds(self) -> list[str]:
        return [type(part).__name__ for part in self.parts]


def test_composition(deploy: Callable[..., Any]) -> None:
    handle = deploy(Joined.bind(Word.bind("a"), Word.options(name="Second").bind("b")))
    assert handle.remote().result() == "a b"


def test_bound_arguments_become_handles(deploy: Callable[..., Any]) -> None:
    handle = deploy(Joined.bind(Word.bind("a")))
    assert handle.kinds.remote().result() == ["DeploymentHandle"]


def test_applications_inside_containers(deploy: Callable[..., Any]) -> None:
    handle = deploy(Joined.bind(named={"x": [Word.bind("deep")]}))
    assert handle.by_name.remote().result() == "deep"


def test_same_class_twice(deploy: Callable[..., Any]) -> None:
    handle = deploy(Joined.bind(Word.bind("a"), Word.bind("b")))
    assert handle.remote().result() == "a b"


def test_one_application_shared(deploy: Callable[..., Any]) -> None:
    shared = Word.bind("s")
    handle = deploy(Joined.bind(shared, shared), "shared")
    assert handle.remote().result() == "s s"
    assert set(serve.status().applications["shared"].deployments) == {"Joined", "Word"}


def test_composition_over_http(deploy: Callable[..., Any], http: httpx.Client) -> None:
    deploy(Joined.bind(Word.bind("a"), Word.bind("b")), "joined")
    assert http.get("/joined").text == "a b"


def test_several_replicas_answer(deploy: Callable[..., Any]) -> None:
    handle = deploy(Word.options(num_replicas=2, max_ongoing_requests=1).bind("w"))
    pids = {each.result() for each in [handle.pid.remote() for _ in range(50)]}
    assert len(pids) == 2


def test_replicas_are_processes_of_their_own(deploy: Callable[..., Any]) -> None:
    assert deploy(Word.bind("w")).pid.remote().result() != os.getpid()


def test_status(deploy: Callable[..., Any]) -> None:
    deploy(Word.options(num_replicas=2).bind("w"), "told")
    app = serve.status().applications["told"]
    assert app.status == "RUNNING"
    assert app.deployments["Word"].status == "HEALTHY"
    assert app.deployments["Word"].replica_states == {"RUNNING": 2}


def test_deleted_applications_are_gone(deploy: Callable[..., Any]) -> None:
    deploy(Word.bind("w"), "gone")
    serve.delete("gone")
    assert "gone" not in serve.status().applications


def test_deleting_nobody(server: str) -> None:
    serve.delete("nobody")


def test_run_again_replaces_the_code(deploy: Callable[..., Any]) -> None:
    deploy(Word.bind("old"), "again")
    assert deploy(Word.bind("new"), "again").remote().result() == "new"


@pytest.mark.chosen_difference("what is the same stays, also from Python", id="D-serve-unchanged")
def test_run_again_unchanged_keeps_the_replica(deploy: Callable[..., Any]) -> None:
    app = Joined.bind(Word.bind("same"))
    pid = deploy(Word.bind("same"), "same").pid.remote().result()
    assert deploy(Word.bind("same"), "same").pid.remote().result() == pid
    del app


@pytest.mark.chosen_difference("what is the same stays, also from Python", id="D-serve-unchanged")
def test_more_replicas_keep_those_there_are(deploy: Callable[..., Any]) -> None:
    pid = deploy(Word.bind("w"), "more").pid.remote().result()
    handle = deploy(Word.options(num_replicas=2).bind("w"), "more")
    pids = {each.result() for each in [handle.pid.remote() for _ in range(50)]}
    assert pid in pids and len(pids) == 2


@serve.deployment(**LIGHT)
class Configured:
    def __init__(self) -> None:
        self.value = "none"

    def reconfigure(self, config: dict[str, Any]) -> None:
        if config.get("bad"):
            raise ValueError("bad config")
        self.value = config["value"]

    def __call__(self, *_: Any) -> str:
        return self.value

    def pid(self) -> int:
        return os.getpid()


def test_user_config_comes_before_the_first_request(deploy: Callable[..., Any]) -> None:
    assert deploy(Configured.options(user_config={"value": "one"}).bind()).remote().result() == "one"


@pytest.mark.chosen_difference("what is the same stays, also from Python", id="D-serve-unchanged")
def test_a_function_is_called_by_any_name_and_an_object_told_its_rank(deploy: Callable[..., Any]) -> None:
    @serve.deployment(**LIGHT)
    def double(number: int) -> int:
        return 2 * number

    @serve.deployment(user_config={"a": 1}, **LIGHT)
    class Ranked:
        def __init__(self, inner: Any) -> None:
            self.inner = inner

        def reconfigure(self, config: Any, rank: Any) -> None:
            self.seen = config, rank.rank

        async def __call__(self) -> Any:
            return self.seen, await self.inner.any_name.remote(4)

    assert deploy(Ranked.bind(double.bind())).remote().result() == (({"a": 1}, 0), 8)


def test_user_config_changes_in_place(deploy: Callable[..., Any]) -> None:
    handle = deploy(Configured.options(user_config={"value": "one"}).bind(), "config")
    pid = handle.pid.remote().result()
    handle = deploy(Configured.options(user_config={"value": "two"}).bind(), "config")
    assert handle.remote().result() == "two"
    assert handle.pid.remote().result() == pid


def test_deployments_that_leave_the_application_end(deploy: Callable[..., Any]) -> None:
    deploy(Joined.bind(Word.bind("a"), Word.options(name="Extra").bind("b")), "shrink")
    deploy(Joined.bind(Word.bind("a")), "shrink")
    wait_for(
        lambda: set(serve.status().applications["shrink"].deployments) == {"Joined", "Word"},
        what="the deployment that is no longer part of the application to end",
    )


def test_constructor_that_fails(server: str) -> None:
    @serve.deployment(**LIGHT, max_constructor_retry_count=1)
    class Broken:
        def __init__(self) -> None:
            raise ValueError("no model here")

        def __call__(self) -> None: ...

    with pytest.raises(RuntimeError, match="Deploying application broken failed: "):
        serve.run(Broken.bind(), name="broken", route_prefix="/broken")
    assert serve.status().applications["broken"].status == "DEPLOY_FAILED"
    serve.delete("broken")


def test_two_applications_on_one_route(deploy: Callable[..., Any]) -> None:
    deploy(Word.bind("first"), "first", route_prefix="/taken")
    with pytest.raises(serve.exceptions.RayServeException, match="/taken"):
        serve.run(Word.bind("second"), name="second", route_prefix="/taken")


def test_run_many(server: str) -> None:
    targets = [
        serve.RunTarget(target=Word.bind(name), name=name, route_prefix=f"/{name}") for name in ("m1", "m2")
    ]
    handles = serve.run_many(targets)
    assert [each.remote().result() for each in handles] == ["m1", "m2"]
    for each in targets:
        serve.delete(each.name)


def test_full_queue(deploy: Callable[..., Any]) -> None:
    @serve.deployment(max_ongoing_requests=1, max_queued_requests=1, **LIGHT)
    class Slow:
        async def __call__(self) -> str:
            await asyncio.sleep(1)  # the work itself
            return "done"

    handle = deploy(Slow.bind())
    responses = [handle.remote() for _ in range(6)]
    refused = done = 0
    for each in responses:
        try:
            done += each.result() == "done"
        except serve.exceptions.BackPressureError:
            refused += 1
    assert refused >= 1 and done >= 1 and refused + done == 6


def test_full_queue_over_http(deploy: Callable[..., Any], http: httpx.Client) -> None:
    @serve.deployment(max_ongoing_requests=1, max_queued_requests=1, **LIGHT)
    class Slow:
        async def __call__(self, request: Any) -> str:
            await asyncio.sleep(1)  # the work itself
            return "done"

    deploy(Slow.bind(), "slow")
    with ThreadPoolExecutor(6) as pool:
        statuses = sorted(pool.map(lambda _: http.get("/slow").status_code, range(6)))
    assert statuses[0] == 200 and statuses[-1] == 503


def test_a_dead_replica_is_replaced(deploy: Callable[..., Any]) -> None:
    @serve.deployment(health_check_period_s=1, **LIGHT)
    class Mortal:
        def pid(self) -> int:
            return os.getpid()

        def die(self) -> None:
            os._exit(1)

    handle = deploy(Mortal.bind())
    pid = handle.pid.remote().result()
    with pytest.raises(ray.exceptions.RayActorError):
        handle.die.remote().result()

    def another() -> bool:
        try:
            return handle.pid.remote().result(timeout_s=20) != pid
        except (ray.exceptions.RayActorError, TimeoutError):
            return False

    wait_for(another, what="a replica in the place of the dead one")


def test_an_unhealthy_replica_is_replaced(deploy: Callable[..., Any]) -> None:
    @serve.deployment(health_check_period_s=0.2, health_check_timeout_s=2, **LIGHT)
    class Ill:
        def __init__(self) -> None:
            self.ill = False

        def check_health(self) -> None:
            if self.ill:
                raise RuntimeError("ill")

        def fall_ill(self) -> int:
            self.ill = True
            return os.getpid()

        def pid(self) -> int:
            return os.getpid()

    handle = deploy(Ill.bind())
    pid = handle.fall_ill.remote().result()

    def another() -> bool:
        try:
            return handle.pid.remote().result(timeout_s=20) != pid
        except (ray.exceptions.RayActorError, TimeoutError):
            return False

    wait_for(another, what="a healthy replica in the place of the ill one")


def test_requests_under_way_end_well_at_delete(deploy: Callable[..., Any]) -> None:
    @serve.deployment(**LIGHT)
    class Slow:
        async def __call__(self) -> str:
            await asyncio.sleep(1)  # the work itself
            return "done"

        async def hello(self) -> str:
            return "hello"

    handle = deploy(Slow.bind(), "ending")
    response = handle.remote()
    assert handle.hello.remote().result() == "hello"
    serve.delete("ending")
    assert response.result() == "done"


def test_a_handle_to_another_application(deploy: Callable[..., Any]) -> None:
    @serve.deployment(**LIGHT)
    class Asks:
        async def __call__(self) -> str:
            return await serve.get_app_handle("asked").remote()

    deploy(Word.bind("from afar"), "asked")
    assert deploy(Asks.bind(), "asks").remote().result() == "from afar"
