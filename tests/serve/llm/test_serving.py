"""Models behind Serve as OpenAI's client sees them: two models, an adapter, streams, errors, clients that go away."""

from __future__ import annotations

import asyncio
import os
import socket
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import openai
import pytest

import skate
from skate import serve
from skate.llm import EngineArgs
from skate.llm.embedded.engine import EmbeddedEngine
from skate.serve.llm import (
    LLMConfig,
    build_llm_deployment,
    build_openai_app,
)
from skate.serve.llm.openai_api_models import CompletionRequest, CompletionResponse
from tests.llm import tiny
from tests.llm.asking import ask

os.environ.setdefault("HF_HUB_OFFLINE", "1")
HELLO: list[Any] = [{"role": "user", "content": "Hi"}]
PROMPT = "<|user|>Hi\n<|assistant|>"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tiny.save(tmp_path_factory.mktemp("model") / "tiny")


def config(folder: Path, model_id: str) -> LLMConfig:
    return LLMConfig(
        model_loading_config={"model_id": model_id, "model_source": str(folder)},
        llm_engine="embedded",
        engine_kwargs={"num_threads": 1, "max_num_seqs": 4},
        deployment_config={"ray_actor_options": {"num_cpus": 0.5}},
    )


@pytest.fixture(scope="module")
def url(folder: Path) -> Iterator[str]:
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        port = sock.getsockname()[1]
    skate.init(num_cpus=4, log_to_driver=False)
    serve.start(http_options={"host": "127.0.0.1", "port": port})
    app = build_openai_app({"llm_configs": [config(folder, "tiny"), config(folder, "org/other-1.5")]})
    serve.run(app)
    yield f"http://127.0.0.1:{port}"
    serve.shutdown()
    skate.shutdown()


@pytest.fixture
def client(url: str) -> Iterator[Any]:
    with openai.OpenAI(base_url=f"{url}/v1", api_key="none", max_retries=0) as made:
        yield made


def test_both_models_answer_as_the_engine_does(client: Any, folder: Path) -> None:
    async def run() -> str:
        engine = EmbeddedEngine(EngineArgs(str(folder)))
        await engine.start()
        text = (await ask(engine, PROMPT, max_tokens=12)).text
        await engine.stop()
        return text

    wanted = asyncio.run(run())
    for model in ("tiny", "org/other-1.5"):
        params: dict[str, Any] = {"model": model, "messages": HELLO, "max_tokens": 12, "temperature": 0}
        whole = client.chat.completions.create(**params)
        assert whole.choices[0].message.content == wanted and whole.model == model
        parts = [
            choice.delta.content or ""
            for chunk in client.chat.completions.create(**params, stream=True)
            for choice in chunk.choices
        ]
        assert "".join(parts) == wanted
    assert [each.id for each in client.models.list()] == ["tiny", "org/other-1.5"]
    assert client.models.retrieve("org/other-1.5").id == "org/other-1.5"
    assert set(serve.status().applications["default"].deployments) == {
        "OpenAiIngress",
        "LLMServer:tiny",
        "LLMServer:org--other-1_5",
    }
    assert len(client.embeddings.create(model="tiny", input="ab").data[0].embedding) == 32


def test_errors_have_openais_shape(client: Any) -> None:
    with pytest.raises(openai.NotFoundError, match="'none' does not exist"):
        client.chat.completions.create(model="none", messages=HELLO)
    with pytest.raises(openai.NotFoundError, match="does not exist"):
        client.chat.completions.create(model="tiny:adapter", messages=HELLO)
    with pytest.raises(openai.BadRequestError, match="context is 256"):
        client.completions.create(model="tiny", prompt="x" * 300)


def test_a_handle_gives_models_of_answers(url: str) -> None:
    async def run() -> Any:
        handle = serve.get_deployment_handle("LLMServer:tiny", "default").options(stream=True)
        request = CompletionRequest(model="tiny", prompt="ab", max_tokens=3, temperature=0)
        return [each async for each in handle.completions.remote(request)]

    (answer,) = asyncio.run(run())
    assert isinstance(answer, CompletionResponse) and answer.usage.completion_tokens <= 3


def test_a_client_that_goes_away_ends_its_request(url: str) -> None:
    handle = serve.get_deployment_handle("LLMServer:tiny", "default")
    body = {"model": "tiny", "prompt": "ab", "max_tokens": 200, "stream": True, "ignore_eos": True, "n": 100}
    with httpx.stream("POST", f"{url}/v1/completions", json=body) as answer:
        lines = answer.iter_lines()  # kept, as httpx hangs up when it goes
        next(lines)
        assert handle.load.remote().result()[1] > 50
    began = time.monotonic()
    while handle.load.remote().result() != (0, 0):
        # All 100 answers, four at a time, would take 5,000 steps.
        assert time.monotonic() - began < 10, "the answers of a client that is gone go on"


def test_a_model_that_is_not_there_fails_at_run(url: str) -> None:
    app = build_llm_deployment(config(Path("/nowhere"), "broken"))
    with pytest.raises(RuntimeError, match="nowhere"):
        serve.run(app, name="broken", route_prefix=None)
    serve.delete("broken")
