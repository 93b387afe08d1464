"""Observation of ranks: their lines, which failed first, which is late and where it is."""

from __future__ import annotations

import os
import re
import signal
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from waiting import wait_for

import skate
from skate import train
from skate.train import FailureConfig, RunConfig, ScalingConfig
from skate.train.controller import controller
from skate.train.data_parallel_trainer import DataParallelTrainer

pytestmark = [pytest.mark.timeout(120), pytest.mark.usefixtures("session")]


@pytest.fixture(scope="module")
def session() -> Iterator[None]:
    skate.shutdown()
    skate.init(num_cpus=2)
    yield
    skate.shutdown()


def fit(function: Any, tmp_path: Path, **failure: Any) -> train.Result:
    return DataParallelTrainer(
        function,
        train_loop_config={"at": str(tmp_path)},
        scaling_config=ScalingConfig(num_workers=2),
        run_config=RunConfig(name="run", storage_path=str(tmp_path), failure_config=FailureConfig(**failure)),
    ).fit()


def test_every_line_of_a_worker_carries_its_rank(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    def loop(config: dict[str, Any]) -> None:
        rank = train.get_context().get_world_rank()
        print(f"out of {rank}")
        print(f"err of {rank}", file=sys.stderr, flush=True)
        os.system(f"echo child of {rank}")

    fit(loop, tmp_path)
    printed: list[str] = []

    def complete() -> str:
        printed.extend(capfd.readouterr())
        text = "".join(printed)
        return text if text.count(" of ") == 6 else ""

    text = wait_for(complete, 10, "six lines")
    for rank in range(2):
        for what in ("out", "err", "child"):
            assert re.search(rf"^\(TrainWorker rank={rank} pid=\d+\) {what} of {rank}$", text, re.M), text


@pytest.mark.parametrize("first", [0, 1])
def test_the_first_rank_to_fail_is_the_error_of_the_run(first: int, tmp_path: Path) -> None:
    def loop(config: dict[str, Any]) -> None:
        rank = train.get_context().get_world_rank()
        if rank == first:
            Path(config["at"], "failed").touch()
            raise KeyError("the cause")
        wait_for(Path(config["at"], "failed").exists, 30, "the failure of the other")
        raise RuntimeError("[gloo] Connection closed by peer")

    with pytest.raises(train.WorkerGroupError) as caught:
        fit(loop, tmp_path)
    assert next(iter(caught.value.worker_failures)) == first
    text = str(caught.value)
    assert text.startswith(f"rank {first} of 2 failed first:") and "the cause" in text
    if 1 - first in caught.value.worker_failures:
        assert text.index("the cause") < text.index(f"rank {1 - first} failed after it")
    else:
        assert f"rank {1 - first} was still running" in text
    assert isinstance(caught.value.__cause__, KeyError)


def test_a_killed_rank_is_named_with_the_signal(tmp_path: Path) -> None:
    def loop(config: dict[str, Any]) -> None:
        if train.get_context().get_world_rank() == 1:
            os.kill(os.getpid(), signal.SIGKILL)
        threading.Event().wait(60)

    with pytest.raises(train.WorkerGroupError, match=r"rank 1 of 2 failed first") as caught:
        fit(loop, tmp_path)
    assert "SIGKILL" in str(caught.value)
    assert "rank 0 was still running" in str(caught.value) and "in loop" in str(caught.value)


def sleep_well(path: str) -> None:
    wait_for(Path(path).exists, 60, "the test")


def late(config: dict[str, Any]) -> None:
    if train.get_context().get_world_rank() == 1:
        sleep_well(f"{config['at']}/wake")
    train.report({"a": 1})


def test_a_late_rank_is_named_with_its_stack(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(controller, "LATE_SECONDS", 0.3)
    printed: list[str] = []

    def late_rank_named() -> bool:
        printed.append(capfd.readouterr().err)
        return "in sleep_well" in "".join(printed)

    def watch() -> None:
        try:
            wait_for(late_rank_named, 30, "the late rank to be named")
        finally:
            (tmp_path / "wake").touch()

    watcher = threading.Thread(target=watch)
    watcher.start()
    assert fit(late, tmp_path).metrics == {"a": 1}
    watcher.join()
    text = "".join(printed)
    assert re.search(r"skate\.train: rank 0 has waited \d+ s in report\(\) number 1 for rank 1", text), text
    assert text.count("rank 1 is at") == 1, "it is told once"


def test_a_rank_that_never_comes_fails_the_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(controller, "LATE_SECONDS", 0.2)
    monkeypatch.setattr(controller, "HUNG_SECONDS", 0.4)
    with pytest.raises(train.WorkerGroupError, match="rank 1 of 2 failed first") as caught:
        fit(late, tmp_path)
    assert isinstance(caught.value.worker_failures[1], TimeoutError)
    assert "in sleep_well" in str(caught.value)
