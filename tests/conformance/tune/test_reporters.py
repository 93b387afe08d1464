"""The text of a report: counts by status, the best trial, and a table of trials as psql draws it."""

from __future__ import annotations

import re
import sys
from typing import Any

import pytest
from ray import tune


class Place:
    """The process of a trial that has not reported."""

    pid = None

    def __str__(self) -> str:
        return ""


class State:
    """The passing state of a trial, for Ray."""

    location = Place()


class FakeTrial:
    """The attributes of a trial that a report shows."""

    error_file: str | None = None
    local_experiment_path = "/searches/one"
    temporary_state = State()

    def __init__(self, number: int, status: str, config: dict[str, Any], result: dict[str, Any]) -> None:
        self.trial_id, self.status, self.config = f"{number:05d}", status, config
        self.evaluated_params = {name: value for name, value in config.items() if not isinstance(value, dict)}
        self.last_result = result

    def __str__(self) -> str:
        return self.trial_id


class Told(tune.CLIReporter):
    """Returns the text in place of printing it."""

    def told(self, trials: list[Any], done: bool = False) -> str:
        text: str = self._progress_str(trials, done)
        return text


def search(*losses: float) -> list[FakeTrial]:
    """One running trial, one that waits, and one that has ended for each loss."""
    ended = [
        FakeTrial(at, "TERMINATED", {"a": at}, {"config": {"a": at}, "loss": loss})
        for at, loss in enumerate(losses)
    ]
    first = len(ended)
    return [
        *ended,
        FakeTrial(first, "PENDING", {"a": first}, {}),
        FakeTrial(first + 1, "RUNNING", {"a": first + 1}, {"node_ip": "10.0.0.7", "pid": 12}),
    ]


def test_a_table_of_some_trials() -> None:
    told = Told(max_progress_rows=4, metric_columns=["loss"]).told(search(0.25, 3.0, 0.5)).split("\n")
    assert told[0] == "== Status =="
    assert re.fullmatch(
        r"Current time: \d{4}(-\d\d){2} \d\d(:\d\d){2} \(running for \d\d:\d\d:\d\d\.\d\d\)", told[1]
    )
    assert [line.rstrip() for line in told[2:]] == [
        "Result logdir: /searches/one",
        "Number of trials: 5 (1 PENDING, 1 RUNNING, 3 TERMINATED)",
        "+--------------+------------+-------------+-----+--------+",
        "|   Trial name | status     | loc         |   a |   loss |",
        "|--------------+------------+-------------+-----+--------|",
        "|        00004 | RUNNING    | 10.0.0.7:12 |   4 |        |",
        "|        00003 | PENDING    |             |   3 |        |",
        "|        00000 | TERMINATED |             |   0 |   0.25 |",
        "|        00001 | TERMINATED |             |   1 |   3    |",
        "+--------------+------------+-------------+-----+--------+",
        "... 1 more trials not shown (1 TERMINATED)",
        "",
        "",
    ]


@pytest.mark.parametrize(
    ("mode", "by", "shown"),
    [("max", False, ["0", "1"]), ("min", True, ["0", "2"]), ("max", True, ["1", "2"])],
)
def test_the_best_trials_come_first_if_asked(mode: str, by: bool, shown: list[str]) -> None:
    reporter = Told(max_progress_rows=4, metric="loss", mode=mode, sort_by_metric=by)
    told = reporter.told(search(0.25, 3.0, 0.5))
    assert re.findall(r"0000(\d) \| TERMINATED", told) == shown
    best = "00001 with loss=3.0 and parameters={'a': 1}" if mode == "max" else "00000 with loss=0.25"
    assert f"Current best trial: {best}" in told


def test_sorting_needs_a_metric_and_a_mode() -> None:
    with pytest.warns(UserWarning, match="Both 'metric' and 'mode' must be set"):
        told = Told(max_progress_rows=4, metric="loss", sort_by_metric=True).told(search(0.25, 3.0, 0.5))
    assert re.findall(r"0000(\d) \| TERMINATED", told) == ["0", "1"]


def test_headings_and_nested_names() -> None:
    trial = FakeTrial(0, "RUNNING", {"net": {"size": [8, 4]}, "lr": 0.1}, {"eval": {"loss": 1.5}})
    told = Told(metric_columns={"eval/loss": "Loss"}, parameter_columns={"net/size/1": "Size"}).told([trial])
    assert "|   Size |   Loss |" in told
    assert "|      4 |    1.5 |" in told


def test_columns_are_found_in_results() -> None:
    result = {
        "mean_loss": 0.5,
        "training_iteration": 3,
        "x": 1,
        "text": "no number",
        "y": 2.0,
        "z": 3,
        "more": 4,
    }
    told = Told().told([FakeTrial(0, "RUNNING", {"a": 1}, result)])
    (heads,) = re.findall(r"^\| +Trial name .*$", told, re.MULTILINE)
    assert [head.strip() for head in heads.strip("|").split("|")][3:] == ["a", "loss", "iter", "x", "y", "z"]


def test_the_end_shows_all_trials() -> None:
    trials = [FakeTrial(at, "TERMINATED", {"a": at}, {}) for at in range(30)]
    assert [Told().told(trials, done).count("TERMINATED |") for done in (False, True)] == [20, 30]
    quiet = Told(print_intermediate_tables=False)
    assert ["Trial name" in quiet.told(trials, done) for done in (False, True)] == [False, True]


@pytest.mark.parametrize(("total", "shown"), [(3, "1/3"), (sys.maxsize, "1/infinite"), (None, "1")])
def test_the_number_of_trials_to_come(total: int | None, shown: str) -> None:
    told = Told(total_samples=total).told([FakeTrial(0, "RUNNING", {}, {})])
    assert f"Number of trials: {shown} (1 RUNNING)" in told


def test_long_values_are_cut() -> None:
    trials = [FakeTrial(0, "TERMINATED", {"name" * 30: "value" * 30}, {"metric": "text" * 90})]
    told = Told(metric_columns=["metric"]).told(trials)
    assert max(map(len, told.split("\n"))) <= 100


def test_reports_are_due_at_intervals() -> None:
    reporter = tune.CLIReporter(max_report_frequency=100)
    assert [
        reporter.should_report([]),
        reporter.should_report([]),
        reporter.should_report([], done=True),
    ] == [
        True,
        False,
        True,
    ]


def test_a_metric_is_set_in_one_place() -> None:
    with pytest.raises(ValueError):
        tune.CLIReporter(metric="loss", mode="min").set_search_properties("loss", "min")
    reporter = Told()
    reporter.setup(metric="loss", mode="min")
    assert "Current best trial: 00000" in reporter.told(search(0.25, 3.0))
