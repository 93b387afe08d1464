"""Metrics in a node: sums over processes that never go down, a bounded number of series, and Ray's own names."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from skate.core.guard import Guard
from skate.core.state import node_metrics
from skate.core.state.metric_table import Family, MetricTable
from skate.core.task import task_history
from skate.protocol import messages as m
from skate.protocol.values import COUNTER, GAUGE, HISTOGRAM
from skate.simulation.programs.spec import CPU
from tests.core.rig import Rig


def counter(value: float, name: str = "hits", **tags: str) -> Family:
    return name, COUNTER, "", (), ((tuple(tags.items()), value, (), 0.0),)


def gauge(value: float, time: float) -> Family:
    return "level", GAUGE, "", (), (((), value, (), time),)


def histogram(*counts: int, total: float = 1.0) -> Family:
    return "took", HISTOGRAM, "", (0.1, 1.0), (((), total, counts, 0.0),)


def values(table: MetricTable, name: str) -> dict[Any, Any]:
    found = {}
    for row in table.rows():
        if row["name"] == name:
            for tags, number, counts, _ in row["series"]:
                found[tags] = (number, counts) if counts else number
    return found


def test_processes_are_summed_also_after_their_end() -> None:
    table = MetricTable()
    table.report(1, (counter(3, who="x"), histogram(1, 0, 2)))
    table.report(2, (counter(4, who="x"), counter(1, who="y", name="other"), histogram(0, 1, 0, total=0.5)))
    table.report(1, (counter(5, who="x"), histogram(1, 1, 2)))
    table.forget(1)
    table.forget(1)
    table.report(3, (counter(1, who="x"),))
    assert values(table, "hits") == {(("who", "x"),): 10.0}
    assert values(table, "took") == {(): (1.5, (1, 2, 2))}


def test_a_gauge_is_the_last_value_of_any_process() -> None:
    table = MetricTable()
    table.report(1, (gauge(7.0, time=20.0),))
    table.report(2, (gauge(5.0, time=10.0),))
    assert values(table, "level") == {(): 7.0}
    table.forget(1)
    assert values(table, "level") == {(): 7.0}
    table.report(2, (gauge(6.0, time=30.0),))
    assert values(table, "level") == {(): 6.0}


def test_readings_end_with_their_process() -> None:
    table = MetricTable()
    table.report(1, (gauge(7.0, time=0.0), counter(2)))
    table.report(2, (gauge(5.0, time=0.0),))
    table.forget(1)
    assert values(table, "level") == {(): 5.0} and values(table, "hits") == {(): 2.0}
    table.forget(2)
    assert values(table, "level") == {}


def test_the_number_of_series_is_bounded() -> None:
    table = MetricTable(series_max=10)
    many = tuple(((("n", str(n)),), 1.0, (), 0.0) for n in range(8))
    table.report(1, (("hits", COUNTER, "", (), many),))
    table.report(2, (("more", COUNTER, "", (), many),))
    assert len(values(table, "hits")) == 8 and len(values(table, "more")) == 2
    assert table.left_out == 6
    for cid in (1, 2):
        table.forget(cid)
    table.report(3, (counter(1, name="new"),))
    assert not values(table, "new")


def test_a_series_that_does_not_fit_its_kind_is_left_out() -> None:
    table = MetricTable()
    table.report(1, (histogram(1, 2), ("hits", "sum", "", (), (((), 1.0, (), 0.0),)), counter(2)))
    assert [row["name"] for row in table.rows()] == ["hits"]
    assert table.left_out == 2


@given(
    st.lists(
        st.tuples(st.integers(0, 3), st.sampled_from(["inc", "inc", "report", "end"]), st.integers(1, 5))
    )
)
def test_sums_never_go_down(history: list[tuple[int, str, int]]) -> None:
    table = MetricTable()
    totals: dict[int, int] = {}
    seen = 0.0
    for process, what, amount in history:
        if what == "inc":
            totals[process] = totals.get(process, 0) + amount
        else:
            table.report(process, (counter(float(totals.get(process, 0))),))
        if what == "end":
            table.forget(process)
            totals.pop(process, None)
        now = values(table, "hits").get((), 0.0)
        assert now >= seen
        seen = now


class MetricsRig(Rig):
    """A rig whose metrics can be read."""

    def series(self, name: str) -> dict[str, float]:
        """Return the values of a metric's series, by their labels as text."""
        (row,) = (row for row in self.ask("rows", "metrics", {}) if row["name"] == name)
        return {
            " ".join(f"{key}={value}" for key, value in tags if key in ("Name", "State", "IsRetry")): number
            for tags, number, _, _ in row["series"]
        }


