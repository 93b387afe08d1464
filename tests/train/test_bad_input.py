"""Invalid input, and its messages as a first-time reader sees them."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import skate
from skate import train
from skate.train import Checkpoint, RunConfig, ScalingConfig
from skate.train.data_parallel_trainer import DataParallelTrainer

pytestmark = [pytest.mark.timeout(60), pytest.mark.usefixtures("session")]


@pytest.fixture(scope="module")
def session() -> Iterator[None]:
    skate.shutdown()
    skate.init(num_cpus=2)
    yield
    skate.shutdown()


def fit(function: Any, tmp_path: Path, scaling: ScalingConfig | None = None, **given: Any) -> train.Result:
    storage = given.pop("storage", str(tmp_path / "storage"))
    return DataParallelTrainer(
        function,
        scaling_config=scaling or ScalingConfig(num_workers=1),
        run_config=RunConfig(name="run", storage_path=storage, **given.pop("run", {})),
        **given,
    ).fit()


def failure_of(function: Any, tmp_path: Path, **given: Any) -> Exception:
    """The failure of the single rank."""
    with pytest.raises(train.WorkerGroupError) as caught:
        fit(function, tmp_path, **given)
    found: Exception = caught.value.worker_failures[0]
    return found


def idle() -> None:
    """Train nothing."""


def test_more_workers_than_there_is_room_for(tmp_path: Path) -> None:
    began = time.perf_counter()
    with pytest.raises(ValueError) as caught:
        fit(idle, tmp_path, ScalingConfig(num_workers=3, resources_per_worker={"CPU": 1, "special": 0.5}))
    assert time.perf_counter() - began < 1, "at once"
    assert str(caught.value) == (
        "3 workers with 1 CPU, 0.5 special each were requested (3 CPU, 1.5 special in all), but the cluster has 2 CPU, 0 special "
        "on 1 node: room for 0 workers; no node has 0.5 special; add the resource to nodes, "
        "for example with init(resources={'special': 0.5})"
    )
    with pytest.raises(ValueError) as caught:
        fit(idle, tmp_path, ScalingConfig(num_workers=3))
    assert str(caught.value) == (
        "3 workers with 1 CPU each were requested (3 CPU in all), but the cluster has 2 CPU on 1 node: room for 2 workers; "
        "lower num_workers or resources_per_worker, or start a larger session"
    )


def test_gpus_where_there_are_none(tmp_path: Path) -> None:
    with pytest.raises(ValueError) as caught:
        fit(idle, tmp_path, ScalingConfig(num_workers=1, use_gpu=True))
    assert str(caught.value) == (
        "1 worker with 1 GPU each was requested (1 GPU in all), but the cluster has 0 GPU on 1 node: room for 0 workers; "
        "no node has 1 GPU; on a machine without GPUs leave use_gpu=False"
    )


def test_an_accelerator_that_no_node_has(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"no node has .*accelerator_type:H100"):
        fit(idle, tmp_path, ScalingConfig(num_workers=1, accelerator_type="H100"))


def test_a_loop_with_two_arguments() -> None:
    def loop(config: Any, rank: int) -> None: ...

    with pytest.raises(ValueError) as caught:
        DataParallelTrainer(loop)
    assert str(caught.value).startswith(
        "train_loop_per_worker should take in 0 or 1 required arguments, the config: "
    )
    assert str(caught.value).endswith("needs 2: pass the values in train_loop_config={...}")


def test_a_loop_that_is_none() -> None:
    with pytest.raises(TypeError) as caught:
        DataParallelTrainer("train.py")  # type: ignore[arg-type]
    assert str(caught.value) == (
        "train_loop_per_worker must be a training function, which every worker calls, not str"
    )


def test_a_loop_with_a_keyword_that_is_needed() -> None:
    def loop(config: Any, *, rank: int) -> None: ...

    with pytest.raises(ValueError, match=r"needs the keyword 'rank', which is not passed"):
        DataParallelTrainer(loop)


def test_a_checkpoint_that_is_not_there(tmp_path: Path) -> None:
    def loop() -> None:
        train.report({"a": 1}, checkpoint=Checkpoint("/nowhere/at/all"))

    failure = failure_of(loop, tmp_path)
    assert isinstance(failure, FileNotFoundError)
    assert "there is no checkpoint at /nowhere/at/all; it was deleted or never written" in str(failure)


def test_a_path_in_the_place_of_a_checkpoint(tmp_path: Path) -> None:
    def loop() -> None:
        train.report({"a": 1}, checkpoint="/tmp/model")  # type: ignore[arg-type]

    failure = failure_of(loop, tmp_path)
    assert isinstance(failure, TypeError)
    assert (
        "checkpoint must be a ray.train.Checkpoint, got str; create one from a folder: Checkpoint.from_directory(folder)"
        in str(failure)
    )


def test_resuming_from_a_checkpoint_that_is_given() -> None:
    with pytest.raises(DeprecationWarning, match=r"is deprecated: .*train_loop_config"):
        DataParallelTrainer(idle, resume_from_checkpoint=Checkpoint("/tmp/model"))


@pytest.mark.parametrize(
    ("metrics", "words"),
    [
        (3, "metrics must be a dict of names to values, such as {'loss': 0.5}, got int"),
        ({1: 2}, "names of metrics must be strings, got 1 (int)"),
        (
            {"a": {"b": {1, 2}}},
            "metric 'a/b' is a set ({1, 2}), which a report cannot contain; report numbers",
        ),
        ({"model": idle}, "metric 'model' is a function"),
    ],
)
def test_metrics_that_json_cannot_hold(metrics: Any, words: str, tmp_path: Path) -> None:
    def loop() -> None:
        train.report(metrics)

    failure = failure_of(loop, tmp_path)
    assert isinstance(failure, TypeError)
    assert words in str(failure)


@pytest.mark.parametrize(
    ("ask", "name"),
    [
        (lambda: train.report({}), "report()"),
        (train.get_context, "get_context()"),
        (train.get_checkpoint, "get_checkpoint()"),
        (train.get_dataset_shard, "get_dataset_shard()"),
        (train.get_all_reported_checkpoints, "get_all_reported_checkpoints()"),
        (train.get_preemption_info, "get_preemption_info()"),
        (lambda: train.collective.barrier(), "collective.barrier()"),
        (lambda: train.collective.broadcast_from_rank_zero(1), "collective.broadcast_from_rank_zero()"),
    ],
)
def test_what_belongs_into_the_training_function(ask: Any, name: str) -> None:
    with pytest.raises(RuntimeError) as caught:
        ask()
    assert str(caught.value) == (
        f"`{name.rpartition('.')[2][:-2]}` cannot be used outside of a Ray Train training function: "
        f"call ray.train.{name} in the function that "
        "TorchTrainer(train_loop_per_worker=...) runs in each worker, not in the program that calls fit()"
    )


def test_a_local_storage_path_on_several_machines(tmp_path: Path) -> None:
    """A path that is another folder in the worker: its working directory is another, as on another machine."""
    (tmp_path / "elsewhere").mkdir()

    def loop() -> None:
        os.makedirs("checkpoint", exist_ok=True)
        train.report({"a": 1}, checkpoint=Checkpoint.from_directory("checkpoint"))

    here = os.getcwd()
    os.chdir(tmp_path)
    try:
        failure = failure_of(
            loop,
            tmp_path,
            storage="/proc/self/cwd/storage",
            run={"worker_runtime_env": {"working_dir": str(tmp_path / "elsewhere")}},
        )
    finally:
        os.chdir(here)
    assert isinstance(failure, OSError)
    assert "the run's folder /proc/self/cwd/storage/run does not exist on" in str(failure)
    assert "a local storage_path is another folder on each machine" in str(failure)
    assert "s3://bucket/folder" in str(failure)


def test_a_run_that_another_program_has_taken_over(tmp_path: Path) -> None:
    def loop(config: dict[str, Any]) -> None:
        Path(config["run"], ".owner").write_text("another")
        folder = Path(config["run"]).parent / "made"
        folder.mkdir()
        train.report({"a": 1}, checkpoint=Checkpoint.from_directory(folder))

    failure = failure_of(loop, tmp_path, train_loop_config={"run": str(tmp_path / "storage" / "run")})
    assert "was taken over: another program has called fit() with the same name" in str(failure)


def test_a_storage_path_that_nobody_knows() -> None:
    with pytest.raises(ValueError, match=r"no filesystem is known for 'nothing://a/b'"):
        fit(idle, Path(), storage="nothing://a/b")


def test_a_storage_path_that_is_a_file(tmp_path: Path) -> None:
    (tmp_path / "storage").write_text("")
    with pytest.raises(OSError, match="storage"):
        fit(idle, tmp_path)


def test_settings_that_are_something_else() -> None:
    with pytest.raises(ValueError, match=r"Invalid `ScalingConfig` type: <class 'int'>.*got 2"):
        DataParallelTrainer(idle, scaling_config=2)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match=r"Invalid `RunConfig` type: <class 'dict'>"):
        DataParallelTrainer(idle, run_config={"name": "a"})  # type: ignore[arg-type]
    with pytest.raises(TypeError, match=r"datasets must be a dict, not list"):
        DataParallelTrainer(idle, datasets=[1])  # type: ignore[arg-type]


def test_a_dataset_that_was_not_given(tmp_path: Path) -> None:
    failure = failure_of(lambda: train.get_dataset_shard("test"), tmp_path)
    assert isinstance(failure, KeyError)
    assert "Dataset shard for 'test' not found. The trainer was given datasets={...} of: none" in str(failure)


def test_a_function_that_cannot_be_sent(tmp_path: Path) -> None:
    import threading

    lock = threading.Lock()

    def loop() -> None:
        with lock:
            pass

    with pytest.raises(TypeError, match=r"lock"):
        fit(loop, tmp_path)
