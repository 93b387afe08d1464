"""Results of actor methods with a tensor transport: what arrives, and what is rejected."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Any

import pytest
import ray
import torch
from ray.experimental import collective

ON_SKATE = os.environ.get("SKATE_CONFORMANCE_TARGET", "skate") == "skate"


@ray.remote(num_cpus=0)
class Worker:
    """Sends tensors by gloo, and takes them."""

    @ray.method(tensor_transport="gloo")
    def echo(self, value: Any) -> Any:
        return value

    @ray.method(tensor_transport="gloo")
    def fail(self) -> Any:
        raise ValueError("no tensor")

    def double(self, value: Any) -> Any:
        if isinstance(value, list):
            return [self.double(each) for each in value]
        return value * 2

    def add(self, left: Any, right: Any) -> Any:
        return left + right


@pytest.fixture(scope="module")
def pair() -> Iterator[list[Any]]:
    ray.shutdown()
    elsewhere = {} if ON_SKATE else {"address": "local"}
    ray.init(num_cpus=2, num_gpus=0, include_dashboard=False, log_to_driver=False, **elsewhere)
    made = [Worker.remote() for _ in range(2)]
    collective.create_collective_group(made, "gloo")
    yield made
    collective.destroy_all_collective_groups()
    ray.shutdown()


@pytest.mark.parametrize("size", [1, 1000, 250_000])
@pytest.mark.parametrize("receiver", [0, 1])
def test_a_tensor_goes_to_an_actor(pair: list[Any], size: int, receiver: int) -> None:
    ref = pair[0].echo.remote(torch.arange(size))
    for _ in range(2):
        assert torch.equal(ray.get(pair[receiver].double.remote(ref)), torch.arange(size) * 2)


@pytest.mark.parametrize("receiver", [0, 1])
def test_tensors_among_other_things(pair: list[Any], receiver: int) -> None:
    ref = pair[0].echo.remote([torch.ones(2), 5, "x", torch.zeros(3)])
    one, five, text, other = ray.get(pair[receiver].double.remote(ref))
    assert (one.tolist(), five, text, other.tolist()) == ([2, 2], 10, "xx", [0, 0, 0])


def test_no_tensor_at_all(pair: list[Any]) -> None:
    assert ray.get(pair[1].double.remote(pair[0].echo.remote(21))) == 42


@pytest.mark.parametrize("receiver", [0, 1])
def test_a_tensor_twice(pair: list[Any], receiver: int) -> None:
    ref = pair[0].echo.remote(torch.ones(1))
    assert ray.get(pair[receiver].add.remote(ref, ref)).tolist() == [2]


@pytest.mark.parametrize("receiver", [0, 1])
def test_an_error_instead_of_a_tensor(pair: list[Any], receiver: int) -> None:
    with pytest.raises(Exception, match="no tensor"):
        ray.get(pair[receiver].double.remote(pair[0].fail.remote()))
    assert ray.get(pair[1].double.remote(pair[0].echo.remote(torch.ones(1)))).tolist() == [2]


def test_a_tensor_comes_to_the_driver(pair: list[Any]) -> None:
    ref = pair[0].echo.remote([torch.ones(2), 7])
    tensor, number = ray.get(ref, _use_object_store=True)
    assert (tensor.tolist(), number) == ([1, 1], 7)


@pytest.mark.parametrize("name", ["invalid", "shm", ""])
def test_transports_that_there_are_not(pair: list[Any], name: str) -> None:
    with pytest.raises(ValueError, match="Invalid tensor transport"):

        class Wrong:
            @ray.method(tensor_transport=name)
            def echo(self) -> None: ...

    with pytest.raises(ValueError, match="Invalid tensor transport"):
        pair[0].double.options(tensor_transport=name).remote(torch.ones(1))
    with pytest.raises(ValueError, match="Invalid tensor transport"):
        ray.put(torch.ones(1), _tensor_transport=name)


@pytest.mark.parametrize("name", ["gloo", "nccl"])
def test_a_put_has_no_other_side(pair: list[Any], name: str) -> None:
    with pytest.raises(ValueError, match=r"ray.put\(\) is not supported for two-sided RDT transport"):
        ray.put(torch.ones(1), _tensor_transport=name)


def test_a_transport_is_for_one_result(pair: list[Any]) -> None:
    with pytest.raises(
        ValueError, match="Currently, methods with tensor_transport=GLOO only support 1 return value."
    ):
        pair[0].double.options(tensor_transport="gloo", num_returns=2).remote(torch.ones(2))
