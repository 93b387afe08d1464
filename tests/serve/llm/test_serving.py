"""Models behind Serve as OpenAI's client sees them: two models, an adapter, streams, errors, clients that disconnect."""

from __future__ import annotations

import asyncio
import json
import os
import socket
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import openai
import pytest
import torch
import yaml
from transformers import AutoModelForCausalLM

import skate
from skate import serve
from skate.llm import EngineArgs
from skate.llm.embedded.engine import EmbeddedEngine
from skate.serve import config_loader
from skate.serve.llm import LLMConfig, OpenAiIngress, build_llm_deployment
from skate.serve.llm.openai_api_models import CompletionRequest, CompletionResponse
from tests.llm import tiny
from tests.llm.asking import ask

peft = pytest.importorskip("peft", reason="LoRA adapters are read by peft")

# peft uses a deprecated name of transformers.
pytestmark = pytest.mark.filterwarnings("ignore:.*is_gradient_checkpointing:FutureWarning")

os.environ.setdefault("HF_HUB_OFFLINE", "1")
HELLO: list[Any] = [{"role": "user", "content": "Hi"}]
PROMPT = "<|user|>Hi\n<|assistant|>"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tiny.save(tmp_path_factory.mktemp("model") / "tiny")
    torch.manual_seed(1)
    lora = peft.LoraConfig(r=4, target_modules=["q_proj", "v_proj", "down_proj"], init_lora_weights=False)
    model = AutoModelForCausalLM.from_pretrained(made)
    peft.get_peft_model(model, lora).save_pretrained(made.parent / "adapters" / "loud")
    return made


def config(folder: Path, model_id: str) -> dict[str, Any]:
    return {
        "model_loading_config": {"model_id": model_id, "model_source": str(folder)},
        "llm_engine": "embedded",
        "engine_kwargs": {"num_threads": 1, "max_num_seqs": 4},
        "lora_config": {"dynamic_lora_loading_path": str(folder.parent / "adapters")},
        "deployment_config": {"ray_actor_options": {"num_cpus": 0.5}},
    }


@pytest.fixture(scope="module")
def url(folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Two models behind one endpoint, deployed from a YAML file as `serve deploy` does."""
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        port = sock.getsockname()[1]
    skate.init(num_cpus=4, log_to_driver=False)
    serve.start(http_options={"host": "127.0.0.1", "port": port})
    app = {
        "name": "default",
        "route_prefix": "/",
        "import_path": "skate.serve.llm:build_openai_app",
        "args": {"llm_configs": [config(folder, "tiny"), config(folder, "org/other-1.5")]},
    }
    path = tmp_path_factory.mktemp("config") / "serve.yaml"
    path.write_text(yaml.safe_dump({"applications": [app]}))
    config_loader.deploy(config_loader.read(str(path)))
    deadline = time.monotonic() + 120
    while (application := serve.status().applications["default"]).status != "RUNNING":
        assert time.monotonic() < deadline and application.status == "DEPLOYING", (
            f"the models do not run: {application}"
        )
        threading.Event().wait(0.05)  # another process starts them
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
    listed = [each.id for each in client.models.list()]
    assert listed == [
        "tiny",
        "org/other-1.5",
        "tiny:loud",
        "org/other-1.5:loud",
    ]  # with the folder's adapters
    assert client.models.retrieve("org/other-1.5").id == "org/other-1.5"
    assert set(serve.status().applications["default"].deployments) == {
        "OpenAiIngress",
        "LLMServer:tiny",
        "LLMServer:org--other-1_5",
    }
    assert len(client.embeddings.create(model="tiny", input="ab").data[0].embedding) == 32


def test_LLM_2_a_stream_is_lines_of_data_that_end_with_done(url: str) -> None:
    body = {"model": "tiny", "messages": HELLO, "stream": True, "max_tokens": 5, "temperature": 0}
    with httpx.stream("POST", f"{url}/v1/chat/completions", json=body) as answer:
        assert answer.headers["content-type"].startswith("text/event-stream")
        lines = [line for line in answer.iter_lines() if line]
    assert lines.pop() == "data: [DONE]" and all(line.startswith("data: {") for line in lines)
    found = [json.loads(line.removeprefix("data: ")) for line in lines]
    assert {each["object"] for each in found} == {"chat.completion.chunk"}
    assert found[0]["choices"][0]["delta"]["role"] == "assistant"


def test_LLM_3_the_model_field_picks_deployment_and_adapter(client: Any) -> None:
    params: dict[str, Any] = {"messages": HELLO, "max_tokens": 12, "temperature": 0}
    answers = {
        model: client.chat.completions.create(model=model, **params)
        for model in ("tiny", "tiny:loud", "org/other-1.5:loud")
    }
    assert [each.model for each in answers.values()] == list(answers)
    texts = {model: each.choices[0].message.content for model, each in answers.items()}
    assert texts["tiny:loud"] == texts["org/other-1.5:loud"] != texts["tiny"]
    assert client.models.retrieve("tiny:loud").id == "tiny:loud"


def test_LLM_4_deployments_are_named_by_their_models(url: str) -> None:
    found = serve.status().applications["default"].deployments
    assert set(found) == {"OpenAiIngress", "LLMServer:tiny", "LLMServer:org--other-1_5"}
    idle = {
        "model_loading_config": {"model_id": "m"},
        "deployment_config": {"autoscaling_config": {"min_replicas": 0}},
    }
    busy = {"model_loading_config": {"model_id": "n"}}
    both = [LLMConfig(**each) for each in (idle, busy)]
    assert OpenAiIngress.get_deployment_options(both[:1])["autoscaling_config"]["min_replicas"] == 0
    assert "min_replicas" not in OpenAiIngress.get_deployment_options(both).get("autoscaling_config", {})


def test_errors_have_openais_shape(client: Any) -> None:
    with pytest.raises(openai.NotFoundError, match="'none' does not exist"):
        client.chat.completions.create(model="none", messages=HELLO)
    with pytest.raises(openai.NotFoundError, match="does not exist"):
        client.chat.completions.create(model="tiny:none", messages=HELLO)
    with pytest.raises(openai.BadRequestError, match="context is 256"):
        client.completions.create(model="tiny", prompt="x" * 300)
    with pytest.raises(openai.BadRequestError, match="'tiny' gives no text of audio"):
        client.audio.transcriptions.create(model="tiny", file=("a.wav", b"RIFF" * 300_000))
    image: Any = {"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA"}}
    with pytest.raises(openai.BadRequestError, match="the model 'tiny' takes only text"):
        client.chat.completions.create(model="tiny", messages=[{"role": "user", "content": [image]}])


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
        lines = (
            answer.iter_lines()
        )  # keep a reference, because httpx disconnects when the response is deleted
        next(lines)
        assert handle.load.remote().result()[1] > 50
    began = time.monotonic()
    while handle.load.remote().result() != (0, 0):
        # All 100 answers, four at a time, would take 5,000 steps.
        assert time.monotonic() - began < 10, "the answers of a client that is gone continue"


def test_a_model_that_is_not_there_fails_at_run(url: str) -> None:
    app = build_llm_deployment(LLMConfig(**config(Path("/nowhere"), "broken")))
    with pytest.raises(RuntimeError, match="nowhere"):
        serve.run(app, name="broken", route_prefix=None)
    serve.delete("broken")
