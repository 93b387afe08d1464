"""Records the shapes of a real Ray's REST answers into ray_shapes.json; only names and types, no values.

Run it with a Python that has ray[default]: `python tests/dashboard/shapes_of_ray.py`.
"""

from __future__ import annotations

import json
import os
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any

PORT = 18265
KINDS = (
    "actors",
    "jobs",
    "placement_groups",
    "nodes",
    "workers",
    "tasks",
    "objects",
    "runtime_envs",
    "cluster_events",
)
PATHS = (
    "/api/version", "/api/ray/version", "/nodes?view=summary", "/nodes?view=hostNameList", "/api/cluster_status",
    "/api/cluster_status?format=1", "/logical/actors", "/api/v0/cluster_metadata", "/api/component_activities", "/timezone",
    "/api/authentication_mode", "/events", "/api/v0/tasks?limit=abc", "/api/v0/tasks/summarize", "/api/v0/actors/summarize",
    "/api/v0/objects/summarize", "/api/v0/logs",
)  # fmt: skip


def get(path: str) -> tuple[int, str, Any]:
    request = urllib.request.Request(f"http://127.0.0.1:{PORT}{path}")
    token = Path(os.path.expanduser("~/.ray/auth_token"))
    if token.exists():
        request.add_header("Authorization", f"Bearer {token.read_text().strip()}")
    try:
        answer = urllib.request.urlopen(request, timeout=60)
    except urllib.error.HTTPError as error:
        answer = error
    with answer:
        return answer.status, answer.headers.get_content_type(), json.loads(answer.read())


def keys(value: Any, depth: int) -> Any:
    if isinstance(value, dict) and depth:
        return {key: keys(each, depth - 1) for key, each in sorted(value.items())}
    return type(value).__name__


def main() -> None:
    import ray
    from ray.util.state import common

    schemas = (
        common.ActorState, common.JobState, common.PlacementGroupState, common.NodeState, common.WorkerState,
        common.TaskState, common.ObjectState, common.RuntimeEnvState, common.ClusterEventState,
    )  # fmt: skip
    ray.init(num_cpus=2, include_dashboard=True, dashboard_port=PORT, log_to_driver=False)

    @ray.remote
    class Actor:
        def go(self) -> int:
            return 1

    actor = Actor.options(name="named").remote()
    ray.get(actor.go.remote())
    ray.get(ray.util.placement_group([{"CPU": 1}], name="group").ready())
    kept = ray.put(b"x" * 10**6)
    made: dict[str, Any] = {"rows": {}, "paths": {}}
    for kind, schema in zip(KINDS, schemas, strict=True):
        found = made["rows"][kind] = {"columns": sorted(schema.columns())}
        for query, word in (("", "list"), ("?detail=1&limit=1", "detail")):
            result = get(f"/api/v0/{kind}{query}")[2]["data"]["result"]
            made["envelope"] = sorted(result)
            if result["result"]:
                found[word] = sorted(result["result"][0])
    for path in PATHS:
        status, type_, answer = get(path)
        made["paths"][path] = {"status": status, "type": type_, "keys": keys(answer, 2)}
    (Path(__file__).parent / "ray_shapes.json").write_text(json.dumps(made, indent=1, sort_keys=True))
    del kept
    ray.shutdown()


if __name__ == "__main__":
    main()
