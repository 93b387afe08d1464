"""Versions that the user gives: another one replaces replicas, the same one never makes two deployments share code."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from ray import serve
from ray.serve.handle import DeploymentHandle

LIGHT: dict[str, Any] = {"ray_actor_options": {"num_cpus": 0}}

pytestmark = pytest.mark.chosen_difference("a version that the user gives counts", id="D-serve-version")


def test_deployments_of_one_version_run_their_own_code(deploy: Callable[..., Any]) -> None:
    @serve.deployment(version="1", **LIGHT)
    class Fetch:
        def run(self) -> str:
            return "fetch"

    @serve.deployment(version="1", **LIGHT)
    class Rank:
        def run(self) -> str:
            return "rank"

    @serve.deployment(version="1", **LIGHT)
    class Main:
        def __init__(self, *handles: DeploymentHandle) -> None:
            self.handles = handles

        async def __call__(self) -> list[str]:
            return [await each.run.remote() for each in self.handles]

    assert deploy(Main.bind(Fetch.bind(), Rank.bind())).remote().result() == ["fetch", "rank"]


def test_applications_of_one_version_and_name_run_their_own_code(deploy: Callable[..., Any]) -> None:
    def named(word: str) -> Any:
        @serve.deployment(name="Same", version="1", **LIGHT)
        class Same:
            def __call__(self) -> str:
                return word

        return Same.bind()

    handles = [deploy(named(word)) for word in ("one", "two")]
    assert [each.remote().result() for each in handles] == ["one", "two"]


def test_changed_code_of_the_same_version_is_served(deploy: Callable[..., Any]) -> None:
    def made(word: str) -> Any:
        @serve.deployment(name="Changed", version="1", **LIGHT)
        def changed() -> str:
            return word

        return changed.bind()

    assert deploy(made("before"), "changed").remote().result() == "before"
    assert deploy(made("after"), "changed").remote().result() == "after"
