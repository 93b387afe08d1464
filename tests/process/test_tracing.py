"""Sessions with a hook for tracing: streams, batches that wait at the end, hooks that fail, standing nodes, and Serve."""

from __future__ import annotations

import json
import socket
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.process.programs import Program
from tests.process.standing import Node

pytest.importorskip("opentelemetry.sdk")

HOOK = """
import json, os
from opentelemetry import trace
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor, SpanExporter, SpanExportResult

class Lines(SpanExporter):
    def export(self, spans):
        with open(os.path.join(os.environ["SPANS"], f"{os.getpid()}.json"), "a") as file:
            for each in spans:
                file.write(each.to_json(indent=None) + "\\n")
        return SpanExportResult.SUCCESS

def in_batches():
    provider = TracerProvider()
    # Nothing is exported before the end of the session.
    provider.add_span_processor(BatchSpanProcessor(Lines(), schedule_delay_millis=1_000_000))
    trace.set_tracer_provider(provider)

def in_the_driver_alone():
    if "SKATE_TRACING_HOOK" in os.environ:
        raise OSError("no collector here")
    in_batches()
"""
STREAMS = """
import asyncio
ray.init(START, _tracing_startup_hook="hooks_of_a_test:in_batches")

@ray.remote
def leaf(n):
    return n

@ray.remote
class Streams:
    def values(self, n):
        for each in range(n):
            yield ray.get(leaf.remote(each))

@ray.remote
class AsyncStreams:
    async def values(self, n):
        for each in range(n):
            yield await leaf.remote(each)

    async def both(self):
        return await asyncio.gather(leaf.remote(1), leaf.remote(2))

for actor in (Streams.remote(), AsyncStreams.remote()):
    print([ray.get(each) for each in actor.values.remote(2)])
print(ray.get([actor.both.remote() for _ in range(3)]))
ray.shutdown()
print("recording", "SKATE_TRACING_HOOK" in __import__("os").environ)
"""


@pytest.fixture
def hooks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return the folder of the spans, with a module of hooks that all processes can import."""
    (tmp_path / "hooks_of_a_test.py").write_text(HOOK)
    monkeypatch.setenv("SPANS", str(tmp_path))
    return tmp_path


def spans(folder: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for path in folder.glob("*.json") for line in path.read_text().splitlines()]


def parents(found: list[dict[str, Any]], name: str) -> list[str]:
    by_id = {each["context"]["span_id"]: each["name"] for each in found}
    return sorted(by_id.get(each["parent_id"], "") for each in found if each["name"] == name)


def test_calls_of_streams_and_of_async_methods_belong_to_them(
    run: Callable[..., Program], hooks: Path
) -> None:
    ended = run(STREAMS, PYTHONPATH=str(hooks))
    assert ended.lines == ["[0, 1]", "[0, 1]", "[[1, 2], [1, 2], [1, 2]]", "recording False"], ended.story()
    found = spans(hooks)
    callers = ["AsyncStreams.both"] * 6 + ["AsyncStreams.values"] * 2 + ["Streams.values"] * 2
    assert parents(found, "__main__.leaf ray.remote") == [f"{each} ray.remote_worker" for each in callers]
    assert parents(found, "__main__.leaf ray.remote_worker") == ["__main__.leaf ray.remote"] * 10


def test_a_hook_that_fails_in_workers_does_not_stop_them(run: Callable[..., Program], hooks: Path) -> None:
    ended = run(
        """
        ray.init(START, _tracing_startup_hook="hooks_of_a_test:in_the_driver_alone")

        @ray.remote
        def work(x):
            return x

        print(ray.get(work.remote(x=3)))
        """,
        PYTHONPATH=str(hooks),
    )
    assert ended.lines == ["3"]
    assert "in_the_driver_alone has failed in this worker" in ended.err
    assert "no collector here" in ended.err
    assert [each["name"] for each in spans(hooks)] == ["__main__.work ray.remote"]


def test_a_node_has_a_hook_for_all_that_join(
    node: Node, program: Callable[..., Program], hooks: Path
) -> None:
    refused = node.command("start", "--head", "--tracing-startup-hook", "hooks_of_a_test", check=False)
    assert refused.returncode == 1 and 'must be "module:function"' in refused.stderr
    node.start("--tracing-startup-hook", "hooks_of_a_test:in_batches", cpus=1)
    text = """
    ray.init("auto")

    @ray.remote
    def work(x):
        return x

    print(ray.get(work.remote(3)))
    """
    joined = program(text, PYTHONPATH=str(hooks), **node.environment)
    assert joined.end() == 0 and joined.lines == ["3"], joined.story()
    assert parents(spans(hooks), "__main__.work ray.remote_worker") == ["__main__.work ray.remote"]
    without = program(text, **node.environment)
    assert without.end() == 1 and "No module named 'hooks_of_a_test'" in without.err
    assert not node.status()["drivers"]


SERVED = """
import urllib.request
from skate import serve
ray.init(START, _tracing_startup_hook="hooks_of_a_test:in_batches")

@ray.remote
def leaf():
    return "hello"

@serve.deployment(ray_actor_options={"num_cpus": 0})
class Back:
    async def __call__(self):
        return await leaf.remote()

@serve.deployment(ray_actor_options={"num_cpus": 0})
class Front:
    def __init__(self, back):
        self.back = back

    async def __call__(self, request):
        return await self.back.remote()

serve.start(http_options={"port": PORT})
serve.run(Front.bind(Back.bind()), name="app", route_prefix="/app")
with urllib.request.urlopen("http://127.0.0.1:PORT/app") as answer:
    print(answer.read().decode())
serve.shutdown()
ray.shutdown()
"""


def test_calls_of_replicas_continue_the_trace_of_the_request(
    run: Callable[..., Program], hooks: Path
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    ended = run(SERVED.replace("PORT", str(port)), PYTHONPATH=str(hooks))
    assert ended.lines == ["hello"], ended.story()
    found = spans(hooks)
    assert parents(found, "__main__.leaf ray.remote") == ["Back.__call__"]
    assert parents(found, "Back.__call__") == ["Back.__call__ call"]
    assert parents(found, "Back.__call__ call") == ["GET /app"]
    (request,) = (each for each in found if each["name"] == "GET /app")
    (work,) = (each for each in found if each["name"] == "__main__.leaf ray.remote_worker")
    assert work["context"]["trace_id"] == request["context"]["trace_id"]
