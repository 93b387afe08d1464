"""Options of deployments have the documented effects, as seen from outside."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.request import Request, urlopen

import pytest

import skate
from skate import serve
from skate.serve import config_loader
from skate.serve.request_router import RequestRouter
from skate.serve.routing import watch
from skate.serve.schema import ServeDeploySchema
from skate.util.placement_group import placement_group_table
from tests.conformance.waiting import Gate, Tally, wait_for
from tests.serve.standing import free_port, get

pytest.importorskip("uvicorn")

LIGHT: dict[str, Any] = {"ray_actor_options": {"num_cpus": 0}}


@pytest.fixture(scope="module")
def port() -> Iterator[int]:
    found = free_port()
    skate.init(num_cpus=4, log_to_driver=False, preload=["skate.serve.replica.preload"])
    serve.start(http_options={"host": "127.0.0.1", "port": found})
    yield found
    serve.shutdown()
    skate.shutdown()


@pytest.fixture(autouse=True)
def nothing_served(port: int) -> Iterator[None]:
    yield
    for name in serve.status().applications:
        serve.delete(name)


def replicas(name: str, app: str = "default") -> list[dict[str, Any]]:
    """Return the replicas of a deployment, as the REST API lists them."""
    from skate.serve.rest import details

    found: list[dict[str, Any]] = details()["applications"][app]["deployments"][name]["replicas"]
    return found


def running(name: str, app: str = "default") -> int:
    return sum(each["state"] == "RUNNING" for each in replicas(name, app))


def test_logging_config(port: int, tmp_path: Path) -> None:
    @serve.deployment
    class Logs:
        def __call__(self, request: Any) -> int:
            import logging

            logging.getLogger("ray.serve").info("told %s", request.query_params["word"])
            logging.getLogger("ray.serve").debug("more of %s", request.query_params["word"])
            return os.getpid()

    def deployed(**given: Any) -> Any:
        serve.run(Logs.options(logging_config={"logs_dir": str(tmp_path), **given}, **LIGHT).bind())
        wait_for(lambda: running("Logs") == 1, 20, "the settings")
        return replicas("Logs")[0]

    def lines() -> list[str]:
        return [line for file in tmp_path.iterdir() for line in file.read_text().splitlines()]

    more = {"encoding": "JSON", "additional_log_standard_attrs": ["module"], "enable_access_log": True}
    first = deployed(**more)
    pid = get(port, "/?word=one")[1]
    wait_for(lambda: any('"GET / 200 ' in line for line in lines()), 20, "the access log")
    given = [json.loads(line) for line in lines()]
    entry = next(each for each in given if each["message"] == "told one")
    assert entry["levelname"] == "INFO" and len(entry["request_id"]) == 32 and "module" in entry
    assert deployed(log_level="DEBUG", enable_access_log=False)["pid"] == first["pid"], "taken over in place"
    assert get(port, "/?word=two")[1] == pid
    new = lines()[len(given) :]
    assert [line.split()[0] for line in new] == ["INFO", "DEBUG"] and "more of two" in new[1], new
    assert deployed(log_level="ERROR")["pid"] == first["pid"]
    get(port, "/?word=three")
    assert lines()[len(given) + 2 :] == []
    assert os.path.dirname(replicas("Logs")[0]["log_file_path"]) == str(tmp_path)


def test_max_replicas_per_node(port: int) -> None:
    @serve.deployment(max_replicas_per_node=2, **LIGHT)
    class Few:
        def __init__(self, word: str) -> None:
            self.word = word

        def __call__(self) -> str:
            return self.word

    with pytest.raises(
        RuntimeError, match="wants 3 replicas with max_replicas_per_node=2, and the cluster has 1 node"
    ):
        serve.run(Few.options(num_replicas=3).bind("x"))
    handle = serve.run(Few.options(num_replicas=2).bind("old"), route_prefix=None)
    assert handle.remote().result() == "old"
    serve.run(Few.options(num_replicas=2).bind("new"), route_prefix=None)
    assert {handle.remote().result() for _ in range(8)} == {"new"}, (
        "an update makes room before it starts others"
    )
    for wrong in (0, 101, 1.5, "2"):
        with pytest.raises((ValueError, TypeError), match=r"in the range of \[1, 100\]"):
            Few.options(max_replicas_per_node=wrong)


def test_placement_groups(port: int) -> None:
    @serve.deployment(
        placement_group_bundles=[{"CPU": 1}, {"CPU": 1}], placement_group_strategy="PACK", **LIGHT
    )
    def placed() -> Any:
        from skate.util.placement_group import get_current_placement_group

        return get_current_placement_group().bundle_specs

    handle = serve.run(placed.bind(), route_prefix=None)
    assert handle.remote().result() == [{"CPU": 1}, {"CPU": 1}]
    names = [each["name"] for each in placement_group_table().values() if each["state"] == "CREATED"]
    assert [name.split("#")[:2] for name in names] == [["SERVE_REPLICA::default", "placed"]]
    serve.delete("default")
    wait_for(
        lambda: all(each["state"] == "REMOVED" for each in placement_group_table().values()),
        20,
        "the end of the group",
    )


class Counter:
    def __init__(self, start: int) -> None:
        self.count = start

    def up(self) -> int:
        self.count += 1
        return self.count

    def whose(self) -> tuple[str, str, str]:
        here = serve.get_deployment_actor_context()
        return here.app_name, here.deployment, here.actor_name


def test_deployment_actors(port: int) -> None:
    shared = {"name": "counter", "actor_class": Counter, "init_args": (10,), "actor_options": {"num_cpus": 0}}

    @serve.deployment(num_replicas=2, deployment_actors=[shared], **LIGHT)
    class Counts:
        def up(self) -> Any:
            return skate.get(serve.get_deployment_actor("counter").up.remote())

        def whose(self) -> Any:
            return skate.get(serve.get_deployment_actor("counter").whose.remote())

        def other(self) -> None:
            serve.get_deployment_actor("other")

    handle = serve.run(Counts.bind(), route_prefix=None)
    assert sorted(handle.up.remote().result() for _ in range(6)) == list(range(11, 17))
    assert handle.whose.remote().result() == ("default", "Counts", "counter")
    with pytest.raises(ValueError, match="has no actor 'other'; deployment_actors has: counter"):
        handle.other.remote().result()

    def living() -> list[str]:
        from skate.util.state import list_actors

        return [each.name for each in list_actors() if each.class_name == "Counter" and each.state == "ALIVE"]

    assert len(living()) == 1
    serve.delete("default")
    wait_for(lambda: not living(), 20, "the end of what the replicas shared")


def test_max_constructor_retry_count(port: int, tmp_path: Path) -> None:
    tally = Tally(tmp_path / "tries")

    @serve.deployment(**LIGHT)
    class Flaky:
        def __init__(self) -> None:
            if tally.add() < 3:
                raise OSError("not yet")

        def __call__(self) -> int:
            return tally.count()

    with pytest.raises(RuntimeError, match="not yet"):
        serve.run(Flaky.options(max_constructor_retry_count=1).bind(), route_prefix=None)
    assert tally.count() == 1
    assert (
        serve.run(Flaky.options(max_constructor_retry_count=4).bind(), route_prefix=None).remote().result()
        == 3
    )


class ByMark(RequestRouter):
    def initialize_state(self, **kwargs: Any) -> None:
        self.mark = kwargs["mark"]

    async def choose_replicas(self, candidate_replicas: Any, pending_request: Any = None) -> Any:
        return [[each for each in candidate_replicas if each.routing_stats.get("mark") == self.mark]]


def test_request_router_config(port: int, tmp_path: Path) -> None:
    tally = Tally(tmp_path / "count")
    router = {
        "request_router_class": ByMark,
        "request_router_kwargs": {"mark": 2},
        "request_routing_stats_period_s": 0.05,
    }

    @serve.deployment(num_replicas=3, request_router_config=router, **LIGHT)
    class Marked:
        def __init__(self) -> None:
            self.mark = tally.add()

        def record_routing_stats(self) -> dict[str, Any]:
            return {"mark": self.mark}

        def __call__(self) -> int:
            return self.mark

    handle = serve.run(Marked.bind(), route_prefix=None)
    assert {handle.remote().result(timeout_s=20) for _ in range(12)} == {2}


POLICY = """
def both(contexts):
    return {key: 2 for key in contexts}, {}
