"""The rest of ray.util: iterating over refs, serialization aids, addresses."""

from __future__ import annotations

import io
import ipaddress
import threading
from typing import Any

import pytest
import ray
from ray.util import as_completed, inspect_serializability, map_unordered
from waiting import Gate

pytestmark = pytest.mark.usefixtures("cluster")


def gated_task() -> Any:
    @ray.remote(num_cpus=0.5)
    def gated(value: int, gates: dict[int, Gate]) -> int:
        if value in gates:
            gates[value].wait()
        return value

    return gated


def test_util_as_completed_yields_what_is_done_first(gate: Any) -> None:
    go = gate("go")
    gated = gated_task()
    results = as_completed([gated.remote(n, {0: go}) for n in range(3)], chunk_size=1)
    first = [next(results), next(results)]
    go.open()
    assert sorted(first) == [1, 2]
    assert list(results) == [0]


def test_util_as_completed_yields_refs() -> None:
    refs = [ray.put(n) for n in range(3)]
    assert set(as_completed(refs, yield_obj_refs=True)) == set(refs)


def test_util_as_completed_of_nothing() -> None:
    assert list(as_completed([])) == []


def test_util_as_completed_raises_the_error_of_a_task() -> None:
    @ray.remote
    def fail() -> None:
        raise KeyError("gone")

    with pytest.raises(KeyError, match="gone"):
        list(as_completed([fail.remote()]))


def test_util_map_unordered() -> None:
    @ray.remote
    def square(n: int) -> int:
        return n * n

    assert sorted(map_unordered(square, range(20), backpressure_size=4)) == [n * n for n in range(20)]


def test_util_map_unordered_asks_for_an_item_only_when_there_is_room(tally: Any) -> None:
    finished = tally("finished")
    finished_at_request: list[int] = []

    @ray.remote(num_cpus=0)
    def work(n: int) -> int:
        finished.add()
        return n

    def items() -> Any:
        for n in range(5):
            finished_at_request.append(finished.count())
            yield n

    assert sorted(map_unordered(work, items(), backpressure_size=2, chunk_size=1)) == [0, 1, 2, 3, 4]
    assert all(done >= n - 1 for n, done in enumerate(finished_at_request))


def test_util_inspect_serializability_of_a_good_value() -> None:
    assert inspect_serializability({"a": [1, 2]}, print_file=io.StringIO()) == (True, set())


def test_util_inspect_serializability_names_the_culprit() -> None:
    lock = threading.Lock()

    def uses() -> Any:
        return lock

    printed = io.StringIO()
    good, failures = inspect_serializability(uses, name="uses", print_file=printed)
    assert good is False
    (failure,) = failures
    assert failure.obj is lock
    assert failure.parent is uses
    assert tuple(failure.path)[-1] == "lock"
    assert "lock" in printed.getvalue()


def test_util_inspect_serializability_prints_by_default(capsys: pytest.CaptureFixture[str]) -> None:
    inspect_serializability(5)
    assert "5" in capsys.readouterr().out


def test_util_register_serializer() -> None:
    class Handle:
        def __init__(self, number: int) -> None:
            self.number = number
            self.lock = threading.Lock()

    ray.util.register_serializer(
        Handle, serializer=lambda handle: handle.number, deserializer=lambda number: Handle(number + 1)
    )
    assert ray.get(ray.put(Handle(5))).number == 6

    @ray.remote
    def read(handle: Handle) -> int:
        return handle.number

    assert ray.get(read.remote(Handle(1))) >= 2
    ray.util.deregister_serializer(Handle)
    with pytest.raises(TypeError):
        ray.put(Handle(5))


def test_util_node_ip_address() -> None:
    address = ray.util.get_node_ip_address()
    ipaddress.ip_address(address)
    assert address == ray.nodes()[0]["NodeManagerAddress"]


def test_util_log_once_is_true_once() -> None:
    assert ray.util.log_once("conformance-key") is True
    assert ray.util.log_once("conformance-key") is False
    assert ray.util.log_once("conformance-other") is True


@pytest.mark.parametrize("name", ["NVIDIA_TESLA_V100", "NVIDIA_H100", "NVIDIA_TESLA_A100"])
@pytest.mark.filterwarnings("ignore:.*is deprecated")
def test_util_accelerator_constants_are_strings(name: str) -> None:
    assert isinstance(getattr(ray.util.accelerators, name), str)
