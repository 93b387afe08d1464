"""Tensors that stay with the actor that created them: transfers, release, and rejected uses."""

from __future__ import annotations

import contextlib
import gc
import os
import warnings
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
import ray
import torch
from ray.experimental import collective

#: Both sides warn when a ref goes back to its maker and elsewhere; one test looks at that.
pytestmark = pytest.mark.filterwarnings("ignore:RDT ObjectRef")
ON_SKATE = os.environ.get("SKATE_CONFORMANCE_TARGET", "skate") == "skate"


@ray.remote(num_cpus=0)
class Worker:
    """Makes tensors and takes them."""

    def __init__(self) -> None:
        self.kept: Any = None

    @ray.method(tensor_transport="gloo")
    def echo(self, value: Any) -> Any:
        return value

    @ray.method(tensor_transport="gloo")
    def keep(self, value: Any) -> Any:
        self.kept = value
        return value

    @ray.method(tensor_transport="gloo")
    def make(self, dtype: str, shape: tuple[int, ...]) -> Any:
        return (torch.arange(24) % 2).reshape(shape).to(getattr(torch, dtype))

    @ray.method(tensor_transport="gloo")
    def strided(self) -> Any:
        return torch.arange(12).reshape(3, 4).t()

    @ray.method(tensor_transport="gloo")
    def on_two_devices(self) -> Any:
        return [torch.ones(1), torch.ones(1, device="meta")]

    @ray.method(tensor_transport="gloo")
    def on_another_device(self) -> Any:
        return torch.ones(1, device="meta")

    def is_kept(self, value: Any) -> bool:
        return value is self.kept

    def plus_one_when_free(self, timeout: float | None = None) -> Any:
        ray.experimental.wait_tensor_freed(self.kept, timeout)
        self.kept += 1
        return self.kept

    def same(self, value: Any) -> Any:
        return value

    def described(self, value: Any) -> tuple[Any, ...]:
        return str(value.dtype), tuple(value.shape), value.float().sum().item()

    def add(self, left: Any, right: Any = 0, *rest: Any) -> Any:
        return left + right + sum(rest)

    def increment(self, value: Any) -> Any:
        value += 1
        return value

    def inside(self, refs: list[Any], through: bool) -> Any:
        return ray.get(refs[0], _use_object_store=through)


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


@pytest.fixture(scope="module")
def loner(pair: list[Any]) -> Any:
    """An actor that is in no group."""
    made = Worker.remote()
    ray.get(made.same.remote(0))
    return made


TYPES = [
    "float32",
    "float64",
    "float16",
    "bfloat16",
    "int8",
    "int16",
    "int32",
    "int64",
    "uint8",
    "bool",
    "complex64",
]


@pytest.mark.parametrize("receiver", [0, 1])
@pytest.mark.parametrize("shape", [(24,), (2, 12), (2, 3, 4)])
@pytest.mark.parametrize("dtype", TYPES)
def test_tensors_of_a_type_and_shape(
    pair: list[Any], dtype: str, shape: tuple[int, ...], receiver: int
) -> None:
    ref = pair[0].make.remote(dtype, shape)
    if dtype == "complex64":
        got = ray.get(pair[receiver].same.remote(ref))
        assert (got.dtype, tuple(got.shape), got.real.sum().item()) == (torch.complex64, shape, 12)
        return
    assert ray.get(pair[receiver].described.remote(ref)) == (f"torch.{dtype}", shape, 12)


CONTAINERS: dict[str, Any] = {
    "a list": lambda: [torch.ones(2), torch.zeros(3)],
    "a tuple": lambda: (torch.ones(2), 5),
    "a dict": lambda: {"a": torch.ones(2), "b": {"c": torch.zeros(1)}},
    "nested lists": lambda: [[torch.ones(1)], [[torch.zeros(2)]]],
    "much besides": lambda: [torch.ones(1), b"x" * 1_000_000],
    "an array besides": lambda: [torch.ones(1), np.arange(200_000)],
    "many": lambda: [torch.full((3,), float(each)) for each in range(40)],
    "a large one": lambda: torch.ones(1_000_000),
    "a scalar": lambda: torch.tensor(7),
    "a state dict": lambda: torch.nn.Linear(2, 2).state_dict(),
}


