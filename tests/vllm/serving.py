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
    """OpenAI's client, which tries once; two workers on a busy machine need minutes for their first answer."""
    return openai.OpenAI(base_url=f"{url}/v1", api_key="none", max_retries=0, timeout=300)


def cores() -> list[int]:
    """The engine cores of vLLM below this process, as process ids."""
    parents, found = {}, []
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            stat = (folder / "stat").read_text().rpartition(")")[2].split()
            line = (folder / "cmdline").read_bytes()
        except OSError:  # it has ended
            continue
        parents[int(folder.name)] = int(stat[1])
        if b"EngineCore" in line and stat[0] != "Z":
            found.append(int(folder.name))
    return sorted(pid for pid in found if _is_below(pid, parents))


def _is_below(pid: int, parents: dict[int, int]) -> bool:
    while pid > 1 and pid != os.getpid():
        pid = parents.get(pid, 0)
    return pid == os.getpid()
