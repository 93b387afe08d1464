"""Counter, Gauge and Histogram: validation, tags, and the contents of the registry."""

from __future__ import annotations

import itertools
import pickle
from collections.abc import Callable
from typing import Any

import pytest

from skate.util.metrics import Counter, Distribution, Gauge, Histogram, registry

_numbers = itertools.count()


@pytest.fixture
def name() -> str:
    """A name that no other test has used: metrics live as long as the process."""
    return f"test_metric_{next(_numbers)}"


def values(name: str) -> dict[tuple[str, ...], Any]:
    return {
        tuple(sample.tags.values()): sample.value for sample in registry().snapshot() if sample.name == name
    }


def test_a_counter_grows(name: str) -> None:
    counter = Counter(name, description="calls", tag_keys=("route",))
    counter.inc(tags={"route": "a"})
    counter.inc(2.5, tags={"route": "a"})
    counter.inc(tags={"route": "b"})
    assert values(name) == {("a",): 3.5, ("b",): 1.0}


def test_a_gauge_keeps_the_last_value(name: str) -> None:
    gauge = Gauge(name)
    gauge.set(5)
    gauge.set(-1)
    gauge.set(None)
    assert values(name) == {(): -1.0}


def test_a_histogram_counts_per_bucket(name: str) -> None:
    histogram = Histogram(name, boundaries=[1, 10])
    for value in (0.5, 1, 2, 100):
        histogram.observe(value)
    assert values(name) == {(): Distribution((2, 1, 1), 103.5)}


def test_info(name: str) -> None:
    counter = Counter(name, "calls", ("route",)).set_default_tags({"route": "a"})
    expected = {"name": name, "description": "calls", "tag_keys": ("route",), "default_tags": {"route": "a"}}
    assert counter.info == expected
    histogram = Histogram(f"{name}_h", boundaries=[0.1, 1.0])
    assert histogram.info["boundaries"] == [0.1, 1.0]
    assert repr(counter) == f"Counter({name!r}, tag_keys=('route',))"


def test_default_tags_are_overridden_per_value(name: str) -> None:
    gauge = Gauge(name, tag_keys=("a", "b"))
    assert gauge.set_default_tags({"a": "1", "b": "2"}) is gauge
    gauge.set(7)
    gauge.set(8, tags={"b": "3"})
    assert values(name) == {("1", "2"): 7.0, ("1", "3"): 8.0}


def test_two_objects_of_one_name_are_one_metric(name: str) -> None:
    Counter(name).inc()
    pickle.loads(pickle.dumps(Counter(name))).inc()
    assert values(name) == {(): 2.0}
    with pytest.raises(ValueError, match="already exists as a counter"):
        Gauge(name)


def test_pickling_keeps_everything(name: str) -> None:
    histogram = Histogram(name, "d", [1.0], ("a",)).set_default_tags({"a": "x"})
    assert pickle.loads(pickle.dumps(histogram)).info == histogram.info


@pytest.mark.parametrize("make", [Counter, Gauge, lambda *a, **k: Histogram(*a, boundaries=[1], **k)])
def test_declarations_are_checked(make: Callable[..., Any], name: str) -> None:
    with pytest.raises(ValueError, match="needs a name"):
        make("")
    for keys in ("route", ["route"], ("route", 1)):
        with pytest.raises(TypeError, match="tag_keys"):
            make(name, tag_keys=keys)


def test_an_invalid_name_warns_and_records_nothing() -> None:
    with pytest.warns(UserWarning, match="not a valid metric name"):
        counter = Counter("1-bad name")
    counter.inc()
    assert values("1-bad name") == {}
    with pytest.warns(FutureWarning, match='":"'):
        Counter("old:style")


def test_boundaries_are_checked(name: str) -> None:
    for boundaries in (None, [], [0, 1], [-1], [2, -1]):
        with pytest.raises(ValueError, match="boundaries"):
            Histogram(name, boundaries=boundaries)


def test_boundaries_are_sorted_and_kept_once(name: str) -> None:
    histogram = Histogram(name, boundaries=[10, 1, 1])
    assert histogram.info["boundaries"] == [10, 1, 1]
    histogram.observe(5)
    (value,) = values(name).values()
    assert value.counts == (0, 1, 0)


def test_tags_beyond_the_declared_ones_are_recorded(name: str) -> None:
    Counter(name, tag_keys=("route",)).inc(tags={"route": "a", "host": "h"})
    assert [sample.tags for sample in registry().snapshot() if sample.name == name] == [
        {"host": "h", "route": "a"}
    ]


def test_values_are_checked(name: str) -> None:
    counter, gauge = Counter(name), Gauge(f"{name}_g")
    for bad in (0, -1, float("nan")):
        with pytest.raises(ValueError, match="above 0"):
            counter.inc(bad)
    for record in (counter.inc, gauge.set, Histogram(f"{name}_h", boundaries=[1]).observe):
        with pytest.raises(TypeError, match="int or a float"):
            record("5")  # type: ignore[operator]


def test_tags_are_checked(name: str) -> None:
    counter = Counter(name, tag_keys=("route", "host"))
    with pytest.raises(ValueError, match=r"Missing value for tag key\(s\): host\."):
        counter.inc(tags={"route": "a"})
    with pytest.raises(ValueError, match=r"Missing value for tag key\(s\): route, host\."):
        counter.inc(tags={"rout": "a"})
    with pytest.raises(ValueError, match="no tag 'rout'"):
        counter.set_default_tags({"rout": "a"})
    with pytest.raises(TypeError, match="must be a string"):
        counter.inc(tags={"route": 5, "host": "h"})  # type: ignore[dict-item]
    with pytest.raises(TypeError, match="must be a string"):
        counter.set_default_tags({"route": 5})  # type: ignore[dict-item]
    assert values(name) == {}


def test_prometheus_reads_the_registry(name: str) -> None:
    prometheus = pytest.importorskip(
        "prometheus_client", reason="prometheus_client is an optional dependency"
    )
    Counter(name, "calls", ("route",)).inc(2, {"route": "a"})
    Histogram(f"{name}_h", boundaries=[1, 10]).observe(5)
    exposed = prometheus.CollectorRegistry()
    exposed.register(registry())
    text = prometheus.generate_latest(exposed).decode()
    assert f'ray_{name}_total{{route="a"}} 2.0' in text
    assert f'ray_{name}_h_bucket{{le="10.0"}} 1.0' in text
    assert f'ray_{name}_h_bucket{{le="+Inf"}} 1.0' in text
    assert f"ray_{name}_h_sum 5.0" in text