def flat(value: Any) -> list[Any]:
    """Everything in a value, tensors as lists."""
    if isinstance(value, dict):
        return [each for key, inner in value.items() for each in (key, *flat(inner))]
    if isinstance(value, (list, tuple)):
        return [each for inner in value for each in flat(inner)]
    return [value.tolist()] if isinstance(value, (torch.Tensor, np.ndarray)) else [value]


@pytest.mark.parametrize("receiver", [0, 1])
@pytest.mark.parametrize("name", CONTAINERS)
def test_a_value_with_tensors_arrives_whole(pair: list[Any], name: str, receiver: int) -> None:
    value = CONTAINERS[name]()
    got = ray.get(pair[receiver].same.remote(pair[0].echo.remote(value)))
    assert type(got) is type(value)
    assert flat(got) == flat(value)


@pytest.mark.parametrize("name", CONTAINERS)
def test_the_driver_gets_a_value_through_the_object_store(pair: list[Any], name: str) -> None:
    value = CONTAINERS[name]()
    assert flat(ray.get(pair[0].echo.remote(value), _use_object_store=True)) == flat(value)


@pytest.mark.parametrize(
    "receiver",
    [
        0,
        pytest.param(
            1,
            marks=pytest.mark.chosen_difference(
                "Ray's transfer of such a tensor fails, and ends both actors", id="D-tensor-transport"
            ),
        ),
    ],
)
def test_a_tensor_that_is_not_contiguous(pair: list[Any], receiver: int) -> None:
    got = ray.get(pair[receiver].same.remote(pair[0].strided.remote()))
    assert got.tolist() == torch.arange(12).reshape(3, 4).t().tolist()


@pytest.mark.parametrize("count", [1, 2, 5])
@pytest.mark.parametrize("sender", [0, 1])
def test_tensors_go_both_ways_at_once(pair: list[Any], sender: int, count: int) -> None:
    sent = [pair[sender].echo.remote(torch.full((1000,), float(each))) for each in range(count)]
    back = [pair[1 - sender].echo.remote(torch.full((1000,), float(each))) for each in range(count)]
    one = [pair[1 - sender].same.remote(ref) for ref in sent]
    other = [pair[sender].same.remote(ref) for ref in back]
    for refs in (one, other):
        assert [each[0].item() for each in ray.get(refs)] == list(range(count))


@pytest.mark.parametrize("hops", [1, 2, 3, 6])
def test_a_tensor_goes_round(pair: list[Any], hops: int) -> None:
    ref = pair[0].echo.remote(torch.arange(4))
    for hop in range(hops):
        ref = pair[(hop + 1) % 2].echo.remote(ref)
    assert ray.get(ref, _use_object_store=True).tolist() == [0, 1, 2, 3]


@pytest.mark.parametrize("receiver", [0, 1])
@pytest.mark.parametrize("times", [2, 3])
def test_one_ref_for_several_arguments(pair: list[Any], receiver: int, times: int) -> None:
    ref = pair[0].echo.remote(torch.ones(3))
    assert ray.get(pair[receiver].add.remote(*[ref] * times)).tolist() == [times] * 3


def test_refs_of_two_actors_in_one_call(pair: list[Any]) -> None:
    here, second = (each.echo.remote(torch.ones(2)) for each in pair)
    assert ray.get(pair[0].add.remote(here, second)).tolist() == [2, 2]
    assert ray.get(pair[1].add.remote(here, second)).tolist() == [2, 2]


def test_the_actor_that_made_it_gets_the_very_same_tensor(pair: list[Any]) -> None:
    ref = pair[0].keep.remote(torch.ones(2))
    assert ray.get(pair[0].is_kept.remote(ref)) is True
    assert ray.get(pair[0].is_kept.remote(ref)) is True


def test_another_actor_gets_a_copy_each_time(pair: list[Any]) -> None:
    ref = pair[0].echo.remote(torch.ones(2))
    both = [pair[1].increment.remote(ref) for _ in range(2)]
    assert [each.tolist() for each in ray.get(both)] == [[2, 2], [2, 2]]


