"""ray.util.collective over gloo: what each call does to the tensors of every member, and rejected arguments."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
import ray
import torch
from ray.util import collective
from ray.util.collective.collective_group.base_collective_group import BaseGroup
from ray.util.collective.types import Backend, ReduceOp

ON_SKATE = os.environ.get("SKATE_CONFORMANCE_TARGET", "skate") == "skate"
MEMBERS = 2


@ray.remote(num_cpus=0)
class Member:
    """Makes one collective call after the other."""

    def join(self, rank: int, name: str, world_size: int = MEMBERS, backend: str = "gloo") -> bool:
        collective.init_collective_group(world_size, rank, backend, name)
        return True

    def leave(self, name: str) -> bool:
        collective.destroy_collective_group(name)
        return collective.is_group_initialized(name)

    def facts(self, name: str) -> tuple[int, int, bool]:
        return (
            collective.get_rank(name),
            collective.get_collective_group_size(name),
            collective.is_group_initialized(name),
        )

    def call(self, verb: str, *tensors: Any, **options: Any) -> Any:
        tensors = tuple(_own(each) for each in tensors)
        getattr(collective, verb)(*tensors, **options)
        return tensors[0] if tensors else None

    def call_with(self, verb: str, tensor: Any, **options: Any) -> Any:
        tensor = _own(tensor)
        getattr(collective, verb)(tensor, **options)
        return tensor


def _own(value: Any) -> Any:
    """A copy that may be written to."""
    if isinstance(value, list):
        return [_own(each) for each in value]
    return value.clone() if isinstance(value, torch.Tensor) else np.array(value)


@pytest.fixture(scope="module")
def members() -> Iterator[list[Any]]:
    """Two actors in the group "default"."""
    ray.shutdown()
    elsewhere = {} if ON_SKATE else {"address": "local"}
    ray.init(num_cpus=2, num_gpus=0, include_dashboard=False, log_to_driver=False, **elsewhere)
    made = [Member.remote() for _ in range(MEMBERS)]
    assert ray.get([each.join.remote(rank, "default") for rank, each in enumerate(made)]) == [True, True]
    yield made
    del made
    ray.shutdown()


KINDS = {
    "numpy": lambda *a: np.array(*a),
    "torch": lambda data, kind: torch.tensor(data, dtype=getattr(torch, kind)),
}


def make(kind: str, data: Any, dtype: str = "float32") -> Any:
    return KINDS[kind](data, dtype)


def listed(found: list[Any]) -> list[Any]:
    return [[each.tolist() for each in one] if isinstance(one, list) else one.tolist() for one in found]


OPERATIONS = {"SUM": [4, 6], "PRODUCT": [3, 8], "MIN": [1, 2], "MAX": [3, 4]}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("operation", OPERATIONS)
@pytest.mark.parametrize("dtype", ["float32", "float64", "int32", "int64", "uint8", "float16"])
def test_allreduce(members: list[Any], kind: str, operation: str, dtype: str) -> None:
    given = [make(kind, [1, 2], dtype), make(kind, [3, 4], dtype)]
    found = ray.get(
        [m.call.remote("allreduce", t, op=ReduceOp[operation]) for m, t in zip(members, given, strict=True)]
    )
    assert listed(found) == [OPERATIONS[operation]] * 2
    assert [str(each.dtype) for each in found] == [str(given[0].dtype)] * 2


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("size", [1, 2, 2**5, 2**10, 2**15, 2**18])
def test_allreduce_of_sizes(members: list[Any], kind: str, size: int) -> None:
    tensor = make(kind, [1.0] * size)
    found = ray.get([member.call.remote("allreduce", tensor) for member in members])
    assert all(len(each) == size and bool((each == 2).all()) for each in found)


@pytest.mark.parametrize("shape", [(2, 3), (1, 1, 4), ()])
def test_allreduce_of_shapes(members: list[Any], shape: Any) -> None:
    found = ray.get([member.call.remote("allreduce", torch.ones(shape)) for member in members])
    assert [tuple(each.shape) for each in found] == [shape] * 2
    assert all(bool((each == 2).all()) for each in found)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("root", [0, 1])
@pytest.mark.parametrize("operation", OPERATIONS)
def test_reduce(members: list[Any], kind: str, root: int, operation: str) -> None:
    given = [make(kind, [1, 2]), make(kind, [3, 4])]
    found = ray.get(
        [
            m.call.remote("reduce", t, dst_rank=root, op=ReduceOp[operation])
            for m, t in zip(members, given, strict=True)
        ]
    )
    assert listed(found)[root] == OPERATIONS[operation]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("root", [0, 1])
def test_broadcast(members: list[Any], kind: str, root: int) -> None:
    given = [make(kind, [1, 2]), make(kind, [3, 4])]
    found = ray.get(
        [m.call.remote("broadcast", t, src_rank=root) for m, t in zip(members, given, strict=True)]
    )
    assert listed(found) == [given[root].tolist()] * 2


@pytest.mark.parametrize("into", KINDS)
@pytest.mark.parametrize("kind", KINDS)
def test_allgather(members: list[Any], kind: str, into: str) -> None:
    places = [make(into, [0, 0]) for _ in range(2)]
    found = ray.get(
        [
            member.call.remote("allgather", places, make(kind, [rank, 7]))
            for rank, member in enumerate(members)
        ]
    )
    assert listed(found) == [[[0, 7], [1, 7]]] * 2


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("operation", OPERATIONS)
def test_reducescatter(members: list[Any], kind: str, operation: str) -> None:
    given = [[make(kind, [1, 2]), make(kind, [1, 2])], [make(kind, [3, 4]), make(kind, [3, 4])]]
    found = ray.get(
        [
            m.call.remote("reducescatter", make(kind, [0, 0]), parts, op=ReduceOp[operation])
            for m, parts in zip(members, given, strict=True)
        ]
    )
    assert listed(found) == [OPERATIONS[operation]] * 2


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("sender", [0, 1])
@pytest.mark.parametrize("size", [1, 2**10, 2**18])
def test_send_and_receive(members: list[Any], kind: str, sender: int, size: int) -> None:
    refs = [None, None]
    refs[sender] = members[sender].call_with.remote("send", make(kind, [5.0] * size), dst_rank=1 - sender)
    refs[1 - sender] = members[1 - sender].call_with.remote("recv", make(kind, [0.0] * size), src_rank=sender)
    found = ray.get(refs)
    assert bool((found[1 - sender] == 5).all())


def test_barrier(members: list[Any]) -> None:
    assert ray.get([member.call.remote("barrier") for member in members]) == [None, None]


def test_an_array_that_came_as_an_argument_is_overwritten(members: list[Any]) -> None:
    def reduce(member: Any, array: Any) -> Any:
        collective.allreduce(array)
        return array

    found = ray.get([m.__ray_call__.remote(reduce, np.ones(3, dtype=np.float32)) for m in members])
    assert listed(found) == [[2, 2, 2]] * 2


# -- groups


def test_facts_of_a_group(members: list[Any]) -> None:
    assert ray.get([member.facts.remote("default") for member in members]) == [(0, 2, True), (1, 2, True)]
    assert ray.get([member.facts.remote("unknown") for member in members]) == [(-1, -1, False)] * 2


@pytest.mark.parametrize("name", ["test", "123?34!", "with space"])
def test_a_group_of_any_name_with_other_ranks(members: list[Any], name: str) -> None:
    assert all(ray.get([member.join.remote(1 - number, name) for number, member in enumerate(members)]))
    assert ray.get([member.facts.remote(name) for member in members]) == [(1, 2, True), (0, 2, True)]
    found = ray.get([m.call.remote("allreduce", torch.tensor([1]), group_name=name) for m in members])
    assert listed(found) == [[2], [2]]
    assert ray.get([member.leave.remote(name) for member in members]) == [False, False]


def test_a_group_is_made_again(members: list[Any]) -> None:
    for _ in range(2):
        assert all(ray.get([member.join.remote(rank, "again") for rank, member in enumerate(members)]))
        assert ray.get([m.facts.remote("again") for m in members]) == [(0, 2, True), (1, 2, True)]
        assert ray.get([member.leave.remote("again") for member in members]) == [False, False]
        assert ray.get([m.facts.remote("again") for m in members]) == [(-1, -1, False)] * 2
    assert ray.get(members[0].leave.remote("never there")) is False


def test_a_group_of_one(members: list[Any]) -> None:
    assert ray.get(members[0].join.remote(0, "alone", 1))
    found = ray.get(members[0].call.remote("allreduce", torch.ones(2), group_name="alone"))
    assert found.tolist() == [1, 1]
    ray.get(members[0].leave.remote("alone"))


@pytest.mark.parametrize(
    ("ranks", "size", "phrase"),
    [
        ([0], 2, "Each actor should correspond to one rank. Got '1' ranks but '2' actors"),
        ([0, 2], 2, "Ranks must be a permutation from 0 to '2'. Got '02'."),
        ([-1, 0], 2, "Ranks must be a permutation from 0 to '2'. Got '-10'."),
        ([0, 0], 2, "Ranks must be a permutation from 0 to '2'. Got '00'."),
        ([0, 1], 0, "World size must be greater than zero. Got '0'."),
    ],
)
def test_a_group_that_cannot_be_declared(members: list[Any], ranks: Any, size: int, phrase: str) -> None:
    with pytest.raises(RuntimeError, match=phrase):
        collective.create_collective_group(members, size, ranks, "gloo", "never")


def test_a_declared_group() -> None:
    pair = [Member.remote() for _ in range(2)]
    collective.create_collective_group(pair, 2, [1, 0], "gloo", "declared")
    with pytest.raises(RuntimeError, match="Trying to initialize a group twice."):
        collective.create_collective_group(pair, 2, [0, 1], "gloo", "declared")
    found = ray.get(
        [m.call.remote("allreduce", torch.tensor([n]), group_name="declared") for n, m in enumerate(pair)]
    )
    assert listed(found) == [[1], [1]]
    assert ray.get([member.facts.remote("declared") for member in pair]) == [(1, 2, True), (0, 2, True)]


# -- what is refused


@pytest.mark.parametrize(
    ("verb", "tensor", "options", "kind", "phrase"),
    [
        ("send", torch.ones(1), {"dst_rank": 0}, RuntimeError, "The destination rank '0' is self."),
        ("recv", torch.ones(1), {"src_rank": 0}, RuntimeError, "The destination rank '0' is self."),
        ("send", torch.ones(1), {"dst_rank": 5}, ValueError, "rank '5' must be less than world size '2'"),
        ("recv", torch.ones(1), {"src_rank": 2}, ValueError, "rank '2' must be less than world size '2'"),
        ("send", torch.ones(1), {"dst_rank": -1}, ValueError, "rank '-1' is negative."),
        ("broadcast", torch.ones(1), {"src_rank": 9}, ValueError, "rank '9' must be less than"),
        ("broadcast", torch.ones(1), {"src_rank": -9}, ValueError, "rank '-9' is negative."),
        ("reduce", torch.ones(1), {"dst_rank": 3}, ValueError, "rank '3' must be less than"),
        ("reduce", torch.ones(1), {"dst_rank": -2}, ValueError, "rank '-2' is negative."),
        (
            "allreduce",
            torch.ones(1),
            {"group_name": "nope"},
            RuntimeError,
            "The collective group 'nope' is not initialized in the process.",
        ),
        ("allreduce_multigpu", [torch.ones(1)], {}, RuntimeError, "Multigpu calls requires NCCL and Cupy."),
        ("reduce_multigpu", [torch.ones(1)], {}, RuntimeError, "Multigpu calls requires NCCL and Cupy."),
        ("broadcast_multigpu", [torch.ones(1)], {}, RuntimeError, "Multigpu calls requires NCCL and Cupy."),
        ("send_multigpu", torch.ones(1), {"dst_rank": 1, "dst_gpu_index": 0}, RuntimeError, "requires NCCL"),
        ("recv_multigpu", torch.ones(1), {"src_rank": 1, "src_gpu_index": 0}, RuntimeError, "requires NCCL"),
    ],
)
def test_a_call_that_is_refused(
    members: list[Any], verb: str, tensor: Any, options: Any, kind: Any, phrase: str
) -> None:
    with pytest.raises(kind, match=phrase or None):
        ray.get(members[0].call_with.remote(verb, tensor, **options))


def refuse(member: Any, verb: str, *given: Any, **options: Any) -> None:
    getattr(collective, verb)(*given, **options)


@pytest.mark.parametrize(
    ("verb", "given", "kind", "phrase"),
    [
        (
            "allreduce",
            ([1, 2],),
            RuntimeError,
            "Unrecognized tensor type '<class 'list'>'. Supported types are: ",
        ),
        ("allreduce", (5,), RuntimeError, "Unrecognized tensor type"),
        (
            "allgather",
            (torch.ones(1), torch.ones(1)),
            RuntimeError,
            "The input must be a list of tensors. Got",
        ),
        ("allgather", ([torch.ones(1)], torch.ones(1)), RuntimeError, "must be equal to world_size"),
        ("allgather", ([], torch.ones(1)), RuntimeError, ""),
        (
            "reducescatter",
            (torch.ones(1), torch.ones(1)),
            RuntimeError,
            "The input must be a list of tensors. Got",
        ),
        ("reducescatter", (torch.ones(1), [torch.ones(1)]), RuntimeError, "world_size"),
        ("init_collective_group", (2, 0, "gloo", "default"), RuntimeError, "Trying to initialize a group"),
        ("init_collective_group", (1, 0, "foo", "x"), ValueError, "Backend FOO not registered"),
        ("init_collective_group", (1, 0, "nccl", "x"), ValueError, "Backend NCCL not registered"),
        ("init_collective_group", (1, 0, "gloo", ""), ValueError, "group_name '' needs to be a string."),
        (
            "init_collective_group",
            (1, 0, "gloo", None),
            ValueError,
            "group_name 'None' needs to be a string.",
        ),
        ("init_collective_group", (0, 0, "gloo", "x"), AssertionError, ""),
        ("init_collective_group", (1, -1, "gloo", "x"), AssertionError, ""),
        ("init_collective_group", (1, 1, "gloo", "x"), AssertionError, ""),
        ("get_group_handle", ("nope",), RuntimeError, "is not initialized in the process"),
    ],
)
def test_arguments_that_are_refused(
    members: list[Any], verb: str, given: Any, kind: Any, phrase: str
) -> None:
    with pytest.raises(kind, match=phrase or None):
        ray.get(members[0].__ray_call__.remote(refuse, verb, *given))


@pytest.mark.parametrize("verb", ["get_rank", "get_collective_group_size"])
def test_a_driver_is_no_member(members: list[Any], verb: str) -> None:
    with pytest.raises(
        RuntimeError, match="The collective APIs shall be only used inside a Ray actor or task."
    ):
        getattr(collective, verb)("default")


# -- backends


def test_backends() -> None:
    assert (Backend.GLOO, Backend.NCCL) == ("GLOO", "NCCL")
    assert (Backend("gloo"), Backend("torch_gloo"), Backend("Nccl")) == ("GLOO", "GLOO", "NCCL")
    for name in ("foo", "mpi"):
        with pytest.raises(
            ValueError, match=f"Unrecognized backend: '{name}'. Only NCCL and GLOO are supported"
        ):
            Backend(name)


@pytest.mark.parametrize(
    ("name", "available"), [("gloo", True), ("GLOO", True), ("nccl", False), ("foo", False)]
)
def test_what_is_available(name: str, available: bool) -> None:
    assert collective.is_backend_available(name) is available
    assert collective.gloo_available() is True
    assert collective.nccl_available() is False


class Lonely(BaseGroup):
    """A group whose members hear of nobody."""

    @classmethod
    def backend(cls) -> str:
        return "LONELY"

    @classmethod
    def check_backend_availability(cls) -> bool:
        return True

    def allreduce(self, tensor: Any, *options: Any) -> None:
        tensor[0][0] = 99

    barrier = reduce = allgather = broadcast = reducescatter = send = recv = allreduce


def test_a_backend_of_ones_own(members: list[Any]) -> None:
    def use(member: Any, group: Any) -> Any:
        collective.register_collective_backend("lonely", group)
        collective.init_collective_group(2, 1, "lonely", "lonely group")
        tensor = torch.ones(2)
        collective.allreduce(tensor, "lonely group")
        found = tensor.tolist(), collective.get_rank("lonely group")
        collective.destroy_collective_group("lonely group")
        return found, collective.is_backend_available("LONELY")

    assert ray.get(members[0].__ray_call__.remote(use, Lonely)) == (([99, 1], 1), True)
    assert collective.is_backend_available("lonely") is False


def test_backends_that_cannot_be_registered() -> None:
    with pytest.raises(ValueError, match="Backend GLOO already registered"):
        collective.register_collective_backend("gloo", Lonely)
    with pytest.raises(TypeError, match="is not a subclass of BaseGroup"):
        collective.register_collective_backend("invalid", int)
