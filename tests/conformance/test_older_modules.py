"""Modules that programs import by name: cloudpickle, groups of actors, keys and values, a shuffle, and older names of others."""

from __future__ import annotations

import importlib
import pickle
import threading
from typing import Any

import pytest
import ray


@pytest.mark.parametrize(
    "name",
    [
        "ray.actor", "ray.client_builder", "ray.cloudpickle", "ray.cloudpickle.cloudpickle", "ray.cross_language",
        "ray.exceptions", "ray.experimental.dynamic_resources", "ray.experimental.internal_kv", "ray.experimental.locations",
        "ray.experimental.multiprocessing", "ray.experimental.queue", "ray.experimental.shuffle", "ray.experimental.state.api",
        "ray.experimental.state.common", "ray.experimental.tqdm_ray", "ray.experimental.util.types", "ray.internal",
        "ray.job_config", "ray.job_submission", "ray.remote_function", "ray.runtime_context", "ray.runtime_env.runtime_env",
        "ray.util.accelerators.accelerators", "ray.util.actor_group", "ray.util.actor_pool", "ray.util.annotations",
        "ray.util.check_serialize", "ray.util.client", "ray.util.common", "ray.util.debug", "ray.util.debugpy",
        "ray.util.helpers", "ray.util.iter", "ray.util.iter_metrics", "ray.util.joblib", "ray.util.metrics",
        "ray.util.multiprocessing.pool", "ray.util.placement_group", "ray.util.queue", "ray.util.rpdb",
        "ray.util.scheduling_strategies", "ray.util.serialization", "ray.util.serialization_addons", "ray.util.spark",
        "ray.util.state.api", "ray.util.state.exception", "ray.util.timer", "ray.util.tpu", "ray.util.tracing", "ray.widgets",
        "ray.widgets.render",
    ],
)  # fmt: skip
def test_there_is_a_module(name: str) -> None:
    assert importlib.import_module(name)


@pytest.mark.parametrize("name", ["xgboost", "lightgbm", "horovod", "sgd"])
def test_modules_that_were_taken_out_say_so(name: str) -> None:
    with pytest.raises(DeprecationWarning):
        importlib.import_module(f"ray.util.{name}")


@pytest.mark.parametrize(
    "name", ["CloudPickler", "Pickler", "dump", "dumps", "load", "loads", "register_pickle_by_value"]
)
def test_cloudpickle_has(name: str) -> None:
    assert callable(getattr(ray.cloudpickle, name))


def test_cloudpickle_packs_functions_by_value() -> None:
    from ray import cloudpickle

    base = 3
    packed = cloudpickle.dumps(lambda x: x + base)
    assert cloudpickle.loads(packed)(4) == 7
    assert pickle.loads(packed)(4) == 7


def test_cloudpickle_packs_refs_and_handles(cluster: None) -> None:
    @ray.remote(num_cpus=0)
    class Kept:
        def ping(self) -> str:
            return "pong"

    ref = ray.put([1, 2])
    actor = Kept.remote()
    again, handle = ray.cloudpickle.loads(ray.cloudpickle.dumps((ref, actor)))
    assert ray.get(again) == [1, 2]
    assert ray.get(handle.ping.remote()) == "pong"


def test_dumps_debug_names_the_culprit() -> None:
    with pytest.raises(TypeError, match=r"ray.cloudpickle.dumps\(.*\) failed"):
        ray.cloudpickle.dumps_debug({"lock": threading.Lock()})
    assert ray.cloudpickle.loads(ray.cloudpickle.dumps_debug([1])) == [1]


class Adder:
    def __init__(self, start: int = 0) -> None:
        self.total = start

    def get(self) -> int:
        return self.total

    def add(self, more: int) -> int:
        self.total += more
        return self.total


@pytest.fixture
def group(cluster: None) -> Any:
    from ray.util.actor_group import ActorGroup

    with pytest.warns(Warning, match="use ray.util.multiprocessing"):
        return ActorGroup(Adder, num_actors=2, num_cpus_per_actor=0, init_args=(3,))


def test_a_group_calls_all_its_actors(group: Any) -> None:
    assert len(group) == 2
    assert ray.get(group.get.remote()) == [3, 3]
    assert ray.get(group.add.remote(2)) == [5, 5]
    assert ray.get(group[0].actor.get.remote()) == 5
    assert group.actor_metadata == [None, None]


