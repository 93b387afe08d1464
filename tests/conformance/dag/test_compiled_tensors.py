"""Tensors in compiled graphs: through shared memory, by a communicator, and in collective operations."""

from __future__ import annotations

from typing import Any

import pytest
import ray
import torch
from ray.dag import CollectiveOutputNode, InputNode, MultiOutputNode
from ray.exceptions import RayTaskError
from ray.experimental import collective
from ray.experimental.channel.cpu_communicator import CPUCommunicator
from ray.experimental.channel.torch_tensor_type import TorchTensorType


@ray.remote(num_cpus=0)
class Worker:
    """Makes tensors and takes them."""

    def make(self, size: int, value: float) -> Any:
        return torch.full((size,), float(value))

    def make_of(self, sizes_and_values: Any, place: int) -> Any:
        size, value = sizes_and_values[place]
        return torch.full((size,), float(value))

    def number(self, value: Any) -> Any:
        return 1

    def named(self, value: float) -> Any:
        return {"a": torch.full((2,), float(value)), "b": [torch.zeros(3), "text"]}

    def take(self, tensor: Any) -> Any:
        return tuple(tensor.shape), float(tensor.sum())

    def take_named(self, value: Any) -> Any:
        return sorted(value), value["a"].tolist(), value["b"][1], value["b"][0].tolist()

    def echo(self, value: Any) -> Any:
        return value

    def fail(self, value: Any) -> Any:
        raise RuntimeError("no tensor")


@pytest.fixture(scope="module")
def pair() -> list[Any]:
    made = [Worker.remote() for _ in range(2)]
    ray.get([each.number.remote(1) for each in made])
    return made


def test_a_tensor_through_shared_memory(compile_: Any, pair: list[Any]) -> None:
    with InputNode() as given:
        graph = compile_(pair[1].take.bind(pair[0].make.bind(given[0], given[1])))
    assert ray.get(graph.execute(10, 2)) == ((10,), 20)
    assert ray.get(graph.execute(100_000, 1)) == ((100_000,), 100_000)


@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16", "int64", "bool", "complex64"])
def test_a_tensor_there_and_back(compile_: Any, pair: list[Any], dtype: str) -> None:
    with InputNode() as given:
        graph = compile_(pair[0].echo.bind(given))
    tensor = torch.ones((3, 2), dtype=getattr(torch, dtype))
    found = ray.get(graph.execute(tensor))
    assert found.dtype == tensor.dtype
    assert torch.equal(found, tensor)


@pytest.mark.parametrize("transport", ["auto", "shm"])
def test_a_transport_that_is_shared_memory(compile_: Any, pair: list[Any], transport: str) -> None:
    with InputNode() as given:
        node = pair[0].make.bind(given, 1).with_tensor_transport(transport)
        graph = compile_(pair[1].take.bind(node))
    assert ray.get(graph.execute(4)) == ((4,), 4)


def test_a_hint_is_kept(pair: list[Any]) -> None:
    with InputNode() as given:
        node = pair[0].make.bind(given, 1)
    assert node.with_tensor_transport() is node
    assert node.with_tensor_transport("shm") is node
    assert isinstance(node.type_hint, TorchTensorType)
    assert node.type_hint.requires_accelerator() is False
    assert node.with_tensor_transport("nccl").type_hint.requires_accelerator() is True


@pytest.mark.parametrize("transport", ["foo", "tcp"])
def test_a_transport_that_does_not_exist(pair: list[Any], transport: str) -> None:
    with InputNode() as given:
        node = pair[0].make.bind(given, 1)
    with pytest.raises(
        ValueError, match=f"Invalid transport type: {transport}. Transport must be one of 'auto', 'nccl', "
    ):
        node.with_tensor_transport(transport)
    with pytest.raises(
        ValueError, match="Invalid device 'foo'. Valid options are: 'default', 'cpu', 'gpu', 'cuda'."
    ):
        node.with_tensor_transport("auto", device="foo")


@pytest.mark.parametrize("way", ["transfer", "operation"])
def test_nccl_needs_a_gpu(pair: list[Any], way: str) -> None:
    with InputNode() as given:
        if way == "transfer":
            node: Any = pair[1].take.bind(pair[0].echo.bind(given).with_tensor_transport("nccl"))
        else:
            nodes = [worker.echo.bind(given) for worker in pair]
            node = MultiOutputNode(collective.allreduce.bind(nodes))
    with pytest.raises(ValueError, match="actor does not have an accelerator assigned by Ray"):
        node.experimental_compile()


# -- by a communicator


@pytest.mark.parametrize("method", ["take", "take_named"])
def test_from_actor_to_actor(compile_: Any, pair: list[Any], method: str) -> None:
    group = CPUCommunicator(2, pair)
    with InputNode() as given:
        node = pair[0].make.bind(3, given) if method == "take" else pair[0].named.bind(given)
        node = node.with_tensor_transport(transport=group)
        graph = compile_(getattr(pair[1], method).bind(node))
    for value in range(3):
        found = ray.get(graph.execute(value))
        if method == "take":
            assert found == ((3,), 3 * value)
        else:
            assert found == (["a", "b"], [value, value], "text", [0, 0, 0])


