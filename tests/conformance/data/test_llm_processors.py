"""ray.data.llm without an engine: configurations, and requests to a server."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest
import ray
import ray.data

pytest.importorskip("ray.data.llm")
from ray.data import llm

pytestmark = pytest.mark.usefixtures("cluster")


class Echo(BaseHTTPRequestHandler):
    """Answers JSON by itself; a payload says what else is to happen."""

    protocol_version = "HTTP/1.1"

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        server: Any = self.server
        with server.lock:
            server.seen.append((time.monotonic(), dict(self.headers), body))
            number = len(server.seen)
        status, made = 200, b"no JSON"
        if self.headers["Content-Type"] == "application/json":
            payload = json.loads(body)
            if number <= payload.get("busy", 0):
                status = payload.get("status", 503)
            if not payload.get("plain"):
                made = json.dumps({"echo": payload}).encode()
        else:
            made = json.dumps({"form": body.decode("latin-1")}).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json" if made != b"no JSON" else "text/plain")
        self.send_header("Content-Length", str(len(made)))
        self.end_headers()
        self.wfile.write(made)

    def log_message(self, *args: Any) -> None:
        pass


@pytest.fixture
def server() -> Iterator[Any]:
    found: Any = ThreadingHTTPServer(("127.0.0.1", 0), Echo)
    found.lock = threading.Lock()
    found.seen = []
    found.url = f"http://127.0.0.1:{found.server_port}/"
    thread = threading.Thread(target=found.serve_forever, args=(0.05,), daemon=True)
    thread.start()
    yield found
    found.shutdown()
    thread.join()
    found.server_close()


def processor(server: Any, payload: Any, postprocess: Any = None, **more: Any) -> Any:
    config = llm.HttpRequestProcessorConfig(url=server.url, **more)
    return llm.build_processor(
        config, preprocess=lambda row: {"payload": payload(row)}, postprocess=postprocess
    )


# -- configurations


def test_defaults_of_processors() -> None:
    config = llm.ProcessorConfig()
    assert (config.batch_size, config.accelerator_type, config.concurrency) == (32, None, 1)
    http = llm.HttpRequestProcessorConfig(url="http://x")
    assert (http.batch_size, http.qps, http.max_retries, http.base_retry_wait_time_in_s) == (64, None, 0, 1)


def test_defaults_of_engines() -> None:
    config = llm.vLLMEngineProcessorConfig(model_source="m")
    assert config.task_type == "generate"
    assert config.max_concurrent_batches == 8
    assert config.should_continue_on_error is False
    assert config.engine_kwargs == {"task_type": "generate"}
    assert llm.SGLangEngineProcessorConfig(model_source="m").engine_kwargs == {"task": "generate"}


def test_defaults_of_deployments_and_stages() -> None:
    config = llm.ServeDeploymentProcessorConfig(deployment_name="d")
    assert (config.app_name, config.dtype_mapping, config.request_timeout_s) == ("default", None, None)
    stage = llm.ChatTemplateStageConfig(batch_size=7)
    assert (stage.enabled, stage.batch_size, stage.model_source) == (True, 7, None)
    assert llm.PrepareMultimodalStageConfig().chat_template_content_format == "string"


@pytest.mark.parametrize("concurrency", [0, -1, (0, 1), (3, 2), (1, 2, 3), "many"])
def test_concurrency_is_checked(concurrency: Any) -> None:
    with pytest.raises(ValueError):
        llm.ProcessorConfig(concurrency=concurrency)


@pytest.mark.parametrize(
    "given",
    [{}, {"model_source": "m", "modle": 1}, {"model_source": 3}, {"model_source": "m", "task_type": "sing"}],
)
def test_fields_are_checked(given: dict[str, Any]) -> None:
    with pytest.raises(ValueError):
        llm.vLLMEngineProcessorConfig(**given)


@pytest.mark.parametrize(
    "given",
    [{}, {"bundles": [{"GPU": 1}], "bundle_per_worker": {"GPU": 1}}, {"bundles": [{"GPU": -1}]},
     {"bundles": [{"GPU": 1}], "strategy": "HEAP"}],
)  # fmt: skip
def test_placement_is_checked(given: dict[str, Any]) -> None:
    with pytest.raises(ValueError):
        llm.vLLMEngineProcessorConfig(model_source="m", placement_group_config=given)


def test_placement_gets_its_defaults() -> None:
    config = llm.vLLMEngineProcessorConfig(
        model_source="m", placement_group_config={"bundle_per_worker": {"GPU": 1}}
    )
    assert config.placement_group_config == {
        "bundle_per_worker": {"CPU": 0.0, "GPU": 1.0}, "bundles": None, "strategy": "PACK",
    }  # fmt: skip


def test_request_timeout_is_above_zero() -> None:
    with pytest.raises(ValueError):
        llm.ServeDeploymentProcessorConfig(deployment_name="d", request_timeout_s=0)


def test_fields_are_checked_when_they_are_set() -> None:
    config = llm.ProcessorConfig()
    config.concurrency = (1, 4)
    assert config.get_concurrency() == {"min_size": 1, "max_size": 4}
    with pytest.raises(ValueError):
        config.concurrency = 0


def test_sizes_of_pools() -> None:
    config = llm.ProcessorConfig(concurrency=4)
    assert config.get_concurrency() == {"min_size": 1, "max_size": 4}
    assert config.get_concurrency(autoscaling_enabled=False) == {"size": 4}


def test_configs_dump_and_compare() -> None:
    stage = llm.TokenizerStageConfig(num_cpus=2)
    assert stage.model_dump()["num_cpus"] == 2
    assert stage == llm.TokenizerStageConfig(num_cpus=2)
    assert stage != llm.TokenizerStageConfig()


def test_only_some_configs_build() -> None:
    with pytest.raises(ValueError):
        llm.build_processor(llm.ProcessorConfig())


def test_arguments_of_the_builder_are_checked() -> None:
    config = llm.HttpRequestProcessorConfig(url="http://x")
    with pytest.raises(ValueError, match="preprocess"):
        llm.build_processor(config, builder_kwargs={"preprocess": len})
    with pytest.raises(TypeError):
        llm.build_processor(config, builder_kwargs={"unheard_of": 1})
    with pytest.raises(ValueError):
        llm.build_processor(llm.HttpRequestProcessorConfig(url="http://x", http_request_stage=False))
    with pytest.raises(TypeError):
        llm.build_processor(llm.HttpRequestProcessorConfig(url="http://x", http_request_stage=3))


def test_stages_by_name() -> None:
    made = llm.build_processor(
        llm.HttpRequestProcessorConfig(url="http://x", http_request_stage={"num_cpus": 0.5})
    )
    assert made.list_stage_names() == ["HttpRequestStage"]
    assert made.get_stage_by_name("HttpRequestStage").map_batches_kwargs["num_cpus"] == 0.5
    with pytest.raises(ValueError):
        made.get_stage_by_name("Other")
    made.log_input_column_names()


@pytest.mark.chosen_difference(
    "a missing engine is an error when the processor is built", id="D-data-llm-cpu"
)
def test_an_engine_that_is_not_installed_is_an_import_error() -> None:
    for name in ("vllm", "transformers"):
        try:
            __import__(name)
        except ImportError:
            break
    else:
        pytest.skip("vllm is installed")
    with pytest.raises(ImportError):
        llm.build_processor(llm.vLLMEngineProcessorConfig(model_source="m", accelerator_type="A100"))


@pytest.mark.chosen_difference("an engine of its own runs models on CPUs", id="D-data-llm-cpu")
def test_without_vllm_and_gpus_a_model_runs_on_cpus() -> None:
    pytest.importorskip("transformers", reason="what runs models on CPUs stands on it")
    try:
        __import__("vllm")
    except ImportError:
        made = llm.build_processor(llm.vLLMEngineProcessorConfig(model_source="m"))
        assert "vLLMEngineStage" in made.list_stage_names()
    else:
        pytest.skip("vllm is installed")


# -- requests


def test_answers_come_back_beside_the_columns(server: Any) -> None:
    run = processor(server, lambda row: {"n": row["id"]}, batch_size=2)
    rows = sorted(run(ray.data.range(5)).take_all(), key=lambda row: row["id"])
    assert [row["http_response"] for row in rows] == [{"echo": {"n": n}} for n in range(5)]
    assert rows[3]["payload"] == {"n": 3}
    assert "__data" not in rows[0]


def test_only_what_postprocess_returns_is_left(server: Any) -> None:
    run = processor(
        server, lambda row: {"n": row["id"]}, lambda row: {"n": row["http_response"]["echo"]["n"]}
    )
    assert run(ray.data.range(1)).take_all() == [{"n": 0}]


def test_headers_are_sent(server: Any) -> None:
    processor(server, lambda row: {}, headers={"Authorization": "Bearer x"})(ray.data.range(1)).take_all()
    headers = server.seen[0][1]
    assert headers["Authorization"] == "Bearer x"
    assert headers["Content-Type"] == "application/json"


def test_nothing_is_sent_before_something_is_asked_for(server: Any) -> None:
    processor(server, lambda row: {})(ray.data.range(1))
    assert server.seen == []


def test_files_make_a_form(server: Any) -> None:
    def payload(row: dict[str, Any]) -> dict[str, Any]:
        return {"file": b"bytes of it", "model": "m"}

    row = processor(server, payload)(ray.data.range(1)).take_all()[0]
    form = row["http_response"]["form"]
    assert 'name="file"' in form and "bytes of it" in form and 'name="model"' in form


@pytest.mark.parametrize("status", [408, 429, 503])
def test_busy_servers_are_asked_again(server: Any, status: int) -> None:
    run = processor(
        server, lambda row: {"busy": 2, "status": status}, max_retries=2, base_retry_wait_time_in_s=0.01
    )
    assert len(run(ray.data.range(1)).take_all()) == 1
    assert len(server.seen) == 3


def test_other_answers_are_not_asked_for_again(server: Any) -> None:
    run = processor(
        server, lambda row: {"busy": 1, "status": 404}, max_retries=2, base_retry_wait_time_in_s=0.01
    )
    assert run(ray.data.range(1)).take_all()[0]["http_response"]["echo"]["busy"] == 1
    assert len(server.seen) == 1


def test_a_server_that_stays_busy_is_an_error(server: Any) -> None:
    run = processor(server, lambda row: {"busy": 9}, max_retries=1, base_retry_wait_time_in_s=0.01)
    with pytest.raises(Exception, match="503|max_retries|maximum retries"):
        run(ray.data.range(1)).take_all()


def test_a_server_that_is_not_there_is_an_error() -> None:
    config = llm.HttpRequestProcessorConfig(url="http://127.0.0.1:9/", base_retry_wait_time_in_s=0.01)
    run = llm.build_processor(config, preprocess=lambda row: {"payload": {}})
    with pytest.raises(Exception, match="127.0.0.1|retries"):
        run(ray.data.range(1)).take_all()


def test_an_answer_that_is_no_json_is_an_error(server: Any) -> None:
    with pytest.raises(Exception, match="JSON|json|mimetype"):
        processor(server, lambda row: {"plain": True})(ray.data.range(1)).take_all()


def test_a_row_without_a_payload_is_an_error(server: Any) -> None:
    run = llm.build_processor(llm.HttpRequestProcessorConfig(url=server.url))
    with pytest.raises(Exception, match="payload"):
        run(ray.data.range(1)).take_all()


def test_requests_keep_to_a_pace(server: Any) -> None:
    run = processor(server, lambda row: {"n": row["id"]}, qps=20)
    assert len(run(ray.data.range(9, override_num_blocks=1)).take_all()) == 9
    times = [each[0] for each in server.seen]
    # Eight gaps of 50 ms, less what the first request may have been late by.
    assert max(times) - min(times) >= 0.3


@pytest.mark.chosen_difference("batches of a stage are as its config says", id="D-data-llm-batches")
def test_a_stage_can_have_a_batch_size_of_its_own() -> None:
    config = llm.HttpRequestProcessorConfig(url="http://x", http_request_stage={"batch_size": 3})
    stage = llm.build_processor(config).get_stage_by_name("HttpRequestStage")
    assert stage.get_dataset_map_batches_kwargs(batch_size=64, data_column="__data")["batch_size"] == 3


@pytest.mark.chosen_difference("an empty answer is an answer", id="D-data-llm-empty-answer")
def test_an_empty_list_is_an_answer(server: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(json, "dumps", lambda value: "[]")
    rows = processor(server, lambda row: {})(ray.data.range(1)).take_all()
    assert list(rows[0]["http_response"]) == []
