"""Calls of tools by a model in vLLM, with its own parsers and constraints."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from skate.serve.llm import build_openai_app
from tests.llm import tiny
from tests.vllm import models, serving
from tests.vllm.serving import GREEDY, HELLO

CITIES = ["Oslo", "Rome"]
WEATHER = {
    "type": "object",
    "properties": {"city": {"enum": CITIES}, "days": {"type": "integer", "minimum": 1, "maximum": 9}},
    "required": ["city", "days"],
    "additionalProperties": False,
}
TOOLS: list[Any] = [
    {"type": "function", "function": {"name": "weather", "parameters": WEATHER}},
    {"type": "function", "function": {"name": "now", "parameters": {"type": "object", "properties": {}}}},
]
#: Without this, a model of random weights writes spaces wherever JSON allows them.
NO_SPACES = {str(tiny.tokenizer().encode(each)[0]): -100 for each in " \n\t"}


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    folder: Path = models.text_model(tmp_path_factory.mktemp("model") / "text", max_position_embeddings=1024)
    context = {"max_model_len": 1024}
    options = {**context, "enable_auto_tool_choice": True, "tool_call_parser": "hermes"}
    configs = [
        serving.config(folder, "hermes", engine_kwargs=options),
        serving.config(folder, "plain", engine_kwargs=context),
    ]
    with serving.served(build_openai_app({"llm_configs": configs}), cpus=6) as found:
        yield found


def asked(url: str, stream: bool, **given: Any) -> tuple[dict[str, Any], str]:
    """The message of an answer, and its finish reason."""
    given = {**GREEDY, "messages": HELLO, "tools": TOOLS, "max_tokens": 150, "logit_bias": NO_SPACES, **given}
    with serving.client(url) as client:
        found = client.chat.completions.create(stream=stream, **given)
        if not stream:
            choice = found.choices[0]
            return choice.message.model_dump(exclude_none=True), choice.finish_reason
        message: dict[str, Any] = {"content": "", "tool_calls": []}
        end = ""
        for chunk in found:
            for choice in chunk.choices:
                message["content"] += choice.delta.content or ""
                end = choice.finish_reason or end
                for part in choice.delta.tool_calls or ():
                    if part.index == len(message["tool_calls"]):
                        message["tool_calls"].append(
                            {"id": part.id, "function": {"name": "", "arguments": ""}}
                        )
                    call = message["tool_calls"][part.index]["function"]
                    call["name"] += part.function.name or ""
                    call["arguments"] += part.function.arguments or ""
        return message, end


def checked(call: dict[str, Any]) -> str:
    """The name of a call whose arguments fit its schema."""
    assert call["id"]
    name, arguments = call["function"]["name"], json.loads(call["function"]["arguments"])
    if name == "now":
        assert arguments == {}
    else:
        assert arguments.keys() == {"city", "days"}
        assert arguments["city"] in CITIES and arguments["days"] in range(1, 10)
    return str(name)


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("model", ["hermes", "plain"])
def test_forced_calls_follow_the_schemas(url: str, model: str, stream: bool) -> None:
    named = {"type": "function", "function": {"name": "weather"}}
    message, end = asked(url, stream, model=model, tool_choice=named)
    assert [checked(each) for each in message["tool_calls"]] == ["weather"] and end == "stop"
    message, end = asked(url, stream, model=model, tool_choice="required", parallel_tool_calls=False)
    assert [checked(each) for each in message["tool_calls"]] in (["weather"], ["now"])
    assert end == "tool_calls" and not message.get("content")


@pytest.mark.parametrize("stream", [False, True])
def test_a_parser_finds_the_calls_that_a_model_chooses(url: str, stream: bool) -> None:
    """The form stands for a model that has learned to call tools."""
    call = '<tool_call>{"name": "weather", "arguments": {"city": "(Oslo|Rome)", "days": [1-9]}}</tool_call>'
    form = {"structured_outputs": {"regex": call.replace("{", r"\{").replace("}", r"\}")}}
    message, end = asked(url, stream, model="hermes", extra_body=form)
    assert [checked(each) for each in message["tool_calls"]] == ["weather"] and end == "tool_calls"
    text, end = asked(url, stream, model="hermes", extra_body={"structured_outputs": {"regex": "[ab]{5}"}})
    assert not text.get("tool_calls") and len(text["content"]) == 5 and end == "stop"


def test_results_are_part_of_the_conversation(url: str) -> None:
    message, _ = asked(url, False, model="hermes", tool_choice="required", parallel_tool_calls=False)
    (call,) = message["tool_calls"]
    result = {"role": "tool", "tool_call_id": call["id"], "content": "sunny"}
    answer, _ = asked(url, False, model="hermes", messages=[*HELLO, message, result], tool_choice="none")
    assert answer["content"] and not answer.get("tool_calls")
