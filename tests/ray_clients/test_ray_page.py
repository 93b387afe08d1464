"""Ray's own page, from the installed Ray, on a dashboard of Skate: each view opens, shows the session, and prints no error."""

from __future__ import annotations

import json
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from selenium import webdriver

from tests.conformance.waiting import wait_for
from tests.pages import browser
from tests.ray_clients.conftest import TOKEN
from tests.ray_clients.page_proxy import Server, served
from tests.ray_clients.ray_programs import WITHOUT, python

pytestmark = [WITHOUT, pytest.mark.ray_clients, pytest.mark.timeout(600)]
SECONDS = 60
PROGRAM = """
import sys, threading, time
import ray
from ray import serve

ray.init(log_to_driver=False)

@ray.remote
def leaf(x):
    return x

@ray.remote
def greet(name):
    print("hello", name)
    return ray.get([leaf.remote(each) for each in range(3)])

@ray.remote(max_retries=0)
def fails():
    raise ValueError("as it should")

@ray.remote
class Counter:
    def add(self):
        print("one more")
        return 1

@serve.deployment
class Greeter:
    async def __call__(self, request):
        return "hello"

def slow(batch):
    time.sleep(1)
    return batch

counter = Counter.options(name="counter").remote()
ray.get([counter.add.remote(), *[greet.remote(name) for name in ("Ada", "Bob")]])
try:
    ray.get(fails.remote())
except ValueError:
    group = ray.util.placement_group([{"CPU": 1}], name="group")
ray.get(group.ready())
serve.start(proxy_location="Disabled")
serve.run(Greeter.bind(), name="greeter")
ray.data.DataContext.get_current().enable_progress_bars = False
rows = ray.data.range(20_000, override_num_blocks=2000).map_batches(slow, batch_size=10)
threading.Thread(target=rows.materialize, daemon=True).start()
from ray.train import RunConfig, ScalingConfig
from ray.train.torch import TorchTrainer
TorchTrainer(lambda config: ray.train.report({"loss": 1.0}), train_loop_config={"lr": 0.1},
    scaling_config=ScalingConfig(num_workers=1), run_config=RunConfig(name="trained", storage_path=sys.argv[1])).fit()
print("ready", flush=True)
threading.Event().wait()
"""
#: The views with a text that each must show; {node}, {job}, {actor}, {task} and {replica} are ids.
VIEWS = {
    "overview": "program.py",
    "platform-events": "Platform Events",
    "cluster": "ray::Counter",
    "cluster/info": "2.60.0",
    "cluster/nodes/{node}": "Node details fetched.",
    "jobs": "RUNNING",
    "jobs/{job}": "Ray Data Overview",
    "jobs/{job}/info": "program.py",
    "jobs/{job}/actors": "Counter",
    "jobs/{job}/actors/{actor}": "counter",
    "jobs/{job}/tasks/{task}": "greet",
    "actors": "counter",
    "actors/{actor}": "counter",
    "actors/{actor}/tasks/{task}": "greet",
    "metrics": "Prometheus",
    "serve": "greeter",
    "serve/system": "gRPC Port",
    "serve/system/controller": "SERVE_CONTROLLER_ACTOR",
    "serve/applications/greeter": "Greeter",
    "serve/applications/greeter/Greeter": "{replica}",
    "serve/applications/greeter/Greeter/{replica}": "RUNNING",
    "logs": "Select a node",
    "logs/?nodeId={node}": "worker-",
    "logs/viewer?nodeId={node}&fileName=job-driver-busy.log": "ready",
}


def get(url: str, path: str) -> Any:
    request = urllib.request.Request(url + path, headers={"Authorization": f"Bearer {TOKEN}"})
    with urllib.request.urlopen(request, timeout=SECONDS) as answer:
        return json.load(answer)


