"""The lines of a replica's log, as text and as JSON, and the file that has them."""

from __future__ import annotations

import json
import logging
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx
import pytest
import ray
from ray import serve
from ray.serve.context import _get_serve_request_context

from tests.conformance.waiting import wait_for

Deploy = Callable[..., Any]


@serve.deployment(ray_actor_options={"num_cpus": 0})
class Talks:
    def __call__(self, request: Any) -> dict[str, Any]:
        logger = logging.getLogger("ray.serve")
        logger.info("said", extra={"mine": "a", "ray_serve_extra_fields": {"more": "b"}})
        logger.info("only in the file", extra={"log_to_stderr": False})
        logger.info("as of an access", extra={"serve_access_log": True})
        logger.debug("too small")
        try:
            raise KeyError("inside")
        except KeyError as error:
            logger.error("failed", exc_info=error)
        runtime = ray.get_runtime_context()
        return {
            "request_id": _get_serve_request_context().request_id,
            "route": _get_serve_request_context().route,
            "application": serve.get_replica_context().app_name,
            "replica": serve.get_replica_context().replica_id.unique_id,
            "worker_id": runtime.get_worker_id(),
            "node_id": runtime.get_node_id(),
            "actor_id": runtime.get_actor_id(),
        }


def asked(app: str, deploy: Deploy, http: httpx.Client, folder: Path, **config: Any) -> tuple[Any, str]:
    """Serve it under a name, ask it once; return its answer and the text of its log file."""
    deploy(Talks.bind(), app, logging_config={"logs_dir": str(folder), **config})
    answer = http.get(f"/{app}").json()
    file = folder / f"replica_{app}_Talks_{answer['replica']}.log"
    wait_for(lambda: file.exists() and "inside" in file.read_text(), what="the line of the error")
    return answer, file.read_text()


def test_text(deploy: Deploy, http: httpx.Client, tmp_path: Path) -> None:
    answer, text = asked("text", deploy, http, tmp_path, additional_log_standard_attrs=["name"])
    of_request = f"text_Talks {answer['replica']} {answer['request_id']} ray.serve"
    assert re.search(
        rf"^INFO \d{{4}}-\d\d-\d\d \d\d:\d\d:\d\d,\d\d\d {of_request} -- said$", text, re.MULTILINE
    )
    assert "only in the file" in text and "as of an access" in text and "too small" not in text


def test_json(deploy: Deploy, http: httpx.Client, tmp_path: Path) -> None:
    answer, text = asked("json", deploy, http, tmp_path, encoding="JSON")
    lines = {line["message"]: line for line in map(json.loads, text.splitlines())}
    said = lines["said"]
    assert {name: said[name] for name in answer} == answer
    assert (said["levelname"], said["mine"], said["more"]) == ("INFO", "a", "b")
    assert (said["deployment"], said["component_name"]) == ("json_Talks", "replica")
    assert said["filename"] and said["lineno"] and said["asctime"] and said["timestamp_ns"] > 1e18
    assert "serve_access_log" not in lines["as of an access"]
    assert "KeyError: 'inside'" in lines["failed"]["exc_text"]


@pytest.mark.parametrize("encoding", ["TEXT", "JSON"])
def test_without_access_lines(encoding: str, deploy: Deploy, http: httpx.Client, tmp_path: Path) -> None:
    _, text = asked(f"no{encoding}", deploy, http, tmp_path, encoding=encoding, enable_access_log=False)
    assert "said" in text and "as of an access" not in text
