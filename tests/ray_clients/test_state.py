"""`ray list`, `get`, `summary`, `logs` and `serve status` of real Ray, and its Python functions, on a session of Skate."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest

from tests.ray_clients.ray_programs import WITHOUT, Client, python

pytestmark = [WITHOUT, pytest.mark.ray_clients]
#: Each kind of rows: a column with the id, and a text of one of its rows.
KINDS = {
    "tasks": ("task_id", "greet"),
    "actors": ("actor_id", "Counter"),
    "jobs": ("job_id", "busy"),
    "nodes": ("node_id", "ALIVE"),
    "workers": ("worker_id", "DRIVER"),
    "objects": ("object_id", "LOCAL_REFERENCE"),
    "placement-groups": ("placement_group_id", "group"),
    "runtime-envs": ("", "working_dir"),
    "cluster-events": ("", ""),  # nothing has happened to the cluster
}


@pytest.mark.parametrize("kind", KINDS)
def test_ray_list_and_get(client: Client, busy: str, kind: str) -> None:
    column, text = KINDS[kind]
    assert (text or "No resource in the cluster") in client.ray("list", kind).stdout
    if column:
        rows = json.loads(client.ray("list", kind, "--detail", "--format", "json").stdout)
        row = next(each for each in rows if text in json.dumps(each))
        if kind != "jobs":  # Ray's client gets no jobs by their ids
            got = client.ray("get", kind, row[column]).stdout
            assert row[column] in got and "not found" not in got


def test_ray_list_with_filters(client: Client, busy: str) -> None:
    named = client.ray("list", "tasks", "--filter", "name=greet", "--format", "json", "--limit", "1").stdout
    assert [each["name"] for each in json.loads(named)] == ["greet"]
    submitted = client.ray("list", "jobs", "--filter", "submission_id=busy", "--format", "json").stdout
    (job,) = json.loads(submitted)
    assert (job["status"], job["submission_id"]) == ("RUNNING", "busy") and job["type"].endswith("SUBMISSION")
    refused = client.ray("list", "tasks", "--filter", "colour=red", check=False)
    assert refused.returncode != 0 and "colour" in refused.stdout + refused.stderr


def test_ray_summary(client: Client, busy: str) -> None:
    assert re.search(r"greet +FINISHED: 2", client.ray("summary", "tasks").stdout)
    assert re.search(r"Counter +ALIVE: 1", client.ray("summary", "actors").stdout)
    assert "LOCAL_REFERENCE" in client.ray("summary", "objects").stdout


def test_serve_status(client: Client, busy: str) -> None:
    shown = client.serve("status").stdout
    assert "greeter:" in shown and "status: RUNNING" in shown and "Greeter:" in shown


#: `ray logs` and the functions of `ray.util.state` take the address of a cluster's own store, which knows the server's. The
#: program answers that one question; everything else is Ray's.
LOGS = """
import sys
import ray.util.state.api, ray.dashboard.utils
for module in (ray.util.state.api, ray.dashboard.utils):
    module.ray_address_to_api_server_url = lambda address: sys.argv[1]
"""


def logs(client: Client, text: str) -> Any:
    done = python(
        f"{LOGS}\nimport json\n{text}\nprint('\\n' + json.dumps(found))", client.url,
        folder=client.folder, variables=client.variables,
    )  # fmt: skip
    return json.loads(done.stdout.splitlines()[-1])


def test_logs_through_rays_functions(client: Client, busy: str) -> None:
    found = logs(
        client,
        "from ray.util.state import get_log, list_actors, list_logs, list_tasks, list_nodes\n"
        "(node,) = list_nodes(address=sys.argv[1])\n"
        "actor = list_actors(address=sys.argv[1], filters=[('name', '=', 'counter')])[0]\n"
        "task = list_tasks(address=sys.argv[1], filters=[('name', '=', 'greet')])[0]\n"
        "names = list_logs(node_id=node.node_id)\n"
        "found = {'names': names, 'actor': list(get_log(actor_id=actor.actor_id)), 'task': list(get_log(task_id=task.task_id)),\n"
        "         'follow': next(get_log(actor_id=actor.actor_id, follow=True))}",
    )
    assert "one more" in "".join(found["actor"]) and "one more" in found["follow"]
    assert re.fullmatch(r"hello (Ada|Bob)\s*", "".join(found["task"]))
    assert [name for names in found["names"].values() for name in names if name.startswith("worker-")]
