"""Routes of Ray's own page: lineage of tasks, datasets, machines, and what runs beside the session."""

from __future__ import annotations

import http.server
import threading
from collections.abc import Iterator
from typing import Any

import pytest

import skate
from skate import data
from skate.dashboard.app import guarded
from skate.dashboard.guard import Guard
from skate.util.state import lineage
from tests.dashboard.asking import access, ask, bearer


def task(task_id: str, name: str, parent: str = "", state: str = "FINISHED", **more: Any) -> dict[str, Any]:
    """Return the row of a task."""
    row = {"task_id": task_id, "name": name, "parent_task_id": parent, "state": state, "type": "NORMAL_TASK"}
    return {**row, "attempt_number": 0, "actor_id": None, "creation_time_ms": int(task_id, 16), **more}


def test_a_tree_has_each_task_once_and_merges_equal_siblings() -> None:
    made = {"type": "ACTOR_CREATION_TASK", "actor_id": "aa"}
    tasks = [
        task("1", "root"),
        task("2", "leaf", "1", "RUNNING"),
        task("3", "leaf", "1"),
        task("4", "leaf", "1", attempt_number=0, state="FAILED"),
        task("4", "leaf", "1", attempt_number=1),
        task("5", "Keeper.__init__", "1", **made),
        task("6", "Keeper.go", "", type="ACTOR_TASK", actor_id="aa"),
        task("7", "orphan", "ff"),
    ]
    actors = [{"actor_id": "aa", "repr_name": "", "class_name": "Keeper"}]
    summary = lineage.by_lineage(tasks, actors)
    root, orphan = summary["summary"]
    assert (root["name"], root["state_counts"]) == ("root", {"FINISHED": 5, "RUNNING": 1})
    assert (orphan["name"], orphan["link"]) == ("orphan", {"type": "task", "id": "7"})
    leaves, keeper = root["children"]
    assert (leaves["type"], leaves["state_counts"]) == ("GROUP", {"RUNNING": 1, "FINISHED": 2})
    assert [each["key"] for each in leaves["children"]] == ["2", "3", "4"], "what runs comes first"
    assert (keeper["type"], keeper["link"]) == ("ACTOR", {"type": "actor", "id": "aa"})
    assert [each["name"] for each in keeper["children"]] == ["Keeper.__init__", "Keeper.go"]
    assert (summary["total_tasks"], summary["total_actor_tasks"], summary["total_actor_scheduled"]) == (
        6,
        1,
        1,
    )


def test_a_summary_by_name_counts_attempts() -> None:
    summary = lineage.by_name([task("1", "f"), task("1", "f", state="FAILED"), task("2", "g")])
    assert summary["summary"]["f"]["state_counts"] == {"FINISHED": 1, "FAILED": 1}
    assert (summary["total_tasks"], summary["summary_by"]) == (3, "func_name")


@pytest.fixture(scope="module")
def app() -> Iterator[Guard]:
    skate.init(num_cpus=2, object_store_memory=10**8, log_to_driver=False)
    yield guarded(access())
    skate.shutdown()


def get(app: Guard, path: str) -> Any:
    answer = ask(app, path, headers=[bearer("read")])
    assert answer.status == 200, answer.body
    return answer.json


def test_a_dataset_is_shown_with_its_operators_while_it_runs_and_afterwards(app: Guard) -> None:
    job = skate.get_runtime_context().get_job_id()
    before = {each["dataset"] for each in get(app, f"/api/data/datasets/{job}")["datasets"]}

    def new() -> list[dict[str, Any]]:
        """Return the datasets of this test; those of earlier sessions of this process are shown for a while."""
        found = get(app, f"/api/data/datasets/{job}")["datasets"]
        return [each for each in found if each["dataset"] not in before]

    batches = iter(data.range(100, override_num_blocks=4).map(lambda row: row).iter_batches(batch_size=10))
    next(batches)
    (found,) = new()
    assert (found["state"], found["end_time"]) == ("RUNNING", None)
    assert len(list(batches)) == 9
    (found,) = new()
    assert (found["state"], found["total_rows"], found["job_id"]) == ("FINISHED", 100, job)
    assert found["start_time"] < found["end_time"]
    assert [each["progress"] == each["total"] > 0 for each in found["operators"]] == [True] * len(
        found["operators"]
    )
    assert found["ray_data_output_rows"] == {"max": 100}
    assert get(app, "/api/data/datasets/99") == {"datasets": []}


def test_a_node_has_its_machine_and_its_workers(app: Guard) -> None:
    @skate.remote(num_cpus=0)
    class Keeper:
        def go(self) -> str:
            return skate.get_runtime_context().get_actor_id() or ""

    keeper = Keeper.remote()
    actor_id = skate.get(keeper.go.remote())
    (row,) = get(app, "/nodes?view=summary")["data"]["summary"]
    assert row["mem"][0] > row["mem"][1] > 0 and row["disk"]["/"]["total"] > row["disk"]["/"]["used"] > 0
    assert row["raylet"]["objectStoreAvailableMemory"] + row["raylet"]["objectStoreUsedMemory"] == 10**8
    detail = get(app, f"/nodes/{row['raylet']['nodeId']}")["data"]["detail"]
    actor = detail["actors"][actor_id]
    (worker,) = (each for each in detail["workers"] if each["pid"] == actor["pid"])
    assert worker["memoryInfo"]["rss"] > 0 and "Keeper" in worker["cmdline"][0]
    assert actor["address"]["ipAddress"] == worker["coreWorkerStats"][0]["ipAddress"] == row["ip"]


class Healthy(http.server.BaseHTTPRequestHandler):
    """A Grafana and a Prometheus."""

    def do_GET(self) -> None:
        self.send_response(200 if self.path in ("/api/health", "/-/healthy") else 404)
        self.end_headers()

    def log_message(self, *_: Any) -> None:
        pass


def test_neighbours_are_those_of_the_environment(app: Guard, monkeypatch: pytest.MonkeyPatch) -> None:
    for path, variable in (
        ("/api/grafana_health", "RAY_GRAFANA_HOST"),
        ("/api/prometheus_health", "RAY_PROMETHEUS_HOST"),
    ):
        monkeypatch.delenv(variable, raising=False)
        assert get(app, path)["result"] is False and f"{variable} is not set" in get(app, path)["msg"]
        with http.server.HTTPServer(("127.0.0.1", 0), Healthy) as server:
            thread = threading.Thread(target=server.serve_forever)
            thread.start()
            monkeypatch.setenv(variable, f"http://127.0.0.1:{server.server_address[1]}")
            assert get(app, path)["result"] is True
            server.shutdown()
            thread.join()
        assert get(app, path)["result"] is False, "it has ended"


def test_facts_about_the_session(app: Guard) -> None:
    assert get(app, "/api/v0/platform_events")["data"] == {"events": []}
    assert get(app, "/api/v0/runtime_env_redaction")["data"] == {"redactionEnabled": True}
    everything = ask(app, "/api/v0/runtime_env_redaction", headers=[bearer("submit")]).json
    assert everything["data"] == {"redactionEnabled": False}
    assert get(app, "/usage_stats_enabled")["data"]["usageStatsEnabled"] is False
    assert get(app, "/cluster_id")["data"]["clusterId"] == skate.get_runtime_context().get_node_id()
