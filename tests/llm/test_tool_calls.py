"""Tools over HTTP with OpenAI's client: choices, streams, results, and what is refused."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import openai
import pytest
from pydantic import BaseModel, Field

from skate.llm import EngineArgs
from skate.llm.embedded import structured_output
from skate.llm.embedded.engine import EmbeddedEngine
from skate.llm.openai.app import LocalModels, build_app
from skate.llm.openai.model_service import ModelService
from skate.llm.tool_calls.options import ToolOptions
from tests.llm import scripted
from tests.llm.served import Served

TEMPLATE = (
    "{% if tools %}<|tools|>{{ tools | tojson }}\n{% endif %}"
    "{% for message in messages %}<|{{ message.role }}|>{{ message.content }}"
    "{% for call in message.tool_calls or [] %}<tool_call>{{ call.function | tojson }}</tool_call>{% endfor %}{{ '\n' }}"
    "{% endfor %}<|assistant|>{% if messages[-1].role == 'tool' %}~{% endif %}"
)
WEATHER = {"name": "weather", "arguments": {"city": "Oslo"}}
SCRIPTS = {
    ">": ["Let me look.", "\n<tool", "_call>", '{"name": "wea', 'ther", "arguments": {"ci', 'ty": "Oslo', '"}}', "</tool_call>"],
    "~": ["It is", " sunny", " in Oslo."],
    "2": ["<tool_call>", json.dumps(WEATHER), "</tool_call>", "<tool_call>", '{"name": "now", "arg', 'uments": {}}</tool_call>'],
    "t": ["<thi", "nk>Oslo is", " a city.</th", "ink>", "<tool_call>", json.dumps(WEATHER), "</tool_call>"],
    "l": ['{"name": "weather", ', '"parameters": {"city":', ' "Oslo"}}'],
    "m": ["[TOOL_CALLS]", json.dumps([WEATHER]).replace(", ", ",")],
}  # fmt: skip
QUESTION: list[Any] = [{"role": "user", "content": "How is the weather in Oslo?"}]
PARAMETERS: dict[str, Any] = {
    "type": "object",
    "properties": {
        "city": {"enum": ["Oslo", "Rome"]},
        "days": {"type": "integer", "minimum": 1, "maximum": 9},
    },
    "required": ["city", "days"],
}
TOOLS: list[Any] = [
    {
        "type": "function",
        "function": {"name": "weather", "description": "It says the weather.", "parameters": PARAMETERS},
    },
    {"type": "function", "function": {"name": "now"}},
]
CALL: dict[str, Any] = {
    "id": "call_1",
    "type": "function",
    "function": {"name": "weather", "arguments": '{"city": "Oslo"}'},
}
needs_llguidance = pytest.mark.skipif(
    not structured_output.is_installed("llguidance"), reason="llguidance is not installed"
)


@pytest.fixture(scope="module")
def first(tmp_path_factory: pytest.TempPathFactory) -> dict[str, int]:
    """The first token of each script of the model, which lies in the folder "scripted"."""
    return scripted.save(_folder(tmp_path_factory), SCRIPTS, TEMPLATE)


def _folder(factory: pytest.TempPathFactory) -> Path:
    return factory.getbasetemp() / "scripted"


@pytest.fixture(scope="module")
def scripted_engine(
    first: dict[str, int], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[EmbeddedEngine]:
    made = EmbeddedEngine(EngineArgs(str(_folder(tmp_path_factory)), kwargs={"max_num_seqs": 8}))
    asyncio.run(made.start())
    yield made
    asyncio.run(made.stop())


@pytest.fixture(scope="module")
def url(scripted_engine: EmbeddedEngine, engine: EmbeddedEngine) -> Iterator[str]:
    """The API over the scripted model with several parsers, and over a model whose template knows no tools."""
    options = {name: ToolOptions(True, name) for name in ("hermes", "llama3_json", "mistral", "pythonic")}
    options["none"] = ToolOptions()
    options["hidden"] = ToolOptions(True, "hermes", exclude_tools_when_tool_choice_none=True)
    options["thinking"] = ToolOptions(True, "hermes", reasoning_parser="qwen3")
    services = [ModelService(scripted_engine, name, tools=each) for name, each in options.items()]
    services.append(ModelService(engine, "ignorant", tools=options["hermes"]))
    served = Served(build_app(LocalModels(services)))
    yield served.url
    served.close()


@pytest.fixture
def client(url: str) -> Iterator[openai.OpenAI]:
    with openai.OpenAI(base_url=f"{url}/v1", api_key="none", max_retries=0) as made:
        yield made


def ask(client: openai.OpenAI, model: str = "hermes", **more: Any) -> Any:
    return client.chat.completions.create(
        **{"model": model, "messages": QUESTION, "tools": TOOLS, "temperature": 0, **more}
    )


def streamed(client: openai.OpenAI, model: str = "hermes", **more: Any) -> list[dict[str, Any]]:
    """The sum of a stream for each answer, in the form of a whole answer's choices, without ids."""
    found: dict[int, dict[str, Any]] = {}
    for chunk in ask(client, model, stream=True, **more):
        for choice in chunk.choices:
            each = found.setdefault(choice.index, {"content": "", "calls": [], "end": None, "logprobs": 0})
            each["content"] += choice.delta.content or ""
            each["end"] = choice.finish_reason or each["end"]
            each["logprobs"] += len((choice.logprobs and choice.logprobs.content) or ())
            for call in choice.delta.tool_calls or ():
                if call.id is not None:
                    assert call.type == "function" and call.index == len(each["calls"])
                    each["calls"].append([call.function.name, ""])
                each["calls"][call.index][1] += call.function.arguments
    return [found[index] for index in sorted(found)]