"""
PROGRAM = """
from skate import serve

LIGHT = {"ray_actor_options": {"num_cpus": 0}}
scaled = {"min_replicas": 1, "max_replicas": 4, "upscale_delay_s": 0, "downscale_delay_s": 0}

@serve.deployment(autoscaling_config=scaled, **LIGHT)
def leaf():
    return 1

@serve.deployment(autoscaling_config=scaled, **LIGHT)
class Root:
    def __init__(self, leaf):
        pass

@serve.deployment(num_replicas=4, **LIGHT)
def fixed():
    return 1

app = Root.bind(leaf.bind())
four = fixed.bind()
"""


def test_policies_of_applications_and_target_capacity(
    port: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "policy_of_both.py").write_text(POLICY)
    (tmp_path / "scaled_program.py").write_text(PROGRAM)
    monkeypatch.syspath_prepend(str(tmp_path))
    apps: list[dict[str, Any]] = [
        {"name": "a", "import_path": "scaled_program:app", "route_prefix": None},
        {"name": "b", "import_path": "scaled_program:four", "route_prefix": None},
    ]
    apps[0]["autoscaling_policy"] = {"policy_function": "policy_of_both:both"}

    def deployed(**more: Any) -> None:
        config_loader.deploy(ServeDeploySchema.model_validate({"applications": apps, **more}))

    deployed(target_capacity=50)
    wait_for(
        lambda: running("Root", "a") == running("leaf", "a") == 2, 20, "what the policy wants, of all at once"
    )
    wait_for(lambda: running("fixed", "b") == 2, 20, "half of the four")
    assert serve.status().target_capacity == 50
    del apps[0]["autoscaling_policy"]
    deployed()
    wait_for(lambda: running("fixed", "b") == 4 and serve.status().target_capacity is None, 20, "all four")
    wait_for(lambda: running("leaf", "a") == 1, 20, "one each without requests")
    sys.modules.pop("scaled_program", None)


def test_graceful_shutdown_timeout(port: int, tmp_path: Path) -> None:
    gate = Gate(tmp_path / "begun")

    @serve.deployment(graceful_shutdown_timeout_s=0.2, graceful_shutdown_wait_loop_s=0.1, **LIGHT)
    class Stuck:
        async def __call__(self) -> None:
            import asyncio

            gate.open()
            await asyncio.Event().wait()

    answer = serve.run(Stuck.bind(), route_prefix=None).remote()
    gate.wait()
    serve.delete("default")
    with pytest.raises(Exception, match="is dead"):
        answer.result(timeout_s=20)


def test_middlewares_by_callback(port: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "layers_of_ours.py").write_text(
        "from starlette.middleware import Middleware\n"
        "class Layer:\n"
        "    def __init__(self, app, word):\n        self.app, self.word = app, word\n"
        "    async def __call__(self, scope, receive, send):\n"
        "        async def sending(message):\n"
        "            if message['type'] == 'http.response.start':\n"
        "                message['headers'] = [*message['headers'], (b'x-layer', self.word)]\n"
        "            await send(message)\n"
        "        await self.app(scope, receive, sending)\n"
        "def layers():\n    return [Middleware(Layer, word=b'here')]\n"
    )
    monkeypatch.syspath_prepend(str(tmp_path))
    given = {"RAY_SERVE_HTTP_PROXY_CALLBACK_IMPORT_PATH": "layers_of_ours:layers"}

    @serve.deployment(ray_actor_options={"num_cpus": 0, "runtime_env": {"env_vars": given}})
    def plain(request: Any) -> str:
        return "body"

    serve.run(plain.bind())
    import urllib.request

    with urllib.request.urlopen(f"http://127.0.0.1:{port}/", timeout=20) as answer:
        assert answer.read() == b"body" and answer.headers["x-layer"] == "here"


@pytest.mark.parametrize("given", [{"proxy_location": "Disabled"}, {"http_options": {"host": None}}])
def test_no_port_where_none_is_wanted(port: int, given: dict[str, Any]) -> None:
    serve.shutdown()
    own = free_port()
    serve.start(**{**given, "http_options": {"port": own, **given.get("http_options", {})}})

    @serve.deployment(**LIGHT)
    def here(request: Any = None) -> str:
        return "here"

    assert serve.run(here.bind()).remote().result() == "here"
    assert get(own) == (0, "")
    serve.shutdown()
    serve.start(http_options={"host": "127.0.0.1", "port": port})


def test_a_replica_is_chosen_first(port: int) -> None:
    @serve.deployment(num_replicas=2, max_ongoing_requests=1, **LIGHT)
    class Who:
        def __call__(self) -> str:
            return serve.get_replica_context().replica_tag

    @serve.deployment(**LIGHT)
    class Chooses:
        def __init__(self, who: Any) -> None:
            self.who = who

        async def __call__(self) -> tuple[bool, bool, str]:
            async with self.who.choose_replica() as one, self.who.choose_replica() as two:
                differ = one.replica_id != two.replica_id
                same = await self.who.dispatch(one) == one.replica_id
                try:
                    self.who.dispatch(one)
                    again = "sent twice"
                except RuntimeError as error:
                    again = str(error)
            async with self.who.choose_replica(), self.who.choose_replica():
                return differ, same, again

    differ, same, again = serve.run(Chooses.bind(Who.bind()), route_prefix=None).remote().result(timeout_s=30)
    assert differ and same and "choose again" in again


@serve.deployment(**LIGHT)
class Holding:
    @serve.multiplexed(max_num_models_per_replica=1)
    async def model(self, name: str) -> str:
        return name

    async def __call__(self, request: Any) -> str:
        await self.model(serve.get_multiplexed_model_id())
        return str(serve.get_replica_context().replica_tag)


def test_a_request_over_http_goes_to_a_replica_with_its_model(port: int) -> None:
    def ask() -> str:
        headers = {"Serve-Multiplexed-Model-Id": "m"}
        with urlopen(Request(f"http://127.0.0.1:{port}/", headers=headers), timeout=30) as answer:
            return str(answer.read().decode())

    serve.run(Holding.bind())
    first = ask()
    wait_for(
        lambda: any(entry.models for entry in watch.current().table.deployments["default", "Holding"].entries)
    )
    serve.run(Holding.options(num_replicas=3).bind())
    assert {ask() for _ in range(12)} == {first}, (
        "each has a connection of its own, which any replica may accept"
    )
