"""Values, tags and boundaries that ray.util.metrics takes and refuses."""

from __future__ import annotations

import pickle
from typing import Any

import pytest
import ray
from ray.util.metrics import Counter, Gauge, Histogram

pytestmark = pytest.mark.usefixtures("cluster")


def test_tags_beyond_the_tag_keys_are_accepted() -> None:
    Counter("conformance_tags", tag_keys=("a",)).inc(tags={"a": "1", "b": "2"})
    Gauge("conformance_gauge").set(1, tags={"b": "2"})
    Histogram("conformance_tagged", boundaries=[1]).observe(1, tags={"b": "2"})


def test_a_tag_of_the_tag_keys_must_have_a_value() -> None:
    counter = Counter("conformance_needed", tag_keys=("a", "b"))
    with pytest.raises(ValueError, match=r"b"):
        counter.inc(tags={"a": "1"})
    with pytest.raises(TypeError):
        counter.inc(tags={"a": "1", "b": 2})
    counter.set_default_tags({"b": "2"}).inc(tags={"a": "1"})
    with pytest.raises(ValueError, match=r"c"):
        counter.set_default_tags({"c": "2"})


@pytest.mark.parametrize("boundaries", [[3, 1], [2, 2], (1, 2)], ids=str)
def test_boundaries_may_have_any_order(boundaries: Any) -> None:
    histogram = Histogram(f"conformance_order_{boundaries[0]}", boundaries=boundaries)
    histogram.observe(2)
    assert histogram.info["boundaries"] == boundaries


@pytest.mark.parametrize("boundaries", [None, [], [0, 1], [1, -1]], ids=str)
def test_boundaries_must_be_above_zero(boundaries: Any) -> None:
    with pytest.raises(ValueError):
        Histogram("conformance_refused", boundaries=boundaries)


def test_a_counter_refuses_what_does_not_grow_it() -> None:
    counter = Counter("conformance_growth")
    for wrong in (0, -1):
        with pytest.raises(ValueError):
            counter.inc(wrong)
    with pytest.raises(TypeError):
        counter.inc("1")


def test_a_metric_can_be_sent_to_a_task() -> None:
    counter = Counter("conformance_sent", description="d", tag_keys=("a",))
    assert pickle.loads(pickle.dumps(counter)).info == counter.info

    @ray.remote
    def count(one: Any) -> Any:
        one.inc(tags={"a": "1"})
        return one.info

    assert ray.get(count.remote(counter)) == counter.info
