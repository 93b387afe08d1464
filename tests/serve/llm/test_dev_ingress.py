"""The endpoints for operators, over replicas of a stand-in for a model."""

from __future__ import annotations

import os
import socket
from collections.abc import AsyncGenerator, Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

import skate
from skate import serve
from skate.llm.openai.responses import CompletionResponse, Usage
from skate.serve.llm import LLMConfig
from skate.serve.llm.dev_ingress import build_dev_openai_app


class Model:
    """Keeps what it was told."""

    def __init__(self, llm_config: LLMConfig) -> None:
        self.paused = self.asleep = False

    async def pause(self, mode: str = "abort") -> None:
        assert mode == "keep"
        self.paused = True

    async def resume(self) -> None:
        self.paused = False

    async def is_paused(self) -> bool:
        return self.paused

    async def sleep(self, level: int = 1) -> None:
        raise NotImplementedError("this engine does not sleep")

    async def is_sleeping(self) -> bool:
        return self.asleep

    async def reset_prefix_cache(self) -> None:
        self.asleep = True

    async def collective_rpc(self, method: str, timeout: Any, args: Any, kwargs: Any) -> list[Any]:
        return [os.getpid(), method, timeout, args, kwargs]

    async def completions(self, request: Any, raw: Any) -> AsyncGenerator[Any, None]:
        yield CompletionResponse(id="1", model=request.model, choices=[], usage=Usage())

    @classmethod
    def get_deployment_options(cls, llm_config: LLMConfig) -> dict[str, Any]:
        return {"num_replicas": 2, "ray_actor_options": {"num_cpus": 0.5}}


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    adapters = tmp_path_factory.mktemp("adapters")
    for name in ("loud", "soft"):
        (adapters / name).mkdir()
        (adapters / name / "adapter_config.json").write_text("{}")
    (adapters / "none").mkdir()
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        port = sock.getsockname()[1]
    skate.init(num_cpus=4, log_to_driver=False)
    serve.start(http_options={"host": "127.0.0.1", "port": port})
    config = {
        "model_loading_config": {"model_id": "m"},
        "server_cls": Model,
        "lora_config": {"dynamic_lora_loading_path": str(Path(adapters))},
    }
    serve.run(build_dev_openai_app({"llm_configs": [config]}))
    yield f"http://127.0.0.1:{port}"
    serve.shutdown()
    skate.shutdown()


def test_all_replicas_are_controlled(url: str) -> None:
    where = {"params": {"model": "m"}}
    assert httpx.get(f"{url}/is_paused", **where).json() == {"is_paused": False}
    body = {"model": "m", "options": {"mode": "keep"}}
    assert httpx.post(f"{url}/pause", json=body).status_code == 200
    assert httpx.get(f"{url}/is_paused", **where).json() == {"is_paused": True}
    assert httpx.post(f"{url}/resume", json={"model": "m"}).status_code == 200
    assert httpx.get(f"{url}/is_paused", **where).json() == {"is_paused": False}
    assert httpx.post(f"{url}/reset_prefix_cache", json={"model": "m"}).status_code == 200
    assert httpx.get(f"{url}/is_sleeping", **where).json() == {"is_sleeping": True}
    rpc = {"model": "m", "method": "f", "args": [1], "kwargs": {"a": 2}, "timeout": 3}
    found = httpx.post(f"{url}/collective_rpc", json=rpc).json()["results"]
    assert [each["replica"] for each in found] == [0, 1]
    assert {tuple(map(str, each["worker_results"][1:])) for each in found} == {
        ("f", "3.0", "[1]", "{'a': 2}")
    }
    assert len({each["worker_results"][0] for each in found}) == 2


def test_wrong_requests_have_openais_errors(url: str) -> None:
    unknown = httpx.post(f"{url}/pause", json={"model": "none"})
    assert unknown.status_code == 404 and unknown.json()["error"]["code"] == "model_not_found"
    missing = httpx.post(f"{url}/sleep", json={})
    assert missing.status_code == 400 and missing.json()["error"]["param"] == "model"
    cannot = httpx.post(f"{url}/sleep", json={"model": "m"})
    assert cannot.status_code == 400 and "does not sleep" in cannot.json()["error"]["message"]


def test_adapters_of_the_folder_are_listed_but_are_no_second_model(url: str) -> None:
    found = httpx.get(f"{url}/v1/models").json()["data"]
    assert [each["id"] for each in found] == ["m", "m:loud", "m:soft"]
    assert httpx.post(f"{url}/v1/completions", json={"prompt": "a"}).json()["model"] == "m"