def test_going_back_and_elsewhere_is_worth_a_warning_once(pair: list[Any]) -> None:
    ref = pair[0].echo.remote(torch.ones(2))
    ray.get(ref, _use_object_store=True)
    with pytest.warns(UserWarning, match=r"RDT ObjectRef\(.+\)"):
        ray.get([pair[0].same.remote(ref), pair[1].same.remote(ref)])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        ray.get([pair[0].same.remote(ref), pair[1].same.remote(ref)])


@pytest.mark.parametrize("passed", [False, True])
def test_a_tensor_is_free_when_its_last_ref_has_gone(pair: list[Any], passed: bool) -> None:
    ref = pair[0].keep.remote(torch.ones(3))
    if passed:
        assert ray.get(pair[1].same.remote(ref)).tolist() == [1, 1, 1]
    written = pair[0].plus_one_when_free.remote()
    with pytest.raises(ray.exceptions.GetTimeoutError):
        ray.get(written, timeout=0.2)
    del ref
    gc.collect()
    assert ray.get(written, timeout=30).tolist() == [2, 2, 2]


def test_a_tensor_on_its_way_is_not_free(pair: list[Any]) -> None:
    received = []
    for _ in range(5):
        ref = pair[0].keep.remote(torch.ones(100_000))
        received.append(pair[1].same.remote(ref))
        del ref
        ray.get(pair[0].plus_one_when_free.remote())
    assert all(each.max().item() == each.min().item() == 1 for each in ray.get(received))


def test_waiting_for_a_tensor_that_stays_times_out(pair: list[Any]) -> None:
    ref = pair[0].keep.remote(torch.ones(1))
    with pytest.raises(TimeoutError, match="not freed from RDT object store after"):
        ray.get(pair[0].plus_one_when_free.remote(0.05))
    assert ray.get(pair[0].is_kept.remote(ref))


def test_a_tensor_that_was_never_kept_is_free(pair: list[Any]) -> None:
    assert ray.experimental.wait_tensor_freed(torch.ones(1), 0.01) is None


def test_a_result_by_a_transport_says_so(pair: list[Any]) -> None:
    assert pair[0].echo.remote(torch.ones(1)).tensor_transport() == "GLOO"
    assert pair[0].same.remote(1).tensor_transport() != "GLOO"


def test_the_driver_does_not_get_it_unless_it_says_how(pair: list[Any]) -> None:
    ref = pair[0].echo.remote(torch.ones(1))
    for _ in range(2):
        with pytest.raises(
            ValueError, match="ray.get is not allowed on RDT objects using the two-sided transport GLOO"
        ):
            ray.get(ref)
    assert ray.get([ref, ref], _use_object_store=True) == [torch.ones(1)] * 2


@pytest.mark.parametrize("value", [1, "text", [1, 2], {"a": (1, 2)}, None])
def test_the_object_store_may_be_asked_for_any_value(pair: list[Any], value: Any) -> None:
    assert ray.get(ray.put(value), _use_object_store=True) == value
    assert ray.get(pair[0].same.remote(value), _use_object_store=True) == value
    assert ray.get(pair[0].echo.remote(value), _use_object_store=True) == value


@pytest.mark.chosen_difference("a ref of a direct transport may be inside a value", id="D-tensor-transport")
def test_a_ref_inside_a_value_is_read_through_the_object_store(pair: list[Any]) -> None:
    ref = pair[0].echo.remote(torch.ones(2))
    ray.wait([ref])
    assert ray.get(pair[1].inside.remote([ref], True)).tolist() == [1, 1]
    with pytest.raises(ValueError, match="ray.get is not allowed on RDT objects"):
        ray.get(pair[1].inside.remote([ref], False))


def test_an_actor_in_no_group_cannot_send(pair: list[Any], loner: Any) -> None:
    with pytest.raises(ValueError, match="does not have tensor transport GLOO available"):
        loner.echo.remote(torch.ones(1))


def test_an_actor_in_no_group_cannot_receive(pair: list[Any], loner: Any) -> None:
    ref = pair[0].echo.remote(torch.ones(1))
    ray.get(ref, _use_object_store=True)
    with pytest.raises(ValueError, match="No communicators found for actors"):
        loner.same.remote(ref)


