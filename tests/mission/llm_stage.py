"""Runs the mission's blocks of Serve LLM as ``__main__``: a small model stands where they look for Llama, on CPUs.

What the client's block calls localhost:8000 is a free port of this machine.
"""

from __future__ import annotations

import functools
import socket
import sys
from pathlib import Path

import openai
import ray
from ray import serve

ray.init(num_cpus=4)

with socket.socket() as free:
    free.bind(("127.0.0.1", 0))
    port = free.getsockname()[1]

first, *rest = sys.argv[1:]
exec(compile(Path(first).read_text(), first, "exec", dont_inherit=True), globals())
serve.run(globals()["app"], host="127.0.0.1", port=port)


class Client(openai.OpenAI):
    """The client, at the port that is free; few tokens are enough."""

    def __init__(self, base_url: str, **options: str) -> None:
        assert base_url == "http://localhost:8000/v1"
        super().__init__(base_url=f"http://127.0.0.1:{port}/v1", **options)
        create = self.chat.completions.create
        self.chat.completions.create = functools.partial(create, max_tokens=20)


openai.OpenAI = Client
for path in rest:
    exec(compile(Path(path).read_text(), path, "exec", dont_inherit=True), globals())

answer = globals()["response"].choices[0]
assert answer.finish_reason in ("stop", "length")
deployment = serve.status().applications["default"].deployments["LLMServer:my-llama"]
assert deployment.replica_states == {"RUNNING": 1}, deployment
print("the model answered")
serve.shutdown()
ray.shutdown()