@pytest.fixture(scope="module")
def session(url: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Run the program as a job; return the address of the dashboard."""
    folder = tmp_path_factory.mktemp("program")
    (folder / "program.py").write_text(PROGRAM)
    body = json.dumps(
        {"entrypoint": f"python {folder}/program.py {folder}", "submission_id": "busy"}
    ).encode()
    headers = {"Authorization": f"Bearer {TOKEN}", "Content-Type": "application/json"}
    with urllib.request.urlopen(urllib.request.Request(f"{url}/api/jobs/", body, headers)):
        pass

    def is_ready() -> bool:
        text = get(url, "/api/jobs/busy/logs")["logs"]
        assert "Traceback" not in text, text
        return "ready" in text

    wait_for(is_ready, 2 * SECONDS, "the program to be ready")
    yield url
    stop = urllib.request.Request(f"{url}/api/jobs/busy/stop", b"{}", headers)
    with urllib.request.urlopen(stop):
        pass


@pytest.fixture(scope="module")
def page(session: str) -> Iterator[Server]:
    """Serve Ray's page."""
    with served(session, TOKEN) as server:
        yield server


@pytest.fixture(scope="module")
def driver(tmp_path_factory: pytest.TempPathFactory) -> Iterator[webdriver.Chrome]:
    """Start a browser."""
    browser.required()
    with browser.chromium(tmp_path_factory.mktemp("profile")) as made:
        yield made


@pytest.fixture(scope="module")
def ids(session: str) -> dict[str, str]:
    """Return the ids of what the views are about."""
    actors = get(session, "/logical/actors")["data"]["actors"]
    tasks = get(session, "/api/v0/tasks?detail=1")["data"]["result"]["result"]
    nodes = get(session, "/nodes?view=summary")["data"]["summary"]
    greeter = get(session, "/api/serve/applications/")["applications"]["greeter"]["deployments"]["Greeter"]
    (job,) = (row for row in get(session, "/api/jobs/") if row["submission_id"] == "busy")
    return {
        "job": job["job_id"],
        "node": nodes[0]["raylet"]["nodeId"],
        "actor": next(key for key, row in actors.items() if row["name"] == "counter"),
        "task": next(row["task_id"] for row in tasks if row["name"] == "greet"),
        "replica": greeter["replicas"][0]["replica_id"],
    }


@pytest.mark.parametrize("view", VIEWS)
def test_a_view_shows_the_session_and_prints_no_error(
    page: Server, driver: webdriver.Chrome, ids: dict[str, str], view: str, tmp_path: Path
) -> None:
    page.refused.clear()
    browser.complaints(driver)
    text = VIEWS[view].format(**ids)
    driver.get("about:blank")
    driver.get(f"{page.url}#/{view.format(**ids)}")

    def shown() -> str:
        return str(driver.execute_script("return document.body ? document.body.innerText : ''"))

    try:
        wait_for(lambda: "Overview" in shown() and text in shown(), SECONDS, f"{text!r} in {view}")
    finally:
        browser.picture(driver, tmp_path / "page.png")
        found = browser.complaints(driver)
        assert not found and not page.refused, (found, page.refused, shown())


def test_the_datasets_of_a_job_have_their_operators(session: str) -> None:
    (job,) = (row for row in get(session, "/api/jobs/") if row["submission_id"] == "busy")

    def first() -> Any:
        return get(session, f"/api/data/datasets/{job['job_id']}")["datasets"]

    wait_for(lambda: first() and first()[0]["total_rows"], SECONDS, "rows of the dataset")
    (found,) = first()
    assert (found["state"], found["job_id"], found["end_time"]) == ("RUNNING", job["job_id"], None)
    operators = found["operators"]
    assert "slow" in operators[-1]["name"] and operators[-1]["state"] == "RUNNING"
    assert operators[-1]["ray_data_output_rows"]["max"] == found["ray_data_output_rows"]["max"] > 0
    assert operators[-1]["total"] >= operators[-1]["progress"] > 0 <= operators[-1]["queued_blocks"]
    assert get(session, "/api/data/datasets/99999999") == {"datasets": []}


#: Reads the answer about training runs with Ray's own schema.
SCHEMA = """
import json, sys
from ray.train.v2._internal.state.schema import TrainRunsResponse
runs = TrainRunsResponse.model_validate(json.loads(sys.argv[1])).train_runs
print(json.dumps([[run.name, run.status.value, run.job_id, len(run.attempts[0].workers)] for run in runs]))
"""


def test_training_runs_have_the_shape_of_ray(session: str, tmp_path: Path) -> None:
    """Ray's page has no view for them; its REST has."""
    answer = get(session, "/api/train/v2/runs/v1")
    (job,) = (row for row in get(session, "/api/jobs/") if row["submission_id"] == "busy")
    done = python(SCHEMA, json.dumps(answer), folder=tmp_path, variables={})
    assert json.loads(done.stdout) == [["trained", "FINISHED", job["job_id"], 1]]


def test_tasks_are_summed_up_below_those_that_submitted_them(session: str) -> None:
    (job,) = (row for row in get(session, "/api/jobs/") if row["submission_id"] == "busy")
    of_job = f"filter_keys=job_id&filter_predicates=%3D&filter_values={job['job_id']}"
    answer = get(session, f"/api/v0/tasks/summarize?{of_job}&summary_by=lineage")["data"]["result"]["result"]
    groups = {each["name"]: each for each in answer["node_id_to_summary"]["cluster"]["summary"]}
    greets = groups["greet"]
    assert (greets["type"], len(greets["children"])) == ("GROUP", 2)
    assert greets["state_counts"]["FINISHED"] == 8, "two calls, each with three below it"
    assert [each["name"] for each in greets["children"][0]["children"]] == ["leaf"]
    counter = groups["Counter"]
    assert (counter["type"], counter["link"]["type"]) == ("ACTOR", "actor")
    assert "Counter.add" in {each["name"] for each in counter["children"]}
    by_name = get(session, f"/api/v0/tasks/summarize?{of_job}")["data"]["result"]["result"]
    assert by_name["node_id_to_summary"]["cluster"]["summary"]["leaf"]["state_counts"] == {"FINISHED": 6}