def test_an_actor_in_a_group_of_another_backend_cannot_send(pair: list[Any]) -> None:
    with pytest.raises(ValueError, match="does not have tensor transport NCCL available"):
        pair[0].echo.options(tensor_transport="nccl").remote(1)


def test_all_tensors_have_to_be_where_the_transport_reaches(pair: list[Any]) -> None:
    with pytest.raises(ValueError, match="does not support tensor transfer on device meta"):
        ray.get(pair[0].on_another_device.remote(), _use_object_store=True)
    with pytest.raises(ValueError, match="All tensors in an RDT object must have the same device type"):
        ray.get(pair[0].on_two_devices.remote(), _use_object_store=True)


def test_a_method_can_be_given_a_transport_when_the_class_allows_it(pair: list[Any]) -> None:
    class Plain:
        def make(self) -> Any:
            return torch.ones(2)

    allowed = ray.remote(num_cpus=0, enable_tensor_transport=True)(Plain).remote()
    refused = ray.remote(num_cpus=0)(Plain).remote()
    group = collective.create_collective_group([allowed, refused], "gloo")
    ref = allowed.make.options(tensor_transport="gloo").remote()
    assert ray.get(ref, _use_object_store=True).tolist() == [1, 1]
    words = 'methods with .options\\(tensor_transport="GLOO"\\) are not supported when enable_tensor_transport=False'
    with pytest.raises(ValueError, match=words):
        refused.make.options(tensor_transport="gloo").remote()
    collective.destroy_collective_group(group)


def test_a_class_cannot_name_a_transport_and_forbid_it(pair: list[Any]) -> None:
    with pytest.raises(ValueError, match="Actor class has methods with @ray.method\\(tensor_transport"):

        @ray.remote(enable_tensor_transport=False)
        class Contrary:
            @ray.method(tensor_transport="gloo")
            def make(self) -> None: ...

        Contrary.remote()


def test_a_group_that_is_gone_carries_nothing(pair: list[Any]) -> None:
    one, other = Worker.remote(), Worker.remote()
    group = collective.create_collective_group([one, other], "gloo")
    ref = one.echo.remote(torch.ones(2))
    ray.get(ref, _use_object_store=True)
    collective.destroy_collective_group(group)
    with pytest.raises(ValueError, match="does not have tensor transport GLOO available"):
        one.echo.remote(torch.ones(1))
    with pytest.raises(ValueError, match="No communicators found for actors"):
        other.same.remote(ref)
    assert ray.get(one.same.remote(ref)).tolist() == [1, 1]
    again = collective.create_collective_group([one, other], "gloo")
    assert ray.get(other.same.remote(ref)).tolist() == [1, 1]
    collective.destroy_collective_group(again)


def test_an_actor_that_died_before_it_sent(pair: list[Any]) -> None:
    one, other = Worker.remote(), Worker.remote()
    group = collective.create_collective_group([one, other], "gloo")
    ref = one.echo.remote(torch.ones(2))
    ray.get(ref, _use_object_store=True)
    ray.kill(one)
    with pytest.raises(ray.exceptions.RayActorError):
        ray.get(one.same.remote(1))
    # On Ray the receiver may be killed first, or say first that the connection broke.
    died = ray.exceptions.ActorDiedError
    with pytest.raises(died if ON_SKATE else (died, ray.exceptions.RayTaskError)):
        ray.get(other.same.remote(ref))
    with contextlib.suppress(ValueError):  # Ray destroys it by itself
        collective.destroy_collective_group(group)


@pytest.mark.parametrize("value", ["no ref of tensors", 5])
def test_targets_are_for_refs_of_tensors(pair: list[Any], value: Any) -> None:
    with pytest.raises(ValueError, match=r"Ref .* is not an RDT object"):
        ray.experimental.set_target_for_ref(ray.put(value), [])
    with pytest.raises(ValueError, match=r"Ref .* is not an RDT object"):
        ray.experimental.set_target_device_for_ref(ray.put(value), "cpu")


def test_a_transport_reaches_its_own_devices(pair: list[Any]) -> None:
    ref = pair[0].echo.remote(torch.ones(1))
    with pytest.raises(ValueError, match="GLOO does not support fetching onto target device cuda"):
        ray.experimental.set_target_device_for_ref(ref, "cuda")
