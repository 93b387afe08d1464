"""The logger of figures: each way to reduce, nested keys, what runners send to the root, and its state."""

from __future__ import annotations

from typing import Any

import pytest

pytest.importorskip("gymnasium")
torch = pytest.importorskip("torch")
import numpy as np
from ray.rllib.utils.metrics.metrics_logger import MetricsLogger

VALUES = [4.0, 1.0, 7.0]


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        ({"reduce": "mean"}, 4.0),
        ({"reduce": "mean", "window": 2}, 4.0),
        ({"reduce": "mean", "window": 1}, 7.0),
        ({"window": 2}, 4.0),
        ({"reduce": "min"}, 1.0),
        ({"reduce": "max"}, 7.0),
        ({"reduce": "max", "window": 2}, 7.0),
        ({"reduce": "min", "window": 1}, 7.0),
        ({"reduce": "sum"}, 12.0),
        ({"reduce": "lifetime_sum"}, 12.0),
        ({"reduce": "item"}, 7.0),
        ({"reduce": "ema", "ema_coeff": 0.5}, 4.75),
        ({"ema_coeff": 0.25}, 4.1875),
        ({"reduce": "item_series"}, VALUES),
        ({"reduce": "percentiles", "percentiles": [0, 50, 100], "window": 10}, {0: 1.0, 50: 4.0, 100: 7.0}),
    ],
    ids=str,
)
def test_values_are_reduced(settings: dict[str, Any], expected: Any) -> None:
    logger = MetricsLogger(root=True)
    for value in VALUES:
        logger.log_value("figure", value, **settings)
    assert logger.peek("figure") == pytest.approx(expected)
    assert logger.reduce(compile=True)["figure"] == pytest.approx(expected)


@pytest.mark.parametrize("value", [3, 3.0, np.float32(3), np.array(3.0), torch.tensor(3.0)], ids=repr)
def test_numbers_of_any_kind(value: Any) -> None:
    logger = MetricsLogger(root=True)
    for way in ("mean", "sum", "max"):
        logger.log_value(("of", way), value, reduce=way)
        assert float(logger.peek(("of", way))) == 3.0


@pytest.mark.parametrize(
    ("settings", "second"),
    [
        ({"reduce": "sum"}, 5.0),
        ({"reduce": "lifetime_sum"}, 17.0),
        ({"reduce": "max"}, 5.0),
        ({"reduce": "mean"}, 5.0),
        ({"reduce": "item"}, 5.0),
    ],
    ids=str,
)
def test_a_round_begins_anew(settings: dict[str, Any], second: float) -> None:
    logger = MetricsLogger(root=True)
    for value in VALUES:
        logger.log_value("figure", value, **settings)
    logger.reduce(compile=True)
    logger.log_value("figure", 5.0, **settings)
    assert logger.reduce(compile=True)["figure"] == second


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        ({"reduce": "sum"}, 30.0),
        ({"reduce": "lifetime_sum"}, 30.0),
        ({"reduce": "max"}, 12.0),
        ({"reduce": "min"}, 4.0),
        ({"reduce": "mean"}, 7.5),
        ({"reduce": "mean", "window": 10}, 7.5),
        ({"reduce": "mean", "window": 2}, 7.5),
        ({"reduce": "max", "window": 1}, 12.0),
    ],
    ids=str,
)
def test_figures_of_runners_meet_at_the_root(settings: dict[str, Any], expected: float) -> None:
    root, runners = MetricsLogger(root=True), [MetricsLogger(), MetricsLogger()]
    for runner, values in zip(runners, ([4.0, 8.0], [6.0, 12.0]), strict=True):
        for value in values:
            runner.log_value(("of", "a_runner"), value, **settings)
    root.aggregate([runner.reduce() for runner in runners], key="env_runners")
    assert root.peek(("env_runners", "of", "a_runner")) == expected
    assert root.reduce(compile=True)["env_runners"]["of"]["a_runner"] == expected


def test_dicts_times_and_keys() -> None:
    logger = MetricsLogger(root=True)
    logger.log_dict({"a": {"b": 1.0}, "c": 2.0}, key="of", reduce="sum")
    logger.log_dict({"c": 3.0}, key="of", reduce="sum")
    assert logger.peek(("of", "a", "b")) == 1.0 and logger.peek("of") == {"a": {"b": 1.0}, "c": 5.0}
    with logger.log_time(("timers", "mine")):
        pass
    assert logger.peek(("timers", "mine")) >= 0.0
    assert ("of", "c") in logger and ("of", "d") not in logger
    assert logger.peek("nothing", default=7) == 7
    with pytest.raises(KeyError):
        logger.peek("nothing")
    logger.delete("of", "c")
    assert ("of", "c") not in logger and ("of", "a", "b") in logger
    with pytest.raises(KeyError):
        logger.delete("of", "c")
    logger.delete("of", "c", key_error=False)
    logger.reset()
    assert "timers" not in logger


def test_sums_per_second() -> None:
    logger = MetricsLogger(root=True)
    logger.log_value("steps", 5, reduce="sum", with_throughput=True)
    logger.log_value("steps", 6, reduce="sum", with_throughput=True)
    assert logger.peek("steps") == 11 and logger.peek("steps", throughput=True) >= 0


@pytest.mark.parametrize(
    "settings",
    [{"reduce": "no_such_way"}, {"reduce": "mean", "ema_coeff": 0.1}],
    ids=str,
)
def test_settings_that_do_not_go_together(settings: dict[str, Any]) -> None:
    with pytest.raises((ValueError, TypeError)):
        MetricsLogger().log_value("figure", 1.0, **settings)


def test_a_logger_continues_from_a_state() -> None:
    logger = MetricsLogger(root=True)
    logger.log_value(("of", "all"), 3, reduce="lifetime_sum")
    logger.log_value("newest", 4.0, reduce="item")
    again = MetricsLogger(root=True)
    again.set_state(logger.get_state())
    again.log_value(("of", "all"), 5, reduce="lifetime_sum")
    assert again.peek(("of", "all")) == 8 and again.peek("newest") == 4.0


def test_what_a_runner_ships_counts_as_a_number() -> None:
    logger = MetricsLogger()
    logger.log_value("mean", 1.0, reduce="mean", window=4)
    logger.log_value("mean", 2.0, reduce="mean", window=4)
    logger.log_value("sum", 3, reduce="sum")
    shipped = logger.reduce()
    assert float(shipped["mean"]) == 1.5 and int(shipped["sum"]) == 3 and shipped["sum"] == 3
    assert f"{shipped['mean']:.2f}" == "1.50" and shipped["mean"] + 1 == 2.5 and shipped["sum"] * 2 == 6
    assert shipped["mean"] < 2 <= shipped["sum"] and shipped["sum"] > shipped["mean"]


def test_values_and_their_rates_come_together() -> None:
    logger = MetricsLogger(root=True)
    for _ in range(2):
        logger.log_value(("of", "steps"), 5, reduce="sum", with_throughput=True)
    logger.log_value("loss", 0.5, reduce="mean")
    found = logger.compile()
    assert found["loss"] == 0.5 and found["of"]["steps"] == 10 and found["of"]["steps_throughput"] > 0