def whole(answer: Any) -> list[dict[str, Any]]:
    return [
        {
            "content": choice.message.content or "",
            "calls": [
                [each.function.name, each.function.arguments] for each in choice.message.tool_calls or ()
            ],
            "end": choice.finish_reason,
            "logprobs": len((choice.logprobs and choice.logprobs.content) or ()),
        }
        for choice in answer.choices
    ]


def test_a_model_calls_a_tool_reads_its_result_and_answers(client: openai.OpenAI) -> None:
    answer = ask(client)
    message = answer.choices[0].message
    (call,) = message.tool_calls
    assert (call.type, call.function.name) == ("function", "weather")
    assert json.loads(call.function.arguments) == {"city": "Oslo"}
    assert re.fullmatch("call_[0-9a-f]{24}", call.id)
    assert message.content == "Let me look." and answer.choices[0].finish_reason == "tool_calls"
    result = {"role": "tool", "tool_call_id": call.id, "content": "sunny"}
    final = ask(client, messages=[*QUESTION, message, result])
    assert final.choices[0].message.content == "It is sunny in Oslo."
    assert final.choices[0].message.tool_calls is None and final.choices[0].finish_reason == "stop"
    prompt = (
        f"<|tools|>{json.dumps(TOOLS)}\n<|user|>How is the weather in Oslo?\n<|assistant|>Let me look.<tool_call>"
        f'{{"name": "weather", "arguments": {{"city": "Oslo"}}}}</tool_call>\n<|tool|>sunny\n<|assistant|>~'
    )
    assert final.usage.prompt_tokens == len(prompt)


@pytest.mark.parametrize(
    ("model", "letter", "content", "calls"),
    [
        ("hermes", ">", "Let me look.", [["weather", '{"city": "Oslo"}']]),
        ("hermes", "2", "", [["weather", '{"city": "Oslo"}'], ["now", "{}"]]),
        ("hermes", "~", "It is sunny in Oslo.", []),
        ("llama3_json", "l", "", [["weather", '{"city": "Oslo"}']]),
        ("mistral", "m", "", [["weather", '{"city": "Oslo"}']]),
        ("pythonic", "l", "".join(SCRIPTS["l"]), []),
    ],
)
def test_a_stream_says_the_same(
    client: openai.OpenAI, first: dict[str, int], model: str, letter: str, content: str, calls: list[Any]
) -> None:
    more: dict[str, Any] = {"logit_bias": {str(first[letter]): 20}, "n": 2, "logprobs": True}
    found = whole(ask(client, model, **more))
    end = "tool_calls" if calls else "stop"
    wanted = {"content": content, "calls": calls, "end": end, "logprobs": len(SCRIPTS[letter]) + 1}
    assert found == [wanted] * 2
    assert streamed(client, model, **more) == found


