"""Answers in the shapes of a real Ray 2.60, which `shapes_of_ray.py` has recorded."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
from prometheus_client.parser import text_string_to_metric_families

import skate
from skate.autoscaler.report import status_text
from skate.client.state import survey
from skate.dashboard import mask
from skate.dashboard.app import guarded
from skate.dashboard.guard import Guard
from tests.conformance.waiting import wait_for
from tests.dashboard.asking import Answer, access, ask, bearer

SHAPES: dict[str, Any] = json.loads((Path(__file__).parent / "ray_shapes.json").read_text())


@skate.remote
class Actor:
    def go(self) -> int:
        return 1


@skate.remote(runtime_env={"env_vars": {"KEY": "a-secret"}})
class Keeper:
    def go(self) -> int:
        return 1


@skate.remote
def fails() -> None:
    raise ValueError("no")


@pytest.fixture(scope="module")
def app() -> Iterator[Guard]:
    skate.init(num_cpus=2, object_store_memory=10**8, log_to_driver=False)
    actor, keeper = Actor.options(name="named").remote(), Keeper.remote()
    skate.get([actor.go.remote(), keeper.go.remote()])
    with pytest.raises(ValueError, match="no"):
        skate.get(fails.remote())
    skate.get(skate.util.placement_group([{"CPU": 1}], name="group").ready())
    kept = skate.put(b"x" * 10**6)
    yield guarded(access())
    del kept, actor, keeper
    skate.shutdown()


def get(app: Guard, path: str) -> Answer:
    return ask(app, path, headers=[bearer("read")])


@pytest.mark.parametrize("kind", SHAPES["rows"])
def test_rows_have_the_columns_of_ray(app: Guard, kind: str) -> None:
    shapes = SHAPES["rows"][kind]
    for query, word in (("", "list"), ("?detail=1&limit=1", "detail")):
        answer = get(app, f"/api/v0/{kind}{query}").json
        assert answer["result"] is True and answer["msg"] == ""
        result = answer["data"]["result"]
        assert sorted(result) == SHAPES["envelope"]
        assert result["total"] == len(result["result"])
        for row in result["result"]:
            assert set(row) <= set(shapes["columns"])
            assert word not in shapes or sorted(row) == shapes[word]
        assert word not in shapes or result["result"], "Ray has a row here"


@pytest.mark.parametrize("path", SHAPES["paths"])
def test_answers_have_the_keys_of_ray(app: Guard, path: str) -> None:
    expected = SHAPES["paths"][path]
    answer = get(app, path)
    assert answer.status == expected["status"]
    assert answer.headers["content-type"].partition(";")[0] == expected["type"]
    compare(answer.json, expected["keys"], path)


def compare(found: Any, expected: Any, path: str) -> None:
    if not isinstance(expected, dict):
        assert expected in (type(found).__name__, "NoneType"), (path, found)
        return
    assert set(found) == set(expected), path
    for key, each in expected.items():
        compare(found[key], each, f"{path} {key}")


def test_filters_limits_and_errors(app: Guard) -> None:
    def names(query: str) -> list[str]:
        return [row["name"] for row in get(app, f"/api/v0/tasks?{query}").json["data"]["result"]["result"]]

    wanted = f"filter_keys=name&filter_predicates={quote('=')}&filter_values=fails"
    assert names(wanted) == ["fails"]
    assert "fails" not in names(wanted.replace(quote("="), quote("!=")))
    assert len(names("limit=1")) == 1
    for query in (
        "limit=x",
        "limit=10001",
        "filter_keys=name",
        wanted.replace("=name", "=nope"),
        "timeout=x",
    ):
        answer = get(app, f"/api/v0/tasks?{query}")
        assert answer.status == 400 and answer.json["result"] is False and answer.json["msg"], query


def test_the_timeline_is_a_list_of_events(app: Guard) -> None:
    answer = get(app, "/api/v0/tasks/timeline?download=1")
    assert "timeline" in answer.headers["content-disposition"]
    names = {(event["pid"], event["tid"]) for event in answer.json if event["name"] == "thread_name"}
    spans = [event for event in answer.json if event["ph"] == "X"]
    assert spans and all((event["pid"], event["tid"]) in names for event in spans)
    assert all(type(number) is int for pair in names for number in pair), "as Perfetto wants them"


def test_the_metrics_are_those_of_the_session(app: Guard) -> None:
    answer = get(app, "/metrics")
    assert answer.headers["content-type"].startswith("text/plain; version=0.0.4")
    families = {each.name for each in text_string_to_metric_families(answer.body.decode())}
    assert {"ray_tasks", "ray_actors", "ray_resources", "ray_running_jobs", "ray_node_mem_used"} <= families
    assert get(app, "/api/prometheus/sd").json == [{"labels": {"job": "ray"}, "targets": ["127.0.0.1:8265"]}]


def test_a_node_that_is_late_fails_the_scrape(app: Guard, monkeypatch: pytest.MonkeyPatch) -> None:
    really = survey.ask

    def late(process: Any, kinds: tuple[str, ...], *rest: Any) -> Any:
        return ([], ["node"]) if "metrics" in kinds else really(process, kinds, *rest)

    monkeypatch.setattr(survey, "ask", late)
    answer = get(app, "/metrics")
    assert answer.status == 503 and b"no node has answered" in answer.body


def test_the_status_of_the_cluster_names_what_waits(app: Guard) -> None:
    never = [Actor.options(num_cpus=2).remote() for _ in range(3)]
    group = skate.util.placement_group([{"CPU": 2}] * 2, strategy="SPREAD")
    try:
        report = get(app, "/api/cluster_status").json["data"]
        fields = report["clusterStatus"]["loadMetricsReport"]
        assert fields["usage"]["CPU"] == [1.0, 2.0]
        assert fields["resourceDemand"] == [[{"CPU": 2.0}, 3]]
        assert fields["pgDemand"] == [[{"strategy": "SPREAD", "bundles": [[{"CPU": 2.0}, 2]]}, 1]]
        text = get(app, "/api/cluster_status?format=1").json["data"]["clusterStatus"]
        for line in (" 1 head", " 1.0/2.0 CPU", " {'CPU': 2.0}: 3+ pending tasks/actors"):
            assert line in text.splitlines(), text
        assert "Total Usage:\n" in text and "+ pending placement groups" in text
    finally:
        for each in never:
            skate.kill(each)
        skate.util.remove_placement_group(group)
    wait_for(lambda: "(no resource demands)" in status_text(), what="the end of the demand")


def test_one_node_and_one_actor(app: Guard) -> None:
    (node,) = get(app, "/nodes?view=summary").json["data"]["summary"]
    node_id = node["raylet"]["nodeId"]
    assert get(app, f"/nodes/{node_id}").json["data"]["detail"]["raylet"]["state"] == "ALIVE"
    assert get(app, "/nodes/00").status == 404 and get(app, "/nodes").status == 400
    found = get(app, "/logical/actors").json["data"]["actors"]
    (actor_id,) = (each for each, row in found.items() if row["name"] == "named")
    detail = get(app, f"/logical/actors/{actor_id}").json["data"]["detail"]
    assert (detail["name"], detail["state"], detail["actorClass"]) == ("named", "ALIVE", "Actor")


@pytest.mark.parametrize("kind", ["actors", "tasks", "runtime_envs"])
def test_variables_are_shown_to_whom_may_submit_jobs_alone(app: Guard, kind: str) -> None:
    path = f"/api/v0/{kind}?detail=1"
    assert b"a-secret" in ask(app, path, headers=[bearer("submit")]).body
    for scope in ("read", "control"):
        body = ask(app, path, headers=[bearer(scope)]).body
        assert b"a-secret" not in body and b"***" in body and b"KEY" in body
    guess = "/api/v0/runtime_envs?filter_keys=runtime_env&filter_predicates=%3D&filter_values=x"
    assert get(app, guess).status == 400 and ask(app, guess, headers=[bearer("submit")]).status == 200


def test_secrets_in_texts_are_hidden() -> None:
    row = {
        "runtime_env": {
            "pip": ["--index-url", "https://me:pw@host/simple"],
            "config": {"api_key": "k", "n": 3},
        },
        "serialized_runtime_env": '{"env_vars": {"A": "b"}}',
        "user_config": {"hf_token": "t", "tokenizer": "gpt2"},
        "deployments": [{"args": {"password": "p"}, "name": "password"}],
        "name": "https://me:pw@host",
    }
    shown = mask.without_secrets(row)
    assert shown == {
        "runtime_env": {
            "pip": ["--index-url", "https://***@host/simple"],
            "config": {"api_key": "***", "n": 3},
        },
        "serialized_runtime_env": '{"env_vars": {"A": "***"}}',
        "user_config": {"hf_token": "***", "tokenizer": "gpt2"},
        "deployments": [{"args": {"password": "***"}, "name": "password"}],
        "name": "https://me:pw@host",
    }
