"""ray.experimental.collective: groups of actors made from outside."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from typing import Any

import pytest
import ray
import torch
from ray.experimental import collective as groups
from ray.util import collective

ON_SKATE = os.environ.get("SKATE_CONFORMANCE_TARGET", "skate") == "skate"


@ray.remote(num_cpus=0)
class Member:
    """Takes part."""

    def facts(self, name: str) -> tuple[int, int, bool]:
        return (
            collective.get_rank(name),
            collective.get_collective_group_size(name),
            collective.is_group_initialized(name),
        )

    def sum(self, name: str, value: float) -> Any:
        tensor = torch.tensor([value])
        collective.allreduce(tensor, name)
        return tensor.tolist()


@pytest.fixture(scope="module", autouse=True)
def node() -> Iterator[None]:
    ray.shutdown()
    elsewhere = {} if ON_SKATE else {"address": "local"}
    ray.init(num_cpus=2, num_gpus=0, include_dashboard=False, log_to_driver=False, **elsewhere)
    yield
    ray.shutdown()


@pytest.fixture(scope="module")
def pair() -> list[Any]:
    return [Member.remote() for _ in range(2)]


@pytest.fixture(autouse=True)
def none_left() -> Iterator[None]:
    yield
    groups.destroy_all_collective_groups()


@pytest.mark.parametrize("name", [None, "named", "other name"])
@pytest.mark.parametrize("backend", ["gloo", "torch_gloo", "GLOO"])
def test_a_group(pair: list[Any], name: str | None, backend: str) -> None:
    group = groups.create_collective_group(pair, backend, name)
    assert group.actors == pair
    assert group.backend == "GLOO"
    assert group.name == name or name is None
    assert [group.get_rank(each) for each in pair] == [0, 1]
    assert ray.get([each.facts.remote(group.name) for each in pair]) == [(0, 2, True), (1, 2, True)]
    assert ray.get([each.sum.remote(group.name, 2) for each in pair]) == [[4], [4]]
    assert [each.name for each in groups.get_collective_groups(pair)] == [group.name]
    assert [each.name for each in groups.get_collective_groups(pair[:1], backend="gloo")] == [group.name]
    groups.destroy_collective_group(group if name is None else name)
    assert groups.get_collective_groups(pair) == []
    assert ray.get(pair[0].facts.remote(group.name)) == (-1, -1, False)


def test_a_group_by_any_order_of_actors(pair: list[Any]) -> None:
    group = groups.create_collective_group(pair[::-1], "gloo")
    assert ray.get([each.facts.remote(group.name) for each in pair]) == [(1, 2, True), (0, 2, True)]


def test_an_actor_is_in_one_group_of_a_backend(pair: list[Any]) -> None:
    groups.create_collective_group(pair, "gloo", "first")
    with pytest.raises(RuntimeError, match="already in group for backend GLOO"):
        groups.create_collective_group(pair[:1], "gloo", "second")


@pytest.mark.chosen_difference("the name of a group that exists is refused", id="D-collective-group")
def test_a_name_is_taken_once(pair: list[Any]) -> None:
    groups.create_collective_group(pair[:1], "gloo", "first")
    with pytest.raises(RuntimeError):
        groups.create_collective_group(pair[1:], "gloo", "first")


def test_groups_that_there_are_not(pair: list[Any]) -> None:
    assert groups.get_collective_groups(pair) == []
    with pytest.raises(ValueError, match="No group with name unknown found."):
        groups.destroy_collective_group("unknown")
    groups.destroy_all_collective_groups()


def test_a_backend_that_there_is_not(pair: list[Any]) -> None:
    with pytest.raises(ValueError, match="Unrecognized backend: 'foo'. Only NCCL and GLOO are supported"):
        groups.create_collective_group(pair, "foo")


def test_an_actor_comes_once(pair: list[Any]) -> None:
    with pytest.raises(ValueError):
        groups.create_collective_group([pair[0], pair[0]], "gloo")


@pytest.mark.chosen_difference("a group does not wait for its actors' calls", id="D-collective-group")
def test_a_group_is_made_while_its_actors_are_busy(tmp_path: Any) -> None:
    @ray.remote(num_cpus=0)
    class Busy:
        def wait(self, path: str) -> None:
            while not os.path.exists(path):
                time.sleep(0.01)

    pair = [Busy.remote() for _ in range(2)]
    path = tmp_path / "go"
    waits = [each.wait.remote(str(path)) for each in pair]
    group = groups.create_collective_group(pair, "gloo")
    path.touch()
    ray.get(waits)
    assert group.get_rank(pair[1]) == 1
