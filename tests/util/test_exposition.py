"""Metrics of users from every process, and Ray's core metrics, as Prometheus reads them."""

from __future__ import annotations

import math
import os
import re
from pathlib import Path
from typing import Any

import pytest
from prometheus_client.parser import text_string_to_metric_families
from waiting import wait_for

import skate as ray
from skate.client import metrics
from skate.util.exposition import LEFT_OUT, SERIES_MAX, exposition, text
from skate.util.metrics import Counter, Gauge, Histogram

pytestmark = pytest.mark.usefixtures("cluster")


@ray.remote
class Counts:
    def __init__(self, name: str) -> None:
        self.hits = Counter(f"{name}_hits", "Hits.", ("who",))
        self.level = Gauge(f"{name}_level", "Level.", ("who",))
        self.took = Histogram(f"{name}_took", "Took.", [0.1, 1], ("who",))

    def go(self, who: str, times: int) -> int:
        for _ in range(times):
            self.hits.inc(2, {"who": who})
            self.took.observe(0.5, {"who": who})
        self.level.set(times, {"who": who})
        return os.getpid()

    def end(self) -> None:
        ray.actor.exit_actor()


def page() -> dict[str, Any]:
    """Return the samples of the session by name."""
    found: dict[str, list[Any]] = {}
    for family in text_string_to_metric_families(exposition()):
        for sample in family.samples:
            found.setdefault(sample.name, []).append(sample)
    return found


def value(name: str, **labels: str) -> float:
    """Return the value of one sample; NaN if there is none."""
    samples = [each for each in page().get(name, ()) if labels.items() <= each.labels.items()]
    assert len(samples) <= 1, samples
    return samples[0].value if samples else math.nan


def test_metrics_of_workers_arrive_also_after_their_end() -> None:
    one, two = Counts.remote("ends"), Counts.remote("ends")
    pids = [ray.get(one.go.remote("x", 3)), ray.get(two.go.remote("x", 4))]
    assert value("ray_ends_hits_total", who="x") == 14
    assert value("ray_ends_level", who="x") == 4
    one.end.remote()
    wait_for(lambda: not os.path.exists(f"/proc/{pids[0]}"), what="the end of the worker")
    assert value("ray_ends_hits_total", who="x") == 14
    assert value("ray_ends_took_bucket", who="x", le="1.0") == 7
    assert value("ray_ends_took_bucket", who="x", le="0.1") == 0
    assert value("ray_ends_took_sum", who="x") == 3.5
    ray.kill(two)
    wait_for(lambda: not os.path.exists(f"/proc/{pids[1]}"), what="the end of the worker")
    assert value("ray_ends_hits_total", who="x") == 14


def test_metrics_that_no_page_has_shown_arrive_from_a_worker_that_ends() -> None:
    actor = Counts.remote("unseen")
    pid = ray.get(actor.go.remote("x", 1))
    del actor
    wait_for(lambda: not os.path.exists(f"/proc/{pid}"), what="the end of the worker")
    assert value("ray_unseen_hits_total", who="x") == 2


def test_a_worker_reports_while_it_records(monkeypatch: pytest.MonkeyPatch) -> None:
    """A worker that is killed loses only what it has recorded since its last report."""

    @ray.remote
    class Reports(Counts.__ray_metadata__.modified_class):  # type: ignore[misc]
        def soon(self) -> None:
            metrics.REPORT_SECONDS = 0.0
            metrics._registry._due = 0.0

    actor = Reports.remote("killed")
    ray.get(actor.soon.remote())
    pid = ray.get(actor.go.remote("x", 5))
    ray.kill(actor)
    wait_for(lambda: not os.path.exists(f"/proc/{pid}"), what="the end of the worker")
    assert value("ray_killed_hits_total", who="x") == 10


def test_the_driver_and_tasks_are_there_too() -> None:
    Counter("from_driver").inc(3)

    @ray.remote
    def count() -> None:
        Counter("from_driver").inc(4)

    ray.get(count.remote())
    assert value("ray_from_driver_total") == 7
    assert value("ray_tasks", State="FINISHED", Name=re.sub("<locals>", "<locals>", "count")) == 1


def test_names_and_labels_are_those_of_ray() -> None:
    """`ray_metrics.txt` has series of a real Ray 2.60; a series here has the same labels, except ids of workers."""
    actor = Counts.remote("golden")
    ray.get(actor.go.remote("x", 1))
    here = page()
    for line in (Path(__file__).parent / "ray_metrics.txt").read_text().splitlines():
        match = re.fullmatch(r"(\w+)\{(.*)\} \S+", line)
        assert match is not None, line
        name, labels = match[1], {pair[0]: pair[1] for pair in re.findall(r'(\w+)="([^"]*)"', match[2])}
        assert name in here, f"{name} is missing"
        wanted = set(labels) - {"WorkerId", "Component"}
        assert all(wanted <= set(each.labels) for each in here[name]), (name, wanted, here[name][0].labels)
        states = {each.labels.get("State") for each in here[name]}
        if name in ("ray_resources", "ray_placement_groups"):
            assert labels["State"] in states or labels["State"] == "PREPARED"


def row(name: str, *series: tuple[Any, ...], kind: str = "gauge", **more: Any) -> dict[str, Any]:
    return {"name": name, "kind": kind, "description": "a\nb", "boundaries": (), "series": series,
            "node_ip": "127.0.0.1", "is_head": True, **more}  # fmt: skip


def test_odd_labels_and_numbers_are_readable() -> None:
    odd = 'a"b\\c\nd'
    exposed = text([row("odd", ((("k", odd),), math.inf, (), 0.0)), row("nan", ((), math.nan, (), 0.0))], {})
    found = {family.name: family for family in text_string_to_metric_families(exposed)}
    assert found["ray_odd"].samples[0].labels["k"] == odd and found["ray_odd"].samples[0].value == math.inf
    assert math.isnan(found["ray_nan"].samples[0].value)


def test_a_page_has_a_bounded_number_of_series() -> None:
    many = [((("n", str(n)),), 1.0, (), 0.0) for n in range(SERIES_MAX)]
    exposed = text([row("many", *many), row("few", ((), 1.0, (), 0.0))], {})
    found = {family.name: family.samples for family in text_string_to_metric_families(exposed)}
    assert "ray_many" not in found and len(found["ray_few"]) == 1
    assert found[LEFT_OUT][0].value == SERIES_MAX


def test_nodes_with_one_address_are_summed() -> None:
    exposed = text([row("hits", ((), 1.0, (), 0.0), kind="counter")] * 2, {})
    (sample,) = [each for each in text_string_to_metric_families(exposed) if each.name == "ray_hits"][
        0
    ].samples
    assert (sample.name, sample.value) == ("ray_hits_total", 2.0)


def test_without_a_session() -> None:
    ray.shutdown()
    with pytest.raises(RuntimeError, match="no session"):
        exposition()
