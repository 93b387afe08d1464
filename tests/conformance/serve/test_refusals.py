"""Rejections by Serve and their messages; and the effect of running again (SERVE-8 to SERVE-11 of the inventory)."""

from __future__ import annotations

import os
import pathlib
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import ray
from ray import serve
from ray.serve.handle import DeploymentHandle
from waiting import wait_for

LIGHT: dict[str, Any] = {"ray_actor_options": {"num_cpus": 0}}


@serve.deployment(**LIGHT)
class Leaf:
    def __call__(self, *_: Any) -> str:
        return "leaf"


@pytest.fixture(scope="module")
def leaf(server: str) -> Iterator[Any]:
    yield serve.run(Leaf.bind(), name="leaf", route_prefix="/leaf")
    serve.delete("leaf")


# -- SERVE-8: options that cannot be


@pytest.mark.parametrize(
    "options", [{"num_replicas": 2, "autoscaling_config": {"max_replicas": 3}}, {"num_replicas": 0}]
)
def test_serve_8_values_that_cannot_be(options: dict[str, Any]) -> None:
    with pytest.raises(ValueError):
        Leaf.options(**options)


def test_serve_8_unknown_option() -> None:
    with pytest.raises(TypeError):
        Leaf.options(replicas=3)


def test_serve_8_prefix_without_a_slash(server: str) -> None:
    with pytest.raises(ValueError):
        serve.run(Leaf.bind(), name="slash", route_prefix="slash")


# -- SERVE-9: routes that clash; running again


@pytest.mark.chosen_difference("one sentence, with both names", id="D-serve-clash")
def test_serve_9_two_applications_on_one_prefix(leaf: Any) -> None:
    with pytest.raises(serve.exceptions.RayServeException) as caught:
        serve.run(Leaf.bind(), name="second", route_prefix="/leaf")
    message = str(caught.value)
    assert (
        "'/leaf'" in message
        and "'second'" in message
        and "'leaf'" in message
        and "delete 'leaf' first" in message
    )
    assert "Traceback" not in message and not isinstance(caught.value, ray.exceptions.RayTaskError)


@pytest.mark.chosen_difference("what is the same stays, also from Python", id="D-serve-unchanged")
def test_serve_9_running_again_restarts_what_changed(deploy: Callable[..., Any]) -> None:
    @serve.deployment(**LIGHT)
    class Part:
        def __init__(self, word: str) -> None:
            self.configured = word

        def reconfigure(self, config: dict[str, str]) -> None:
            self.configured = config["said"]

        def look(self) -> tuple[int, str]:
            return os.getpid(), self.configured

    @serve.deployment(**LIGHT)
    class Both:
        def __init__(self, *parts: DeploymentHandle) -> None:
            self.parts = parts

        async def __call__(self) -> list[Any]:
            return [await part.look.remote() for part in self.parts]

    def app(word: str, configured: str) -> Any:
        second_leaf = Part.options(name="Told", user_config={"said": configured})
        return Both.bind(Part.options(name="Kept").bind("same"), second_leaf.bind("x"), Part.bind(word))

    before = deploy(app("one", "hello"), "again").remote().result()
    after = deploy(app("two", "goodbye"), "again").remote().result()
    assert after[0] == before[0] == (after[0][0], "same")
    assert after[1] == (before[1][0], "goodbye") and before[1][1] == "hello"
    assert after[2][0] != before[2][0] and after[2][1] == "two"


# -- SERVE-10 and 11: what cannot be served


@pytest.mark.chosen_difference("the reason, at once", id="D-serve-cause")
def test_serve_10_the_reason_of_a_failed_constructor(server: str, tmp_path: pathlib.Path) -> None:
    tries = tmp_path / "tries"

    @serve.deployment(**LIGHT)
    class Broken:
        def __init__(self) -> None:
            with tries.open("a") as file:
                file.write("x")
            raise FileNotFoundError("no weights in /models/llama")

    began = time.monotonic()
    with pytest.raises(
        RuntimeError, match="application broken.*'Broken'.*no weights in /models/llama"
    ) as caught:
        serve.run(Broken.bind(), name="broken", route_prefix="/broken")
    assert time.monotonic() - began < 6, "Ray takes 8 to 12 s"
    assert isinstance(caught.value.__cause__, FileNotFoundError) and tries.read_text() == "x"
    status = serve.status().applications["broken"]
    assert status.status == "DEPLOY_FAILED" and "no weights" in status.deployments["Broken"].message
    serve.delete("broken")


@pytest.mark.chosen_difference("an error that says what is missing", id="D-serve-room")
@pytest.mark.parametrize(
    ("actor", "missing"),
    [
        ({"num_cpus": 5}, "10 CPU are needed and the cluster has 8"),
        ({"num_gpus": 1}, "2 GPU are needed and the cluster has 0"),
        ({"resources": {"TPU": 1}}, "2 TPU are needed and the cluster has 0"),
    ],
)
def test_serve_11_not_enough_resources(server: str, actor: dict[str, Any], missing: str) -> None:
    big = Leaf.options(num_replicas=2, ray_actor_options=actor)
    with pytest.raises(RuntimeError, match=missing) as caught:
        serve.run(big.bind(), name="big", route_prefix="/big")
    assert "'Leaf'" in str(caught.value) and "ray_actor_options" in str(caught.value)
    assert "big" not in serve.status().applications


def test_serve_11_a_replica_takes_one_cpu(deploy: Callable[..., Any]) -> None:
    before = ray.available_resources().get("CPU", 0.0)
    deploy(Leaf.options(num_replicas=2, ray_actor_options={}).bind())
    wait_for(lambda: ray.available_resources().get("CPU", 0.0) == before - 2, what="two CPUs to be taken")