def test_a_method_of_a_group_is_not_called_directly(group: Any) -> None:
    with pytest.raises(TypeError, match="ActorGroup methods cannot be called directly"):
        group.get()


def test_a_group_grows_and_shrinks(group: Any) -> None:
    group.remove_actors([0])
    assert len(group) == 1
    group.add_actors(2)
    assert ray.get(group.get.remote()) == [3, 3, 3]


def test_a_group_starts_again_after_its_shutdown(group: Any) -> None:
    with pytest.raises(RuntimeError, match="The actors have already been started"):
        group.start()
    group.shutdown()
    assert len(group) == 0
    with pytest.raises(RuntimeError, match="This ActorGroup has been shutdown. Please start it again"):
        group.get.remote()
    group.start()
    assert ray.get(group.get.remote()) == [3, 3]


@pytest.mark.parametrize(
    ("given", "match"),
    [
        ({"num_actors": 0}, "The provided `num_actors` must be greater than 0. Received num_actors=0"),
        ({"num_actors": -1}, "greater than 0. Received num_actors=-1"),
        ({"num_cpus_per_actor": -1}, "The number of CPUs and GPUs per actor must not be negative"),
        ({"num_gpus_per_actor": -1}, "num_gpus_per_actor=-1"),
    ],
)
def test_a_group_refuses(cluster: None, given: dict[str, int], match: str) -> None:
    from ray.util.actor_group import ActorGroup

    with pytest.raises(ValueError, match=match), pytest.warns(Warning):
        ActorGroup(Adder, **given)


@pytest.fixture
def kept(cluster: None) -> Any:
    from ray.experimental import internal_kv

    yield internal_kv
    internal_kv._internal_kv_del("test-", del_by_prefix=True)


def test_keys_have_values(kept: Any) -> None:
    assert kept._internal_kv_initialized()
    assert kept._internal_kv_put("test-a", "1") is False
    assert kept._internal_kv_put(b"test-a", b"2") is True
    assert kept._internal_kv_get("test-a") == b"2"
    assert kept._internal_kv_exists("test-a") is True


def test_a_value_is_kept_unless_it_may_be_replaced(kept: Any) -> None:
    kept._internal_kv_put("test-b", "1")
    assert kept._internal_kv_put("test-b", "2", overwrite=False) is True
    assert kept._internal_kv_get("test-b") == b"1"


def test_a_key_without_a_value(kept: Any) -> None:
    assert kept._internal_kv_get("test-none") is None
    assert kept._internal_kv_exists("test-none") is False
    assert kept._internal_kv_del("test-none") == 0


def test_keys_are_listed_by_prefix(kept: Any) -> None:
    for key in ("test-c1", "test-c2", "test-d"):
        kept._internal_kv_put(key, "x")
    assert sorted(kept._internal_kv_list("test-c")) == [b"test-c1", b"test-c2"]
    assert kept._internal_kv_del("test-c", del_by_prefix=True) == 2
    assert kept._internal_kv_list("test-c") == []


def test_namespaces_keep_keys_apart(kept: Any) -> None:
    kept._internal_kv_put("test-e", "1", namespace="mine")
    assert kept._internal_kv_get("test-e") is None
    assert kept._internal_kv_get("test-e", namespace="mine") == b"1"
    assert kept._internal_kv_del("test-e", namespace=b"mine") == 1


def test_tasks_see_the_same_keys(kept: Any) -> None:
    @ray.remote
    def put_in_worker() -> Any:
        from ray.experimental import internal_kv

        internal_kv._internal_kv_put("test-f", "task")
        return internal_kv._internal_kv_get("test-g")

    kept._internal_kv_put("test-g", "driver")
    assert ray.get(put_in_worker.remote()) == b"driver"
    assert kept._internal_kv_get("test-f") == b"task"


@pytest.mark.parametrize("streaming", [True, False])
def test_a_shuffle_of_tasks(cluster: None, streaming: bool) -> None:
    from ray.experimental import shuffle

    def write(index: int, items: Any) -> list[int]:
        return sorted(ray.get(each) if isinstance(each, ray.ObjectRef) else each for each in items)

    found = shuffle.simple_shuffle(
        input_reader=lambda index: range(index * 4, index * 4 + 4),
        input_num_partitions=3,
        output_num_partitions=2,
        output_writer=write,
        object_store_writer=shuffle.ObjectStoreWriter if streaming else shuffle.ObjectStoreWriterNonStreaming,
        streaming=streaming,
    )
    assert found == [[0, 2, 4, 6, 8, 10], [1, 3, 5, 7, 9, 11]]