def test_reports_arrive_as_requests_and_survive_their_process() -> None:
    rig = MetricsRig(drivers=2)
    request = (m.REQUEST, 0, "report_metrics", ((counter(2.0),),))
    assert Guard(rig.core).refusal(2, request, False) == ""
    wrong = (m.REQUEST, 0, "report_metrics", ((("hits", COUNTER, "", (), (((), "2", (), 0.0),)),),))
    assert "report_metrics" in Guard(rig.core).refusal(2, wrong, False)
    rig.send(2, *request)
    rig.lose(2)
    assert rig.series("hits") == {"": 2.0}


def test_tasks_are_counted_by_function_and_state(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(node_metrics, "NAMES_MAX", 1)
    rig = MetricsRig()
    running, waiting = rig.submit(name="f"), rig.submit(name="f")
    worker = rig.worker_of(running)
    assert rig.series("tasks") == {
        "Name=f State=RUNNING IsRetry=0": 1.0,
        "Name=f State=PENDING_NODE_ASSIGNMENT IsRetry=0": 1.0,
    }
    rig.done(worker, running)
    rig.done(rig.worker_of(waiting), waiting, status=m.FAILED)
    found = rig.series("tasks")
    assert found == {"Name=f State=FINISHED IsRetry=0": 1.0, "Name=f State=FAILED IsRetry=0": 1.0}
    assert rig.series("tasks") == found
    rig.submit(name="g")
    assert rig.series("tasks")["Name=(other) State=RUNNING IsRetry=0"] == 1.0
    assert rig.series("resources") == {"Name=CPU State=AVAILABLE": 0.0, "Name=CPU State=USED": 1.0}


def test_finished_tasks_are_counted_after_the_history_has_forgotten_them(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(task_history, "FINISHED_MAX", 3)
    rig = MetricsRig()

    def run(name: str, count: int, status: int = m.OK) -> None:
        for _ in range(count):
            task = rig.submit(name=name)
            rig.done(rig.worker_of(task), task, status=status)

    run("f", 5)
    run("g", 4)
    run("g", 1, m.FAILED)
    found = {
        "Name=f State=FINISHED IsRetry=0": 5.0,
        "Name=g State=FINISHED IsRetry=0": 4.0,
        "Name=g State=FAILED IsRetry=0": 1.0,
    }
    assert rig.series("tasks") == found
    assert rig.series("tasks") == found
    run("f", 2)
    found["Name=f State=FINISHED IsRetry=0"] += 2
    assert rig.series("tasks") == found


def test_actors_are_counted_by_class_and_state() -> None:
    rig = MetricsRig()
    actor_id, _ = rig.living()
    known = {"Name=Actor State=ALIVE": 1.0}
    assert rig.series("actors") == {**known, "Name=Actor State=ALIVE_IDLE": 1.0}
    rig.call(actor_id)
    assert rig.series("actors") == {**known, "Name=Actor State=ALIVE_RUNNING_TASKS": 1.0}
    rig.group({"CPU": CPU})
    assert rig.series("placement_groups")["State=CREATED"] == 1.0


def test_lost_workers_are_counted_by_their_work() -> None:
    rig = MetricsRig()
    for _ in range(2):
        rig.lose(rig.worker_of(rig.submit(name="f")))
    assert rig.series("node_manager_unexpected_worker_failure") == {"Name=f": 2.0}
    assert rig.series("memory_manager_worker_eviction") == {}
    (row,) = (row for row in rig.ask("rows", "metrics", {}) if row["name"] == "autoscaler_cluster_resources")
    assert ((("resource", "CPU"),), 1.0, (), 0.0) in row["series"]