def test_the_clients_own_accumulation_of_a_stream(client: openai.OpenAI) -> None:
    with client.chat.completions.stream(
        model="hermes", messages=QUESTION, tools=TOOLS, temperature=0
    ) as stream:
        kinds = {event.type for event in stream}
        message = stream.get_final_completion().choices[0].message
    # The client says "done" only if the end comes in a chunk of its own.
    assert {"tool_calls.function.arguments.delta", "content.delta"} <= kinds
    assert message.tool_calls is not None and json.loads(message.tool_calls[0].function.arguments) == {
        "city": "Oslo"
    }


def test_one_call_without_parallel_calls(client: openai.OpenAI, first: dict[str, int]) -> None:
    more: dict[str, Any] = {"logit_bias": {str(first["2"]): 20}, "parallel_tool_calls": False}
    (found,) = whole(ask(client, **more))
    assert found["calls"] == [["weather", '{"city": "Oslo"}']] and found["end"] == "tool_calls"
    assert streamed(client, **more) == [found]


def test_without_a_choice_calls_are_text(client: openai.OpenAI) -> None:
    text = "".join(SCRIPTS[">"])
    told, hidden = (ask(client, model, tool_choice="none") for model in ("hermes", "hidden"))
    for each in (told, hidden):
        assert each.choices[0].message.content == text and each.choices[0].message.tool_calls is None
        assert each.choices[0].finish_reason == "stop"
    assert told.usage.prompt_tokens - hidden.usage.prompt_tokens == pytest.approx(
        len(json.dumps(TOOLS)), abs=20
    )


def test_cut_calls_end_as_the_answer_does(client: openai.OpenAI) -> None:
    for more, end in (({"max_tokens": 6}, "length"), ({"stop": ['slo"}}']}, "stop")):
        (found,) = whole(ask(client, **more))
        assert found["calls"] == [["weather", '{"city": "O' if end == "stop" else '{"city": "Oslo']]
        assert found["end"] == end and streamed(client, **more) == [found]
    (found,) = whole(ask(client, stop="</tool_call>"))
    assert found["calls"] == [["weather", '{"city": "Oslo"}']] and found["end"] == "tool_calls"


@needs_llguidance
def test_required_calls_follow_the_schemas(client: openai.OpenAI) -> None:
    more: dict[str, Any] = {"temperature": 2, "seed": 5, "n": 3, "logprobs": True, "max_tokens": 150}
    more |= {"tool_choice": "required", "parallel_tool_calls": False}
    for model in ("hermes", "none"):
        found = whole(ask(client, model, **more))
        assert streamed(client, model, **more) == found
        for each in found:
            ((name, arguments),) = each["calls"]
            assert each["end"] == "tool_calls" and each["content"] == "" and each["logprobs"] > 10
            if name == "weather":
                _check_weather(arguments)
            else:
                assert (name, json.loads(arguments)) == ("now", {})


def _check_weather(arguments: str) -> None:
    found = json.loads(arguments)
    assert set(found) == {"city", "days"}
    assert found["city"] in ("Oslo", "Rome") and 1 <= found["days"] <= 9


@needs_llguidance
@pytest.mark.parametrize("name", ["weather", "now"])
def test_a_named_tool_is_called(client: openai.OpenAI, name: str) -> None:
    choice = {"type": "function", "function": {"name": name}}
    more: dict[str, Any] = {"tool_choice": choice, "temperature": 1.5, "seed": 2, "max_tokens": 80}
    (found,) = whole(ask(client, "thinking", **more))
    assert [each[0] for each in found["calls"]] == [name]
    assert found["end"] == "stop" and streamed(client, "thinking", **more) == [found]
    if name == "weather":
        _check_weather(found["calls"][0][1])
    else:
        assert found["calls"][0][1] == "{}"


class Place(BaseModel):
    """A place."""

    city: str = Field(max_length=3)
    near: list[Place] = Field(max_length=1)


@needs_llguidance
def test_schemas_that_refer_to_themselves(client: openai.OpenAI) -> None:
    """Several tools have definitions of the same name, which must not be confused."""
    tools = [
        openai.pydantic_function_tool(Place, name="go"),
        openai.pydantic_function_tool(Place, name="stay"),
    ]
    for choice in ("required", {"type": "function", "function": {"name": "go"}}):
        answer = ask(
            client,
            tools=tools,
            tool_choice=choice,
            parallel_tool_calls=False,
            seed=3,
            max_tokens=100,
        )
        if answer.choices[0].finish_reason != "length":
            Place.model_validate_json(answer.choices[0].message.tool_calls[0].function.arguments)


