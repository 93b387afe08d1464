"""Trainers of a loop of one's own."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from ray.train.base_trainer import BaseTrainer

pytestmark = pytest.mark.filterwarnings("ignore")


class Counting(BaseTrainer):
    def training_loop(self) -> None:
        """Do nothing."""


@pytest.mark.parametrize("name", ["scaling_config", "run_config", "datasets"])
@pytest.mark.parametrize("value", ["invalid", True])
def test_an_argument_of_a_wrong_kind_is_refused(name: str, value: Any) -> None:
    given: dict[str, Any] = {name: value}
    with pytest.raises(ValueError, match=f"`{name}` should be"):
        Counting(**given)


def test_a_dataset_of_a_wrong_kind_is_refused() -> None:
    with pytest.raises(ValueError, match="Dataset under"):
        Counting(datasets={"train": "invalid"})


def test_a_trainer_without_a_loop_cannot_be_made() -> None:
    with pytest.raises(TypeError, match="abstract"):
        BaseTrainer()  # type: ignore[abstract]


def test_a_path_without_a_run_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="Invalid restore path|should be a"):
        Counting.restore(str(tmp_path))