def test_a_timer_has_means() -> None:
    from ray.util.timer import _Timer

    timer = _Timer(window_size=2)
    assert (timer.mean, timer.mean_throughput, timer.count) == (0.0, 0.0, 0)
    for seconds in (1.0, 2.0, 4.0):
        timer.push(seconds)
        timer.push_units_processed(6)
    assert (timer.mean, timer.count) == (3.0, 3)
    assert timer.has_units_processed()
    assert timer.mean_units_processed == 6.0
    assert timer.mean_throughput == 2.0
    with timer:
        pass
    assert timer.count == 4


VERSIONS = [
    ("TPU-V4", "v4"),
    ("v5p", "v5p"),
    ("TPU-V6E", "v6e"),
    ("V5LITEPOD", "v5litepod"),
    ("TPU-V5LITEPOD", "v5litepod"),
    ("v7x", "v7x"),
]


@pytest.mark.parametrize(("name", "version"), VERSIONS)
def test_versions_of_tpus(name: str, version: str) -> None:
    from ray.util import tpu

    assert tpu.get_tpu_version_from_type(name) == version


@pytest.mark.parametrize("name", ["foo", "v2-8", "GPU"])
def test_what_is_no_tpu_is_refused(name: str) -> None:
    from ray.util import tpu

    with pytest.raises(ValueError, match=f"Invalid accelerator_type: {name}. Must be one of"):
        tpu.get_tpu_version_from_type(name)


WORKERS: list[tuple[tuple[Any, ...], tuple[int, dict[str, float]]]] = [
    (("2x2x2", "TPU-V4"), (2, {"CPU": 1, "TPU": 4})),
    (("4x4", "TPU-V6E"), (4, {"CPU": 1, "TPU": 4})),
    (("4x4", "TPU-V6E", {"TPU": 4}), (4, {"CPU": 1, "TPU": 4})),
    (("4x4", "TPU-V6E", {"TPU": 1}, 2), (32, {"CPU": 1, "TPU": 1})),
    (("4x4", "TPU-V6E", {"CPU": 1}), (4, {"CPU": 1, "TPU": 4})),
    (("2x2", "TPU-V6E"), (1, {"CPU": 1, "TPU": 4})),
    (("2x4", "TPU-V6E"), (1, {"CPU": 1, "TPU": 8})),
    (("1x1", "TPU-V6E"), (1, {"CPU": 1, "TPU": 1})),
]


@pytest.mark.parametrize(("given", "wanted"), WORKERS, ids=lambda value: str(value)[:40])
def test_workers_of_a_tpu_slice(given: tuple[Any, ...], wanted: tuple[int, dict[str, float]]) -> None:
    from ray.util import tpu

    assert tpu.get_tpu_worker_resources(*given) == wanted


def test_chips_that_cannot_be_dealt_are_refused() -> None:
    from ray.util import tpu

    with pytest.raises(ValueError, match="not divisible by TPUs requested per worker"):
        tpu.get_tpu_worker_resources("4x4", "TPU-V6E", {"TPU": 3})


SLICES: list[tuple[tuple[Any, ...], int]] = [
    (("4x4", "TPU-V6E", 4), 1),
    (("4x4", "TPU-V6E", 5), 2),
    (("4x4", "TPU-V6E", 8), 2),
    ((None, None, 9), 1),
    (("4x4", "TPU-V6E", 16, {"TPU": 1}), 1),
]


@pytest.mark.parametrize(("given", "wanted"), SLICES, ids=lambda value: str(value)[:40])
def test_slices_for_workers(given: tuple[Any, ...], wanted: int) -> None:
    from ray.util import tpu

    assert tpu.get_tpu_num_slices_for_workers(*given) == wanted


def test_what_programs_on_several_slices_are_told() -> None:
    from ray.util import tpu

    assert tpu.get_tpu_coordinator_env_vars("10.0.0.1", 2, 1) == {
        "MEGASCALE_COORDINATOR_ADDRESS": "10.0.0.1", "MEGASCALE_PORT": "8081",
        "MEGASCALE_NUM_SLICES": "2", "MEGASCALE_SLICE_ID": "1",
    }  # fmt: skip


def test_the_client_is_not_connected() -> None:
    client = importlib.import_module("ray.util.client")
    assert client.ray.is_connected() is False
    assert client.num_connected_contexts() == 0
