"""The logger of values: ways to reduce, windows, shipping from runners to the root."""

from __future__ import annotations

import math
import pickle
from typing import Any

import numpy as np
import pytest

from skate.rllib.utils.metrics.logged_values import Deferred
from skate.rllib.utils.metrics.metrics_logger import MetricsLogger


def test_each_way_to_reduce() -> None:
    logger = MetricsLogger()
    for value in (4.0, 1.0, 7.0):
        for way in ("mean", "min", "max", "sum", "lifetime_sum", "item", "item_series"):
            logger.log_value(("group", way), value, reduce=way)
        logger.log_value("percentiles", value, reduce="percentiles", percentiles=[0, 50, 100])
        logger.log_value("ema", value, ema_coeff=0.5)
        logger.log_value("windowed", value, window=2)
    assert logger.peek("group") == {
        "mean": 4.0, "min": 1.0, "max": 7.0, "sum": 12.0, "lifetime_sum": 12.0, "item": 7.0, "item_series": [4.0, 1.0, 7.0],
    }  # fmt: skip
    assert logger.peek("percentiles") == {0: 1.0, 50: 4.0, 100: 7.0}
    assert logger.peek("ema") == pytest.approx(0.5 * 7 + 0.5 * (0.5 * 1 + 0.5 * 4))
    assert logger.peek("windowed") == 4.0
    assert ("group", "sum") in logger and "absent" not in logger


@pytest.mark.parametrize("value", [3, 2.5, True, math.nan, 2**60, np.float32(0.1)], ids=repr)
@pytest.mark.parametrize("way", ["mean", "min", "max", "sum"])
def test_a_single_value_is_reduced_as_numpy_does(way: str, value: Any) -> None:
    logger = MetricsLogger()
    logger.log_value("one", value, reduce=way)
    logger.log_value("twice", value, reduce=way)
    logger.log_value("twice", math.nan, reduce=way)  # which does not count, but makes an array of it
    found, general = logger.peek("one"), logger.peek("twice")
    assert found == general or (math.isnan(found) and math.isnan(general))
    expected = getattr(np, way)([value])
    assert math.isnan(value) or (found == expected and type(found) is type(expected.item()))


def test_runners_ship_only_what_is_new() -> None:
    root, runners = MetricsLogger(root=True), [MetricsLogger(), MetricsLogger()]
    for round_number in range(3):
        for index, runner in enumerate(runners):
            runner.log_value("steps", 10 + index, reduce="sum")
            runner.log_value("steps_lifetime", 10 + index, reduce="lifetime_sum")
            runner.log_value("returns", 100 * round_number + index, window=4)
        root.aggregate([runner.reduce() for runner in runners], key="env_runners")
        result = root.reduce(compile=True)["env_runners"]
        assert result["steps"] == 21
        assert result["steps_lifetime"] == 21 * (round_number + 1)
    assert result["returns"] == np.mean([100, 101, 200, 201]), "a window at the root spans rounds"


def test_a_logger_of_this_process_is_absorbed_as_it_would_be_aggregated() -> None:
    results = []
    for absorbs in (True, False):
        root, runner = MetricsLogger(root=True), MetricsLogger()
        for number in range(7):
            for way in ("mean", "min", "max", "sum", "lifetime_sum", "ema", "item", "item_series"):
                runner.log_value(("group", way), float(number % 4), reduce=way)
            runner.log_value("percentiles", number, reduce="percentiles")
            runner.log_value("newest", Deferred(lambda at=number: at), window=1)
            runner.log_value("values", np.float64(number), window=3)
            if number != 3:
                runner.log_value("at times", number, reduce="mean")
            if absorbs:
                root.absorb(runner, key="env_runners")
            else:
                root.aggregate([runner.reduce()], key="env_runners")
            if number % 3 == 2:
                results.append(root.reduce(compile=True))
        results.append(root.reduce(compile=True))
        results.append(runner.reduce(compile=True))
    assert results[:4] == results[4:]


def test_a_key_without_a_value_is_absent() -> None:
    root, runner = MetricsLogger(root=True), MetricsLogger()
    runner.log_value("loss", 2.0, reduce="mean")
    root.aggregate([runner.reduce()])
    assert root.reduce(compile=True) == {"loss": 2.0}
    root.aggregate([runner.reduce()])
    assert root.reduce(compile=True) == {}


def test_the_state_makes_an_equal_logger() -> None:
    logger = MetricsLogger(root=True)
    logger.log_value(("a", "b"), 3, reduce="lifetime_sum")
    logger.log_value("c", 5.0)
    logger.log_value("d", 1.0, window=3)
    other = MetricsLogger(root=True)
    other.set_state(logger.get_state())
    assert other.peek() == logger.peek() == {"a": {"b": 3}, "c": 5.0, "d": 1.0}
    other.log_value(("a", "b"), 4)
    assert other.peek(("a", "b")) == 7


def test_time_throughput_tensors_and_dicts() -> None:
    torch = pytest.importorskip("torch")
    logger = MetricsLogger(root=True)
    with logger.log_time("outer"), logger.log_time("outer"):
        pass
    assert logger.peek("outer") >= 0
    logger.log_value("loss", torch.tensor(2.0, requires_grad=True), reduce="mean")
    assert logger.peek("loss") == 2.0 and type(logger.peek("loss")) is float
    logger.log_value("steps", 100, reduce="sum", with_throughput=True)
    assert logger.peek("steps", throughput=True) > 0
    logger.log_dict({"x": {"y": 1.0}, "z": 3.0}, key="in")
    assert logger.peek("in") == {"x": {"y": 1.0}, "z": 3.0}
    logger.log_dict({"z": math.nan}, key="in")
    assert logger.peek(("in", "z")) == 3.0


def test_errors_name_the_remedy() -> None:
    logger = MetricsLogger()
    with pytest.raises(ValueError, match="choose one of .*lifetime_sum"):
        logger.log_value("a", 1, reduce="median")
    with pytest.raises(ValueError, match="does not take"):
        logger.log_value("a", 1, reduce="ema", window=3)
    logger.log_value("a", 1)
    with pytest.raises(KeyError, match="no value was logged under 'b'"):
        logger.peek("b")
    assert logger.peek("b", default=5) == 5
    with pytest.raises(KeyError, match="a value is logged under its part"):
        logger.log_value(("a", "b"), 1)
    logger.delete("a")
    with pytest.raises(KeyError):
        logger.delete("a")


def test_a_deferred_figure_is_computed_once_when_it_is_read() -> None:
    root, learner = MetricsLogger(root=True), MetricsLogger()
    computed: list[float] = []

    def compute(value: float) -> Deferred:
        return Deferred(lambda: (computed.append(value), np.float64(value))[1])

    for value in (1.0, 2.0, 3.0):
        learner.log_value("loss", compute(value), window=1)
        root.aggregate([learner.reduce()])
    assert computed == []
    assert root.peek("loss") == root.peek("loss") == 3.0
    assert computed == [3.0] and type(root.peek("loss")) is float
    learner.log_value("loss", compute(4.0), window=1)
    other = MetricsLogger(root=True)
    other.set_state(learner.get_state())
    assert pickle.loads(pickle.dumps(learner.reduce()))["loss"].values[0] == 4.0 and computed == [3.0, 4.0]
    assert other.peek("loss") == 4.0