def test_reasoning_is_apart(client: openai.OpenAI, first: dict[str, int]) -> None:
    more: dict[str, Any] = {"logit_bias": {str(first["t"]): 20}}
    message = ask(client, "thinking", **more).choices[0].message
    assert message.reasoning_content == message.reasoning == "Oslo is a city."
    assert message.content is None and message.tool_calls[0].function.name == "weather"
    parts = [chunk.choices[0].delta for chunk in ask(client, "thinking", stream=True, **more)]
    assert "".join(getattr(each, "reasoning_content", None) or "" for each in parts) == "Oslo is a city."
    plain = ask(client, "thinking", tools=openai.omit, **more).choices[0].message
    assert plain.reasoning_content == "Oslo is a city." and plain.content.startswith("<tool_call>")


def test_ids_are_short_for_mistrals_templates(client: openai.OpenAI, first: dict[str, int]) -> None:
    message = ask(client, "mistral", logit_bias={str(first["m"]): 20}).choices[0].message
    assert re.fullmatch("[0-9a-zA-Z]{9}", message.tool_calls[0].id)


def test_a_template_that_knows_no_tools_gets_a_description(client: openai.OpenAI) -> None:
    """The prompt of this model has a token for each byte, so its length says what the template was given."""
    tools = TOOLS[1:]
    messages: list[Any] = [
        {"role": "system", "content": "Be brief."},
        *QUESTION,
        {"role": "assistant", "content": "", "tool_calls": [CALL]},
        {"role": "tool", "tool_call_id": "call_1", "content": "sunny"},
    ]
    with pytest.raises(openai.BadRequestError, match="context is 256 tokens") as caught:
        ask(client, "ignorant", messages=messages, tools=tools, max_tokens=2)
    described = int(re.findall(r"prompt has (\d+)", caught.value.message)[0])
    texts = [
        "<|system|>Be brief.\n\nYou may call functions. Each of the following lines describes one of them as JSON:\n"
        '{"name": "now"}\nTo call a function, write its name and its arguments like this: <tool_call>\n'
        '{"name": "name", "arguments": {"argument": "value"}}\n</tool_call>\nThe results are in the next message.\n',
        "<|user|>How is the weather in Oslo?\n",
        '<|assistant|><tool_call>\n{"name": "weather", "arguments": {"city": "Oslo"}}\n</tool_call>\n',
        "<|user|>Result of weather: sunny\n<|assistant|>",
    ]
    assert described == len("".join(texts))


def weather(**more: Any) -> dict[str, Any]:
    return {"type": "function", "function": {"name": "weather", **more}}


@needs_llguidance
@pytest.mark.parametrize(
    ("body", "param", "match"),
    [
        ({"tools": [weather()], "model": "none"}, "tool_choice", "enable_auto_tool_choice and tool_call_parser"),
        ({"tools": []}, "tools", "empty array"),
        ({"tools": [{"type": "retrieval"}]}, "tools", r"tools\[0\].type must be 'function', got 'retrieval'"),
        ({"tools": [{"type": "function"}]}, "tools", "must be an object with a name"),
        ({"tools": [{"type": "function", "function": {"name": "a b"}}]}, "tools", "1 to 64 letters"),
        ({"tools": [weather(parameters=[])]}, "tools", "JSON schema"),
        ({"tools": [weather(parameters={"type": "string"})]}, "tools", "type 'object', got 'string'"),
        ({"tools": [weather(description=3)]}, "tools", "description must be a string"),
        ({"tools": [weather(), weather()]}, "tools", "two tools with the name 'weather'"),
        ({"tools": [{"type": "function", "function": {"name": f"t{n}"}} for n in range(129)]}, "tools", "at most 128"),
        ({"tool_choice": "required"}, "tool_choice", "requires tools"),
        ({"tools": [weather()], "tool_choice": "any"}, "tool_choice", "none, auto, required"),
        ({"tools": [weather()], "tool_choice": {"type": "function"}}, "tool_choice", "must be {"),
        (
            {"tools": [weather()], "tool_choice": {"type": "function", "function": {"name": "now"}}},
            "tool_choice",
            "names the tool 'now', which is not among tools: weather",
        ),
        (
            {"tools": [weather(parameters={"properties": {"a": {"type": "nothing"}}})], "tool_choice": "required"},
            "tools",
            "tool_choice cannot be enforced: .*nothing",
        ),
        (
            {"tools": [weather()], "response_format": {"type": "json_object"}},
            "response_format",
            "set tool_choice to 'none' or 'required'",
        ),
        ({"functions": [{"name": "weather"}]}, "functions", "functions is not supported"),
    ],
)  # fmt: skip
def test_tools_that_are_refused(url: str, body: dict[str, Any], param: str, match: str) -> None:
    _refused(url, {"messages": QUESTION, **body}, param, match)


