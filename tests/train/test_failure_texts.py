"""Messages of failed runs: the user's frames and message, in a traceback and in one line."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

import skate as ray
from skate import train
from skate.exceptions import ActorDiedError
from skate.train import RunConfig, ScalingConfig
from skate.train.controller.failures import described, first_line
from skate.train.data_parallel_trainer import DataParallelTrainer


@pytest.fixture
def session() -> Iterator[None]:
    ray.init(num_cpus=2)
    yield
    ray.shutdown()


def deeper() -> None:
    raise ValueError("no such layer: 7")


def loop() -> None:
    train.report({"step": 0})
    if train.get_context().get_world_rank() == 1:
        deeper()
    train.report({"step": 1})


@pytest.mark.usefixtures("session")
def test_a_failed_run_shows_frames_of_the_user_alone(tmp_path: Path) -> None:
    with pytest.raises(train.WorkerGroupError) as caught:
        DataParallelTrainer(
            loop,
            scaling_config=ScalingConfig(num_workers=2),
            run_config=RunConfig(name="run", storage_path=str(tmp_path)),
        ).fit()
    first, *rest = str(caught.value).splitlines()
    assert first == "rank 1 of 2 failed first:"
    text = "\n".join(rest)
    assert "in deeper" in text
    assert "ValueError: no such layer: 7" in text
    assert "submitted at" not in text, "which would be a line of Skate's"
    waits = text.partition("rank 0 was still running:\n")[2]
    assert "in loop" in waits.splitlines()[0]
    assert "threading.py" not in text
    assert "calling.py" not in text
    cause = caught.value.__cause__
    assert isinstance(cause, ValueError)
    assert cause.__traceback__ is None, "which would be of the controller"
    shown = caught.traceback[-1]
    assert shown.path.name == "trainer.py", "and none of the controller's frames"


def test_a_failure_in_a_line() -> None:
    traceback = (
        'skate::f (pid=1)\n  submitted at x.py:1\n  File "a.py", line 1, in f\n    g()\nValueError: no\n'
    )
    assert first_line([(3, RuntimeError(traceback))]) == "rank 3: ValueError: no"
    died = ActorDiedError("it is dead\n  memory: 1 MiB\n  submitted at x.py:1")
    assert first_line([(0, died), (1, RuntimeError("later"))]) == "rank 0: it is dead"
    assert first_line([(0, RuntimeError(""))]) == "rank 0: RuntimeError('')"


def test_others_that_fail_are_told_in_a_line_each() -> None:
    text = described([(1, ValueError("first")), (0, OSError("second\nmore"))], {2: ""}, 3)
    assert text.splitlines() == [
        "rank 1 of 3 failed first:",
        "first",
        "rank 0 failed after it: second",
        "rank 2 was still running",
    ]