# -- collective operations


def test_the_sum_of_all(compile_: Any, pair: list[Any]) -> None:
    group = CPUCommunicator(2, pair)
    with InputNode() as given:
        parts = [worker.make_of.bind(given, place) for place, worker in enumerate(pair)]
        sums = collective.allreduce.bind(parts, transport=group)
        assert all(isinstance(node, CollectiveOutputNode) for node in sums)
        graph = compile_(MultiOutputNode([w.take.bind(s) for w, s in zip(pair, sums, strict=True)]))
    for size in (1, 10, 1000):
        assert ray.get(graph.execute([(size, 1), (size, 2)])) == [((size,), 3 * size)] * 2


def test_a_sum_is_an_output_and_an_argument(compile_: Any, pair: list[Any]) -> None:
    group = CPUCommunicator(2, pair)
    with InputNode() as given:
        parts = [worker.make_of.bind(given, place) for place, worker in enumerate(pair)]
        left, right = collective.allreduce.bind(parts, transport=group)
        graph = compile_(MultiOutputNode([pair[0].take.bind(left), pair[1].echo.bind(left), right]))
    first, second, third = ray.get(graph.execute([(2, 1), (2, 2)]))
    assert first == ((2,), 6)
    assert second.tolist() == third.tolist() == [3, 3]


def test_operations_one_after_the_other(compile_: Any, pair: list[Any]) -> None:
    group = CPUCommunicator(2, pair)
    with InputNode() as given:
        parts = [worker.make_of.bind(given, place) for place, worker in enumerate(pair)]
        once = collective.allreduce.bind(parts, transport=group)
        twice = collective.allreduce.bind(once, transport=group)
        graph = compile_(MultiOutputNode(twice))
    assert [each.tolist() for each in ray.get(graph.execute([(1, 1), (1, 2)]))] == [[6], [6]]


def test_an_operation_beside_a_transfer(compile_: Any, pair: list[Any]) -> None:
    group = CPUCommunicator(2, pair)
    with InputNode() as given:
        left, right = pair[0].make.bind(2, given), pair[1].make.bind(2, given)
        moved = pair[0].make.bind(2, given).with_tensor_transport(transport=group)
        sums = collective.allreduce.bind([left, right], transport=group)
        graph = compile_(MultiOutputNode([*sums, pair[1].take.bind(moved)]))
    one, other, taken = ray.get(graph.execute(10))
    assert (one.tolist(), other.tolist(), taken) == ([20, 20], [20, 20], ((2,), 20))


def test_what_is_no_tensor(compile_: Any) -> None:
    worker = Worker.remote()
    with InputNode() as given:
        group = CPUCommunicator(1, [worker])
        graph = compile_(
            MultiOutputNode(collective.allreduce.bind([worker.number.bind(given)], transport=group))
        )
    with pytest.raises(RayTaskError):
        ray.get(graph.execute(1))


def test_operations_that_cannot_be_bound(pair: list[Any]) -> None:
    worker = pair[0]
    with InputNode() as given:
        node = worker.echo.bind(given)
        with pytest.raises(ValueError, match="Expected unique input nodes"):
            collective.allreduce.bind([node, node], transport=CPUCommunicator(2, [worker, worker]))
        with pytest.raises(
            ValueError,
            match="Expected unique actor handles, but found duplicate actor handles from input nodes",
        ):
            nodes = [worker.echo.bind(given) for _ in range(2)]
            collective.allreduce.bind(nodes, transport=CPUCommunicator(2, [worker, worker]))
        with pytest.raises(ValueError, match="Expected actor handles to match the custom communicator group"):
            nodes = [each.echo.bind(given) for each in pair]
            collective.allreduce.bind(nodes, transport=CPUCommunicator(1, [worker]))
        with pytest.raises(ValueError, match="Expected all input nodes to be DAGNode, but got"):
            collective.allreduce.bind([5])
        with pytest.raises(
            ValueError, match="`transport` must be TorchTensorType.AUTO, TorchTensorType.ACCELERATOR"
        ):
            collective.allreduce.bind([node], transport="foo")
        with pytest.raises(ValueError, match="Unexpected operation: foo"):
            collective.allreduce.bind([node], op="foo")


def test_ranks_of_a_communicator(pair: list[Any]) -> None:
    group = CPUCommunicator(2, pair)
    assert group.get_world_size() == 2
    assert group.get_actor_handles() == pair
    assert [group.get_rank(each) for each in pair] == [0, 1]
    assert group.get_self_rank() is None
    with pytest.raises(ValueError):
        group.get_rank(Worker.remote())
