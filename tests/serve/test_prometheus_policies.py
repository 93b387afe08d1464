"""Autoscaling policies that query a Prometheus server."""

from __future__ import annotations

import http.server
import json
import pickle
import threading
import urllib.parse
from collections.abc import Iterator
from typing import Any

import pytest

from skate.serve.autoscaling_policy import PrometheusQueryMixin, PrometheusScalar, PrometheusVector
from skate.serve.config import AutoscalingConfig, AutoscalingContext, AutoscalingPolicy
from skate.serve.controller.autoscaler import Scaler, decide
from skate.serve.prometheus_query import result_of
from tests.conformance.waiting import wait_for

ANSWERS: dict[str, Any] = {
    "depth": {"resultType": "scalar", "result": [1.0, "7"]},
    "by_queue": {
        "resultType": "vector",
        "result": [
            {"metric": {"queue": name}, "value": [2.0, count]} for name, count in (("a", "1"), ("b", "2"))
        ],
    },
    "one": {"resultType": "vector", "result": [{"metric": {}, "value": [2.0, "5"]}]},
}


@pytest.fixture
def address(monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    class Server(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:  # noqa: N802 (the library's name)
            query = urllib.parse.parse_qs(urllib.parse.urlparse(self.path).query)["query"][0]
            body = json.dumps({"status": "success", "data": ANSWERS[query]}).encode()
            self.send_response(200 if self.headers["X-Who"] == "us" else 403)
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: Any) -> None: ...

    monkeypatch.setenv("RAY_PROMETHEUS_HEADERS", '{"X-Who": "us"}')
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Server)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}/"
    server.shutdown()
    server.server_close()
    thread.join()


class ByDepth(PrometheusQueryMixin):
    def __call__(self, context: AutoscalingContext) -> Any:
        depth = (self.prometheus_metrics or {}).get("depth")
        return (context.target_num_replicas if depth is None else depth), {}


def test_results_by_their_kind(address: str) -> None:
    policy = ByDepth(prometheus_address=address, prometheus_queries=list(ANSWERS))
    assert pickle.loads(pickle.dumps(policy))._queries == list(ANSWERS)
    results = wait_for(lambda: policy.prometheus_results, 20, "the first results")
    assert results["depth"] == PrometheusScalar(7.0, 1.0)
    vector = results["by_queue"]
    assert isinstance(vector, PrometheusVector)
    assert [(each.labels["queue"], each.value, each.timestamp) for each in vector.samples] == [
        ("a", 1, 2),
        ("b", 2, 2),
    ]
    assert policy.prometheus_metrics == {"depth": 7.0, "one": 5.0}
    pickle.dumps(policy)


def test_a_policy_is_a_class_that_is_made_once(address: str) -> None:
    arguments = {"prometheus_address": address, "prometheus_queries": ["depth"]}
    config = AutoscalingConfig(
        max_replicas=5,
        upscale_delay_s=0,
        policy=AutoscalingPolicy(policy_function=ByDepth, policy_kwargs=arguments),
    )
    scaler = Scaler()
    context = AutoscalingContext(current_num_replicas=1, target_num_replicas=1, config=config)
    assert decide(scaler, context, config, 0.0) in (1, 5), "nothing is waited for"
    wait_for(lambda: decide(scaler, context, config, 0.0) == 5, 20, "seven are wanted and five allowed")
    pickle.dumps(config)


def test_what_is_not_known_is_none() -> None:
    assert ByDepth().prometheus_results is None, "no address and no queries"
    old = ByDepth(prometheus_address="http://127.0.0.1:1", prometheus_queries=["depth"])
    assert old.prometheus_metrics is None
    with pytest.raises(ValueError, match="failed: bad"):
        result_of({"status": "error", "error": "bad"}, "depth")
    with pytest.raises(ValueError, match="returned a matrix"):
        result_of({"status": "success", "data": {"resultType": "matrix", "result": []}}, "depth")
    with pytest.raises(ValueError, match="above 0"):
        ByDepth(fetch_interval_s=0)
