"""Transports of tensors that a program brings along: one that needs only the reader, through files."""

from __future__ import annotations

import gc
import os
import pickle
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
import ray
import torch
from waiting import wait_for

ON_SKATE = os.environ.get("SKATE_CONFORMANCE_TARGET", "skate") == "skate"


@pytest.fixture(scope="module")
def session() -> Iterator[None]:
    ray.shutdown()
    elsewhere = {} if ON_SKATE else {"address": "local"}
    ray.init(num_cpus=2, num_gpus=0, include_dashboard=False, log_to_driver=False, **elsewhere)
    yield
    ray.shutdown()


def file_transport(name: str, folder: str, device: str = "cpu") -> type:
    """A class that carries arrays through files; it is made here so that it travels by value."""

    class FileTransport(ray.experimental.TensorTransportManager):
        def tensor_transport_backend(self) -> str:
            return name

        @staticmethod
        def is_one_sided() -> bool:
            return True

        @staticmethod
        def can_abort_transport() -> bool:
            return False

        def actor_has_tensor_transport(self, actor: Any) -> bool:
            return True

        def extract_tensor_transport_metadata(self, obj_id: str, rdt_object: list[Any]) -> Any:
            with open(os.path.join(folder, obj_id), "wb") as file:
                pickle.dump(rdt_object, file)
            described = [(each.shape, each.dtype) for each in rdt_object]
            return ray.experimental.TensorTransportMetadata(described, device)

        def get_communicator_metadata(self, src_actor: Any, dst_actor: Any, backend: Any = None) -> Any:
            return ray.experimental.CommunicatorMetadata()

        def recv_multiple_tensors(
            self, obj_id: str, meta: Any, communicator: Any, target_buffers: Any = None
        ) -> Any:
            with open(os.path.join(folder, obj_id), "rb") as file:
                found = pickle.load(file)
            for buffer, each in zip(target_buffers or (), found, strict=False):
                buffer[...] = each
            return target_buffers or found

        def send_multiple_tensors(self, tensors: Any, meta: Any, communicator: Any) -> None:
            raise NotImplementedError

        def garbage_collect(self, obj_id: str, meta: Any, tensors: Any) -> None:
            os.unlink(os.path.join(folder, obj_id))

        def abort_transport(self, obj_id: str, communicator: Any) -> None: ...

    return FileTransport


@pytest.fixture(scope="module")
def folder(session: None, tmp_path_factory: pytest.TempPathFactory) -> str:
    """Where the transport `files` puts arrays."""
    made = str(tmp_path_factory.mktemp("arrays"))
    for name, device, kind in (
        ("files", "cpu", np.ndarray),
        ("wrong", "elsewhere", np.ndarray),
        ("tensors", "cpu", torch.Tensor),
    ):
        ray.experimental.register_tensor_transport(name, ["cpu"], file_transport(name, made, device), kind)
    return made


@pytest.fixture(scope="module")
def filers(folder: str) -> list[Any]:
    """Two actors that use it."""

    @ray.remote(num_cpus=0)
    class Filer:
        @ray.method(tensor_transport="files")
        def echo(self, value: Any) -> Any:
            return value

        @ray.method(tensor_transport="wrong")
        def wrong(self) -> Any:
            return np.ones(2)

        def plain(self, value: Any) -> Any:
            return value

        def total(self, value: Any) -> Any:
            return value.sum().item()

        def put(self) -> Any:
            return [ray.put(np.arange(3), _tensor_transport="files")]

        @ray.method(tensor_transport="tensors")
        def tensors(self, value: Any) -> Any:
            return value

        def into(self, refs: list[Any]) -> Any:
            target = torch.zeros(3)
            ray.experimental.set_target_for_ref(refs[0], [target])
            got = ray.get(refs[0])
            return got is target, target.tolist()

    return [Filer.remote() for _ in range(2)]


@pytest.mark.parametrize("receiver", [0, 1])
@pytest.mark.parametrize("size", [1, 10, 100_000])
def test_arrays_go_by_a_transport_of_the_users(filers: list[Any], size: int, receiver: int) -> None:
    ref = filers[0].echo.remote(np.arange(size))
    assert ray.get(filers[receiver].total.remote(ref)) == sum(range(size))


@pytest.mark.parametrize("through", [False, True])
def test_the_driver_reads_by_a_transport_with_one_side(filers: list[Any], through: bool) -> None:
    ref = filers[0].echo.remote([np.arange(3), "and", 5])
    array, word, number = ray.get(ref, _use_object_store=through)
    assert (array.tolist(), word, number) == ([0, 1, 2], "and", 5)


def test_methods_without_a_transport_return_arrays_as_ever(filers: list[Any]) -> None:
    ref = filers[0].plain.remote(np.arange(3))
    assert ray.get(filers[1].total.remote(ref)) == 3
    assert ray.get(ref).tolist() == [0, 1, 2]


