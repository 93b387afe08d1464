"""The stage that asks a deployment, with a Serve that is no more than a handle."""

from __future__ import annotations

import asyncio
import sys
import types
from collections.abc import AsyncIterator
from typing import Any

import numpy as np
import pytest

import skate
from skate.data.llm import ServeDeploymentProcessorConfig, build_processor


class Request:
    def __init__(self, request_id: str, prompt: str) -> None:
        self.prompt = prompt


class Handle:
    """Answers a prompt by its length; "slow" never, "bad" by an error."""

    def __init__(self) -> None:
        self.say = self

    def options(self, stream: bool) -> Handle:
        assert stream
        return self

    async def remote(self, request: Any) -> AsyncIterator[dict[str, Any]]:
        prompt = request["prompt"] if isinstance(request, dict) else request.prompt
        if prompt == "slow":
            await asyncio.Event().wait()
        if prompt == "bad":
            raise ValueError("a bad prompt")
        if prompt == "worse":
            raise OSError("no disk")
        yield {"length": len(prompt)}


@pytest.fixture(autouse=True)
def serve(monkeypatch: pytest.MonkeyPatch) -> None:
    module = types.ModuleType("skate.serve")
    module.get_deployment_handle = lambda name, app: Handle()  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "skate.serve", module)
    monkeypatch.setattr(skate, "serve", module, raising=False)  # set once another test has imported it


def results(prompts: list[str], dtype: str | None = None, **more: Any) -> list[dict[str, Any]]:
    given = ServeDeploymentProcessorConfig(deployment_name="d", dtype_mapping={"Request": Request}, **more)
    stage = build_processor(given).get_stage_by_name("ServeDeploymentStage")
    arguments = stage.get_dataset_map_batches_kwargs(4, "__data")["fn_constructor_kwargs"]
    rows = [
        {"method": "say", "dtype": dtype, "request_kwargs": {"prompt": each}, "keep": 1} for each in prompts
    ]
    column = np.empty(len(rows), dtype=object)
    column[:] = rows
    found: list[dict[str, Any]] = stage.fn(**arguments)({"__data": column})["__data"]
    return found


@pytest.mark.parametrize("dtype", [None, "Request"])
def test_answers_are_added_to_rows(dtype: str | None) -> None:
    rows = results(["a", "bcd"], dtype)
    assert [(row["length"], row["keep"], row["request_id"]) for row in rows] == [(1, 1, "0"), (3, 1, "1")]


def test_an_unknown_class_of_requests_is_named() -> None:
    with pytest.raises(ValueError, match="lacks 'Other', the dtype of a row; its keys are Request"):
        results(["a"], "Other")


def test_rows_that_fail_are_told_apart_if_asked_for() -> None:
    rows = results(["a", "bad", "slow"], should_continue_on_error=True, request_timeout_s=0.05)
    assert [row["__inference_error__"] for row in rows] == [
        "",
        "ValueError: a bad prompt",
        "TimeoutError: say did not respond within request_timeout_s=0.05 s",
    ]
    assert rows[1]["request_kwargs"] == "{'prompt': 'bad'}"


def test_what_is_not_the_rows_fault_is_raised() -> None:
    with pytest.raises(OSError, match="no disk"):
        results(["worse"], should_continue_on_error=True)
    with pytest.raises(ValueError, match="bad prompt"):
        results(["bad"])