def _refused(url: str, body: dict[str, Any], param: str, match: str) -> None:
    answer = httpx.post(f"{url}/v1/chat/completions", json={"model": "hermes", "max_tokens": 5, **body})
    assert answer.status_code == 400, answer.text
    error = answer.json()["error"]
    assert error["type"] == "invalid_request_error" and error["param"] == param
    assert re.search(match, error["message"]), error["message"]


@pytest.mark.parametrize(
    ("messages", "match"),
    [
        ([{"role": "tool", "content": "x"}], "needs a tool_call_id"),
        ([{"role": "tool", "tool_call_id": "call_1", "content": "x"}], "a result of a call"),
        (
            [
                {"role": "assistant", "tool_calls": [CALL]},
                {"role": "tool", "tool_call_id": "call_2", "content": "x"},
            ],
            r"messages\[1\].*'call_2'",
        ),
        ([{"role": "assistant", "tool_calls": [CALL]}, *QUESTION], r"at messages\[1\], there is none for call_1"),
        ([{"role": "assistant", "tool_calls": [CALL]}], "the end of messages"),
        ([{"role": "assistant", "tool_calls": [{"id": "call_1"}]}], r"messages\[0\].tool_calls\[0\] must have an id"),
        ([{"role": "assistant", "tool_calls": "x"}], "must be an array"),
        ([{"role": "user", "content": "", "tool_calls": [CALL]}], "must be an array in a message of the assistant"),
    ],
)  # fmt: skip
def test_conversations_that_are_refused(url: str, messages: list[Any], match: str) -> None:
    _refused(url, {"messages": messages, "tools": TOOLS}, "messages", match)


def test_arguments_that_are_no_json_can_be_sent_back(client: openai.OpenAI) -> None:
    """A model may write anything; an agent answers with what is wrong."""
    bad = {**CALL, "function": {"name": "weather", "arguments": '{"city": "O'}}
    messages = [
        *QUESTION,
        {"role": "assistant", "content": None, "tool_calls": [bad]},
        {"role": "tool", "tool_call_id": "call_1", "content": "the arguments are not JSON"},
    ]
    assert ask(client, messages=messages).choices[0].message.content == "It is sunny in Oslo."


def _hostile() -> list[dict[str, Any]]:
    """Schemas that are expensive to compile or to follow."""
    wide = {f"p{n}": {"type": "string", "pattern": f"^(a|b)*a(a|b){{{n % 9 + 9}}}$"} for n in range(12)}
    deep: dict[str, Any] = {"type": "string"}
    for _ in range(4):
        deep = {"anyOf": [{"type": "object", "properties": {"a": deep}}, {"type": "array", "items": deep}]}
    return [
        {"properties": wide, "required": list(wide)},
        {
            "properties": {"a": {"type": "string", "pattern": "^((a{1,900}){1,900}){1,900}$"}},
            "required": ["a"],
        },
        {"properties": {"a": {"$ref": "#/properties/a"}}, "required": ["a"]},
        {"properties": {"a": deep}},
    ]


@needs_llguidance
@pytest.mark.parametrize("number", range(4))
def test_hostile_schemas_end_in_time(url: str, number: int) -> None:
    body = {"model": "hermes", "messages": QUESTION, "tools": [weather(parameters=_hostile()[number])]}
    answer = httpx.post(
        f"{url}/v1/chat/completions", json={**body, "tool_choice": "required", "max_tokens": 8}, timeout=30
    )
    assert answer.status_code in (200, 400), answer.text
