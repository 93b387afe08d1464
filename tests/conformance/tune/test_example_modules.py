"""The examples that programs import by name."""

from __future__ import annotations

import importlib
from typing import Any

import pytest

NAMES = [
    ("ray.tune.examples.tune_basic_example", "easy_objective"),
    ("ray.tune.examples.async_hyperband_example", "easy_objective"),
    ("ray.tune.examples.custom_func_checkpointing", "train_func"),
    ("ray.tune.examples.pbt_function", "pbt_function"),
]


@pytest.mark.parametrize(("module", "name"), NAMES)
def test_an_example_trains(fit: Any, cluster: Any, module: str, name: str) -> None:
    function = getattr(importlib.import_module(module), name)
    space = {"width": 10.0, "height": 10.0, "steps": 3, "lr": 0.001}
    found = fit(function, space, stop={"training_iteration": 3})
    assert not found.errors
    metrics = found[0].metrics
    assert metrics["training_iteration"] == 3
    assert "mean_loss" in metrics or "mean_accuracy" in metrics


def test_a_class_of_the_examples_is_trained(fit: Any, cluster: Any) -> None:
    from ray.tune.examples.pbt_example import PBTBenchmarkExample

    found = fit(PBTBenchmarkExample, {"lr": 0.001}, stop={"training_iteration": 3})
    assert not found.errors
    assert found[0].metrics["mean_accuracy"] >= 0
    assert found[0].metrics["cur_lr"] == 0.001