def test_the_transport_is_told_when_the_last_ref_has_gone(folder: str, filers: list[Any]) -> None:
    gc.collect()
    wait_for(lambda: not os.listdir(folder))
    ref = filers[0].echo.remote(np.arange(3))
    assert ray.get(ref).tolist() == [0, 1, 2]
    assert os.listdir(folder) == [ref.hex()]
    del ref
    gc.collect()
    wait_for(lambda: not os.listdir(folder))


def test_a_driver_puts_what_others_read(folder: str, filers: list[Any]) -> None:
    ref = ray.put(np.arange(4), _tensor_transport="files")
    assert ray.get(ref).tolist() == [0, 1, 2, 3]
    assert ray.get(filers[0].total.remote(ref)) == 6
    with pytest.raises(
        ValueError, match="_use_object_store=True is not supported for RDT objects created by the driver"
    ):
        ray.get(ref, _use_object_store=True)


def test_an_actor_puts_what_the_driver_reads(filers: list[Any]) -> None:
    (ref,) = ray.get(filers[0].put.remote())
    assert ray.get(ref).tolist() == [0, 1, 2]


def test_a_value_is_received_into_a_tensor(filers: list[Any]) -> None:
    ref = filers[0].tensors.remote(torch.arange(3.0))
    target = torch.zeros(3)
    ray.experimental.set_target_for_ref(ref, [target])
    assert ray.get(ref) is target
    assert target.tolist() == [0, 1, 2]


def test_an_actor_receives_into_a_tensor_of_its_own(filers: list[Any]) -> None:
    ref = filers[0].tensors.remote(torch.arange(3.0))
    assert ray.get(ref).tolist() == [0, 1, 2]
    assert ray.get(filers[1].into.remote([ref])) == (True, [0, 1, 2])


def test_a_target_that_has_gone_is_passed_over(filers: list[Any]) -> None:
    ref = filers[0].tensors.remote(torch.arange(3.0))
    ray.experimental.set_target_for_ref(ref, [torch.zeros(3)])
    gc.collect()
    assert ray.get(ref).tolist() == [0, 1, 2]


def test_a_device_takes_the_place_of_targets(filers: list[Any]) -> None:
    ref = filers[0].tensors.remote(torch.arange(3.0))
    target = torch.zeros(4)
    ray.experimental.set_target_for_ref(ref, [target])
    ray.experimental.set_target_device_for_ref(ref, "cpu")
    assert ray.get(ref).tolist() == [0, 1, 2]
    assert target.tolist() == [0] * 4


@pytest.mark.parametrize(
    ("targets", "words"),
    [
        (
            [torch.zeros(3)] * 2,
            r"Length of tensor_buffers \(2\) does not match length from object metadata \(1\)",
        ),
        (
            [torch.zeros(4)],
            r"Shape of tensor_buffer at index 0 \(.*\) does not match shape from object metadata",
        ),
        (
            [torch.zeros(3).int()],
            r"Dtype of tensor_buffer at index 0 \(torch.int32\) does not match dtype from",
        ),
        ([torch.zeros(6)[::2]], "Tensor buffer at index 0 is not contiguous"),
    ],
)
def test_targets_have_to_fit(filers: list[Any], targets: list[Any], words: str) -> None:
    ref = filers[0].tensors.remote(torch.arange(3.0))
    ray.experimental.set_target_for_ref(ref, targets)
    with pytest.raises(ValueError, match=words):
        ray.get(ref)


def test_a_transport_says_on_which_device_arrays_are(filers: list[Any]) -> None:
    with pytest.raises(ValueError, match="does not support tensor transfer on device elsewhere"):
        ray.get(filers[0].wrong.remote())


@pytest.mark.parametrize("name", ["gloo", "GLOO", "nccl", "files", "Files"])
def test_a_name_is_registered_once(folder: str, name: str) -> None:
    with pytest.raises(ValueError, match=f"Transport {name.upper()} already registered"):
        ray.experimental.register_tensor_transport(name, ["cpu"], file_transport(name, folder), np.ndarray)


@pytest.mark.parametrize("cls", [int, object])
def test_a_transport_is_a_tensor_transport_manager(folder: str, cls: type) -> None:
    with pytest.raises(
        ValueError,
        match=f"transport_manager_class {cls.__name__} must be a subclass of TensorTransportManager",
    ):
        ray.experimental.register_tensor_transport("another", ["cpu"], cls, np.ndarray)


@pytest.mark.parametrize(
    "name",
    [
        "tensor_transport_backend", "is_one_sided", "can_abort_transport", "actor_has_tensor_transport",
        "extract_tensor_transport_metadata", "get_communicator_metadata", "recv_multiple_tensors", "send_multiple_tensors",
        "garbage_collect", "abort_transport",
    ],
)  # fmt: skip
def test_a_transport_has_to_say_all(name: str) -> None:
    assert name in ray.experimental.TensorTransportManager.__abstractmethods__
    with pytest.raises(TypeError, match="abstract"):
        ray.experimental.TensorTransportManager()
