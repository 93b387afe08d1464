"""The metrics of a run: they agree with what the dataset has done, and are read while it runs and after it."""

from __future__ import annotations

from typing import Any

import pytest

from skate import data
from skate.util import metrics
from skate.util.metrics import registry

pytestmark = pytest.mark.usefixtures("node")


def read(dataset: str) -> dict[str, Any]:
    """Return the current metrics of a dataset, each summed over its series."""
    found: dict[str, Any] = {}
    for name, _, _, bounds, series in registry()._families():
        for tags, number, counts, _ in series:
            if dict(tags).get("dataset", "").startswith(f"{dataset}_"):
                assert len(counts) == (len(bounds) + 1 if bounds else 0)
                found[name] = found.get(name, 0) + (sum(counts) if bounds else number)
    return found


def test_the_metrics_are_those_of_the_run() -> None:
    assert read("counted") == {}
    made = data.range(400, override_num_blocks=4).map_batches(lambda batch: batch, batch_size=50)
    made.set_name("counted")
    seen = []
    for number, batch in enumerate(made.iter_batches(batch_size=100)):
        assert len(batch["id"]) == 100
        seen.append(read("counted"))
        assert number < 4
    assert all(0 < each["data_output_rows"] <= 400 for each in seen)
    last = read("counted")
    assert last["data_output_rows"] == 400 and last["data_num_tasks_running"] == 0
    assert (
        last["data_num_tasks_finished"]
        == last["data_num_tasks_submitted"]
        == last["data_task_completion_time"]
    )
    assert last["data_num_task_outputs_generated"] == last["data_block_size_rows"] > 0
    assert last["data_num_outputs_taken"] == last["data_num_task_outputs_generated"]
    assert last["data_bytes_outputs_taken"] == last["data_output_bytes"] > 0
    assert last["data_num_tasks_failed"] == 0


def test_failed_work_is_counted() -> None:
    read("failing")

    def fail(batch: Any) -> Any:
        raise ValueError("no")

    made = data.range(10, override_num_blocks=1).map_batches(fail)
    made.set_name("failing")
    with pytest.raises(Exception, match="no"):
        made.take_all()
    assert read("failing")["data_num_tasks_failed"] == 1


def test_an_ended_run_is_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(metrics, "RECENT_SECONDS", 0.0)
    read("short")
    made = data.range(10)
    made.set_name("short")
    made.take_all()
    assert read("short") == {}
