"""init(_tracing_startup_hook=...): spans of OpenTelemetry around calls, one where a call is made and one where it runs."""

from __future__ import annotations

import json
import pathlib
from collections.abc import Callable
from typing import Any

import pytest

pytest.importorskip("opentelemetry.sdk")

HOOK = """
import os
from opentelemetry import trace
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import ConsoleSpanExporter, SimpleSpanProcessor

def set_up():
    out = open(os.path.join(os.environ["SPANS"], f"{os.getpid()}.txt"), "w")
    exporter = ConsoleSpanExporter(out=out, formatter=lambda span: span.to_json(indent=None) + os.linesep)
    provider = TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    trace.set_tracer_provider(provider)
"""

PROGRAM = """
import ray
from opentelemetry import baggage, context
ray.init(START, num_cpus=2, _tracing_startup_hook="hook_of_a_test:set_up")

@ray.remote
def double(x):
    return 2 * x

@ray.remote
def calls_double():
    return ray.get(double.remote(4))

@ray.remote
class Counter:
    def __init__(self, start):
        self.n = start

    def add(self, more=1):
        self.n += more
        return self.n

@ray.remote
class Loop:
    async def answer(self):
        return 42

    async def calls_double(self):
        return await double.remote(21)

@ray.remote(max_retries=0)
def fails():
    raise ValueError("as it should")

@ray.remote
def reads_baggage():
    return baggage.get_baggage("who")

@ray.remote
def counts(n):
    for each in range(n):  # Ray cannot send other iterators than generators
        yield each

def nested():
    @ray.remote
    class Inner:
        def answer(self):
            return 42

    return Inner

token = context.attach(baggage.set_baggage("who", "me"))
assert ray.get(reads_baggage.remote()) == "me"
context.detach(token)
assert [ray.get(each) for each in counts.remote(3)] == [0, 1, 2]
assert ray.get(nested().remote().answer.remote()) == 42
assert ray.get(double.remote(1)) == 2
assert ray.get(double.remote(x=3)) == 6
assert ray.get(calls_double.remote()) == 8
counter = Counter.remote(5)
assert ray.get([counter.add.remote(), counter.add.remote(more=2)]) == [6, 8]
loop = Loop.remote()
assert ray.get(loop.answer.remote()) == 42
assert ray.get(loop.calls_double.remote()) == 42
try:
    ray.get(fails.remote())
except ValueError:
    print("done")
ray.shutdown()
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> pathlib.Path:
    return tmp_path_factory.mktemp("spans")


@pytest.fixture
def spans(folder: pathlib.Path, script: Callable[..., Any]) -> list[dict[str, Any]]:
    """The spans of one program, which runs for the first test that needs them."""
    if not (folder / "hook_of_a_test.py").exists():
        (folder / "hook_of_a_test.py").write_text(HOOK)
        path = ":".join([str(folder), *filter(None, [__import__("os").environ.get("PYTHONPATH")])])
        done = script(PROGRAM, SPANS=str(folder), PYTHONPATH=path)
        assert done.stdout.split() == ["done"], done.stderr
    return [json.loads(line) for path in folder.glob("*.txt") for line in path.read_text().splitlines()]


def module() -> str:
    """The module name of a script's functions."""
    return "__main__"


CALLS = [
    (f"{module()}.double", 4), (f"{module()}.calls_double", 1), ("Counter.__init__", 1), ("Counter.add", 2),
    ("Loop.answer", 1), (f"{module()}.fails", 1), (f"{module()}.counts", 1),
]  # fmt: skip


@pytest.mark.parametrize(("name", "times"), CALLS)
def test_each_call_is_a_span_where_it_is_made(spans: list[dict[str, Any]], name: str, times: int) -> None:
    found = [each for each in spans if each["name"] == f"{name} ray.remote"]
    assert [each["kind"] for each in found] == ["SpanKind.PRODUCER"] * times


@pytest.mark.parametrize(("name", "times"), CALLS)
def test_each_call_is_a_span_where_it_runs(spans: list[dict[str, Any]], name: str, times: int) -> None:
    found = [each for each in spans if each["name"] == f"{name} ray.remote_worker"]
    assert [each["kind"] for each in found] == ["SpanKind.CONSUMER"] * times


def test_the_span_where_a_call_runs_is_a_child_of_the_one_where_it_is_made(
    spans: list[dict[str, Any]],
) -> None:
    by_id = {each["context"]["span_id"]: each for each in spans}
    running = [each for each in spans if each["name"].endswith(" ray.remote_worker")]
    assert running
    for each in running:
        made = by_id[each["parent_id"]]["name"]
        # Only the side that makes a call names the function in which the class of an actor is.
        assert made.removeprefix("nested.<locals>.") == each["name"].removesuffix("_worker")
        assert by_id[each["parent_id"]]["context"]["trace_id"] == each["context"]["trace_id"]


def test_a_call_inside_of_a_task_is_a_child_of_the_task(spans: list[dict[str, Any]]) -> None:
    by_id = {each["context"]["span_id"]: each for each in spans}
    parents = [
        by_id[each["parent_id"]]["name"]
        for each in spans
        if each["name"] == f"{module()}.double ray.remote" and each["parent_id"]
    ]
    assert sorted(parents) == [
        "Loop.calls_double ray.remote_worker",
        f"{module()}.calls_double ray.remote_worker",
    ]


def test_a_span_has_the_error_of_its_call(spans: list[dict[str, Any]]) -> None:
    (failed,) = (each for each in spans if each["status"]["status_code"] == "ERROR")
    assert failed["name"] == f"{module()}.fails ray.remote_worker"
    assert failed["status"]["description"] == "ValueError: as it should"
    (event,) = failed["events"]
    assert (event["name"], event["attributes"]["exception.type"]) == ("exception", "ValueError")
    assert event["attributes"]["exception.message"] == "as it should"


def test_spans_name_tasks_and_actors(spans: list[dict[str, Any]]) -> None:
    """Spans of actors name the actor; spans of functions name the task that runs there."""
    for each in spans:
        attributes = each["attributes"]
        is_function = attributes["ray.remote"] == "function"
        assert ("ray.actor_id" in attributes) is not is_function
        in_task = each["name"].endswith("_worker") or each["parent_id"] is not None
        assert ("ray.task_id" in attributes) is (is_function and in_task), each["name"]


@pytest.mark.parametrize(
    "name", ["ray.remote", "ray.function", "ray.pid", "ray.job_id", "ray.node_id", "ray.worker_id"]
)
def test_spans_have_attributes(spans: list[dict[str, Any]], name: str) -> None:
    assert all(each["attributes"].get(name) for each in spans)


def test_spans_of_actors_name_class_and_method(spans: list[dict[str, Any]]) -> None:
    found = {
        (each["attributes"]["ray.actor_class"], each["attributes"]["ray.actor_method"])
        for each in spans
        if each["attributes"]["ray.remote"] == "actor"
    }
    assert {("Counter", "__init__"), ("Counter", "add"), ("Loop", "answer")} <= found
