"""Trainers of a loop of one's own: Ray runs them where Train V2 is turned off."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import skate
from skate import air, tune
from skate.train.base_trainer import BaseTrainer, TrainingFailedError


class Counting(BaseTrainer):
    """Counts to three from its checkpoint, and fails at `metadata["fails_at"]`."""

    def setup(self) -> None:
        self.begun = True

    def training_loop(self) -> None:
        assert self.begun
        start = 0
        checkpoint = tune.get_checkpoint() or self.starting_checkpoint
        if checkpoint:
            with checkpoint.as_directory() as folder:
                start = json.loads(Path(folder, "count").read_text())
        for count in range(start + 1, 4):
            with tempfile.TemporaryDirectory() as folder:
                Path(folder, "count").write_text(json.dumps(count))
                tune.report(
                    {"count": count, "start": start}, checkpoint=tune.Checkpoint.from_directory(folder)
                )
            if count == (self.metadata or {}).get("fails_at"):
                raise ValueError("asked to fail")


@pytest.fixture(scope="module")
def session() -> Iterator[None]:
    skate.init(num_cpus=3)
    yield
    skate.shutdown()


@pytest.fixture
def run(tmp_path: Path, session: Any) -> Any:
    def made(name: str = "run", **given: Any) -> air.RunConfig:
        return air.RunConfig(name=name, storage_path=str(tmp_path), verbose=0, **given)

    return made


def test_a_loop_is_run(run: Any) -> None:
    result = Counting(run_config=run()).fit()
    assert result.metrics["count"] == 3
    assert result.error is None
    with result.checkpoint.as_directory() as folder:
        assert json.loads(Path(folder, "count").read_text()) == 3


def test_a_loop_that_fails_raises(run: Any) -> None:
    with pytest.raises(TrainingFailedError) as raised:
        Counting(run_config=run(), metadata={"fails_at": 2}).fit()
    assert "asked to fail" in str(raised.value.__cause__)


def test_a_run_that_has_failed_is_restored(run: Any, tmp_path: Path) -> None:
    assert not Counting.can_restore(str(tmp_path / "run"))
    with pytest.raises(TrainingFailedError):
        Counting(run_config=run(), metadata={"fails_at": 2}).fit()
    assert Counting.can_restore(str(tmp_path / "run"))
    restored = Counting.restore(str(tmp_path / "run"), metadata={})
    result = restored.fit()
    assert (result.metrics["count"], result.metrics["start"]) == (3, 2)


def test_a_failure_is_followed_by_another_start(run: Any) -> None:
    trainer = Counting(
        run_config=run(failure_config=air.FailureConfig(max_failures=1)), metadata={"fails_at": 2}
    )
    result = trainer.fit()
    assert (result.metrics["count"], result.metrics["start"]) == (3, 2)
