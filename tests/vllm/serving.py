"""Applications behind HTTP, and the processes of vLLM below them."""

from __future__ import annotations

import os
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import openai

import skate
from skate import serve
from tests.vllm.models import QUICK

HELLO: list[Any] = [{"role": "user", "content": "Hi"}]
#: The chat as the template of the models writes it.
PROMPT = "<|user|>Hi\n<|assistant|>"
#: Arguments of a request whose answer does not vary.
GREEDY: dict[str, Any] = {"model": "m", "temperature": 0}


def config(model: Path, model_id: str = "m", **more: Any) -> dict[str, Any]:
    """The config of a model; it names no device."""
    return {
        "model_loading_config": {"model_id": model_id, "model_source": str(model)},
        **more,
        "engine_kwargs": {**QUICK, **more.get("engine_kwargs", {})},
    }


@contextmanager
def served(app: Any, cpus: int = 4) -> Iterator[str]:
    """The address of an application, which runs until the end of the block."""
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        port = sock.getsockname()[1]
    skate.init(num_cpus=cpus, log_to_driver=False)
    try:
        serve.start(http_options={"host": "127.0.0.1", "port": port})
        serve.run(app)
        yield f"http://127.0.0.1:{port}"
    finally:
        serve.shutdown()
        skate.shutdown()


def client(url: str) -> openai.OpenAI:
    """OpenAI's client, which tries once."""
    return openai.OpenAI(base_url=f"{url}/v1", api_key="none", max_retries=0, timeout=120)


def cores() -> list[int]:
    """The engine cores of vLLM that this run has started, as process ids."""
    mark = f"SKATE_TEST_RUN={os.environ['SKATE_TEST_RUN']}".encode()
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            if b"EngineCore" in (folder / "comm").read_bytes() + (folder / "cmdline").read_bytes():
                if mark in (folder / "environ").read_bytes().split(b"\0"):
                    found.append(int(folder.name))
        except OSError:  # it has ended
            continue
    return found
