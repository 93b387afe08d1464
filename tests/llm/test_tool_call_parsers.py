"""Parsers of tool calls: a corpus of answers, each given whole, letter by letter, and in two parts at every place."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from skate.llm.tool_calls import parser, think_tags
from skate.llm.tool_calls.event import Arguments, CallStart, Content, Event, Reasoning, joined
from skate.llm.tool_calls.forced_calls import NamedCallParser, RequiredCallsParser

TOOLS: dict[str, Any] = {
    "weather": {"properties": {"city": {"type": "string"}, "days": {"type": "integer"}}},
    "now": {"properties": {}},
}
#: A call in what `found` returns.
OSLO = ("weather", '{"city": "Oslo"}')
NESTED = ("weather", '{"city": "O\\"}{slo", "at": {"a": [1, {"b": "]"}], "c": null}}')
#: For each parser: a text, the content around its calls, and the calls.
CORPUS: list[tuple[str, str, str, list[tuple[str, str]]]] = [
    ("hermes", "Good day, <b>you</b> <tool", "Good day, <b>you</b> <tool", []),
    ("hermes", " \n", " \n", []),
    ("hermes", '<tool_call>\n{"name": "weather", "arguments": {"city": "Oslo"}}\n</tool_call>', "", [OSLO]),
    ("hermes", '<tool_call>{"arguments": {"city": "Oslo"}, "name": "weather"}</tool_call>', "", [OSLO]),
    ("hermes", '<tool_call>{"name": "weather", "parameters": {"city": "Oslo"}, "x": [1]}', "", [OSLO]),
    ("hermes", '<tool_call>{"name": "now"}</tool_call>', "", [("now", "{}")]),
    ("hermes", '<tool_call>{"name": "now", "arguments": null}</tool_call>', "", [("now", "{}")]),
    (
        "hermes",
        '<tool_call>{"name": "weather", "arguments": "{\\"city\\": \\"Oslo\\"}"}</tool_call>',
        "",
        [OSLO],
    ),
    (
        "hermes",
        'Let me look.\n<tool_call>\n{"name": "weather", "arguments": {"city": "O\\"}{slo", "at": {"a": [1, {"b": "]"}], '
        '"c": null}}}}\n</tool_call>\n<tool_call>\n{"name": "now", "arguments": {}}\n</tool_call>\nDone. \n',
        "Let me look.\nDone.",
        [NESTED, ("now", "{}")],
    ),
    (
        "hermes",
        '<tool_call>{"name": "now", "arguments": {}}<tool_call>{"name": "now", "arguments": {}}',
        "",
        [("now", "{}")] * 2,
    ),
    ("hermes", "<tool_call>weather in Oslo</tool_call>", "<tool_call>weather in Oslo</tool_call>", []),
    (
        "hermes",
        '<tool_call>{"city": <tool_call>{"name": "now"}</tool_call>',
        '<tool_call>{"city":',
        [("now", "{}")],
    ),
    ("hermes", '<tool_call>{"name": "weather", "argu', '<tool_call>{"name": "weather", "argu', []),
    (
        "hermes",
        '<tool_call>{"name": "weather", "arguments": {"city": "Os',
        "",
        [("weather", '{"city": "Os')],
    ),
    ("hermes", '<tool_call>{"name": "", "arguments": {}}', '<tool_call>{"name": "", "arguments": {}}', []),
    ("llama3_json", ' {"name": "weather", "parameters": {"city": "Oslo"}}', "", [OSLO]),
    ("llama3_json", '<|python_tag|>{"name": "weather", "arguments": {"city": "Oslo"}}', "", [OSLO]),
    (
        "llama3_json",
        '{"type": "function", "name": "weather", "parameters": {"city": "Oslo"}}; {"name": "now", "parameters": {}}',
        "",
        [OSLO, ("now", "{}")],
    ),
    (
        "llama3_json",
        'One moment. <|python_tag|>{"name": "now", "parameters": {}}',
        "One moment.",
        [("now", "{}")],
    ),
    ("llama3_json", '{"name": "Ada", "born": 1815}', '{"name": "Ada", "born": 1815}', []),
    ("llama3_json", '{"name": "Ada"}', '{"name": "Ada"}', []),
    ("llama3_json", '{"name": "now"}', "", [("now", "{}")]),
    ("llama3_json", '{"a": 1} and {"name": "now"}', '{"a": 1} and {"name": "now"}', []),
    ("llama3_json", "<|python_tag|>print(1)", "print(1)", []),
    ("llama3_json", "A { brace", "A { brace", []),
    ("llama3_json", "<|python", "<|python", []),
    ("mistral", '[TOOL_CALLS] [{"name": "weather", "arguments": {"city": "Oslo"}}]', "", [OSLO]),
    (
        "mistral",
        'Well.[TOOL_CALLS][{"name": "weather", "arguments": {"city": "Oslo"}, "id": "abcdefghi"}, {"name": "now"}]\nSo.',
        "Well.\nSo.",
        [OSLO, ("now", "{}")],
    ),
    ("mistral", '[TOOL_CALLS]weather{"city": "Oslo"}', "", [OSLO]),
    ("mistral", '[TOOL_CALLS]weather[ARGS]{"city": "Oslo"}[TOOL_CALLS]now[ARGS]{}', "", [OSLO, ("now", "{}")]),
    ("mistral", '[TOOL_CALLS]weather[CALL_ID]abc123def[ARGS]{"city": "Oslo"}', "", [OSLO]),
    ("mistral", '[TOOL_CALLS]{"name": "weather", "arguments": {"city": "Oslo"}}', "", [OSLO]),
    ("mistral", "[1, 2] [TOOL", "[1, 2] [TOOL", []),
    ("mistral", "[TOOL_CALLS] what? {", "[TOOL_CALLS] what? {", []),
    ("mistral", "[TOOL_CALLS]weather", "[TOOL_CALLS]weather", []),
    ("pythonic", "[weather(city='Oslo'), now()]", "", [OSLO, ("now", "{}")]),
    ("pythonic", '<|python_start|>[weather("Oslo")]<|python_end|>', "", [OSLO]),
    (
        "pythonic",
        "[weather(city=\"O')\", days=[1, {'a': (true, null, -2.5)}])] Done.",
        "Done.",
        [("weather", '{"city": "O\')", "days": [1, {"a": [true, null, -2.5]}]}')],
    ),
    ("pythonic", "[now(), weather(city=Oslo)]", "weather(city=Oslo)]", [("now", "{}")]),
    ("pythonic", "[1] says so", "[1] says so", []),
    ("pythonic", "[Note: now(1)]", "[Note: now(1)]", []),
    ("pythonic", "[now(1)]", "[now(1)]", []),
    ("pythonic", "[ weather(city='Os", "[ weather(city='Os", []),
    ("pythonic", "Hello", "Hello", []),
    ("pythonic", "<|pyth", "<|pyth", []),
    (
        "qwen3_coder",
        "Now.\n<tool_call>\n<function=weather>\n<parameter=city>\nOslo\n</parameter>\n<parameter=days>\n3\n</parameter>\n"
        "</function>\n</tool_call>",
        "Now.",
        [("weather", '{"city": "Oslo", "days": 3}')],
    ),
    (
        "qwen3_coder",
        "<function=weather><parameter=city>3</parameter></function>",
        "",
        [("weather", '{"city": "3"}')],
    ),
    ("qwen3_coder", "<tool_call><function=now></function></tool_call>", "", [("now", "{}")]),
    ("qwen3_coder", "<tool_call>now</tool_call> <fun", "<tool_call>now</tool_call> <fun", []),
]  # fmt: skip


def found(events: list[Event]) -> tuple[str, list[tuple[str, str]]]:
    """The content and the calls of events."""
    content, calls = "", []
    for each in events:
        if isinstance(each, CallStart):
            calls.append((each.name, ""))
        elif isinstance(each, Arguments):
            calls[-1] = (calls[-1][0], calls[-1][1] + each.text)
        else:
            content += each.text
    return content, calls


def read(made: Any, parts: list[str]) -> list[Event]:
    """The events of an answer in parts, without neighbours of one kind."""
    return joined([event for part in parts for event in made.feed(part)] + made.finish())


@pytest.mark.parametrize(("name", "text", "content", "calls"), CORPUS)
def test_an_answer_says_the_same_however_it_is_divided(
    name: str, text: str, content: str, calls: list[tuple[str, str]]
) -> None:
    make = parser.find(name)
    whole = read(make(TOOLS), [text])
    assert found(whole) == (content, calls)
    assert found(read(make(TOOLS), list(text))) == (content, calls)
    for at in range(1, len(text)):
        assert found(read(make(TOOLS), [text[:at], text[at:]])) == (content, calls), at


@pytest.mark.parametrize("name", parser.names())
@settings(max_examples=60, deadline=None)
@given(data=st.data())
def test_no_text_breaks_a_parser_or_is_lost(name: str, data: st.DataObject) -> None:
    """Pieces of calls in any order: nothing is raised, the parts do not matter, and text without marks is content."""
    pieces = [
        "<tool_call>", "</tool_call>", "[TOOL_CALLS]", "[ARGS]", "<|python_tag|>", "<function=now>", "</function>",
        "<parameter=city>", "</parameter>", "[", "]", "{", "}", '"name": ', '"now"', '"arguments": ', "{}", ",", ";", "\n", "a(",
        "now()", ")", "'", '"', "\\", "é", "7", "null",
    ]  # fmt: skip
    text = "".join(data.draw(st.lists(st.sampled_from(pieces), max_size=12)))
    places = sorted(data.draw(st.lists(st.integers(0, len(text)), max_size=4)))
    parts = [text[a:b] for a, b in zip([0, *places], [*places, len(text)], strict=True)]
    make = parser.find(name)
    content, calls = found(read(make(TOOLS), [text]))
    assert found(read(make(TOOLS), parts)) == (content, calls)
    if not calls and "<|python_tag|>" not in text:
        assert content == text


def test_arguments_come_as_they_are_written() -> None:
    made = parser.find("hermes")(TOOLS)
    assert made.feed('<tool_call>{"name": "weather", "arguments": {"ci') == [
        CallStart("weather"),
        Arguments('{"ci'),
    ]
    assert made.open and made.feed('ty": "Os') == [Arguments('ty": "Os')]
    assert made.feed('lo"}') == [Arguments('lo"}')] and not made.open


def test_forced_calls() -> None:
    text = '[{"name": "weather", "parameters": {"city": "Oslo"}}, {"name": "now", "parameters": {}}]'
    for at in range(len(text)):
        assert found(read(RequiredCallsParser(), [text[:at], text[at:]])) == ("", [OSLO, ("now", "{}")])
    assert found(read(NamedCallParser("now"), ["{", "", "}"])) == ("", [("now", "{}")])
    assert read(NamedCallParser("now"), [""]) == []
    cut = RequiredCallsParser()
    assert found(cut.feed(text[: text.index("slo")])) == ("", [("weather", '{"city": "O')]) and cut.open


@pytest.mark.parametrize(
    ("name", "prompt", "text", "thought", "content"),
    [
        ("qwen3", "", "<think>\nHm </th</think>Yes", "\nHm </th", "Yes"),
        ("qwen3", "", "Yes <think>", "", "Yes <think>"),
        ("qwen3", "<think>\n", "Hm</think>Yes", "Hm", "Yes"),
        ("qwen3", "", "<thin", "", "<thin"),
        ("deepseek_r1", "", "Hm</think>Yes", "Hm", "Yes"),
        ("deepseek_r1", "", "<think>Hm", "Hm", ""),
        ("deepseek_r1", "<think>\n\n</think>\n\n", "Yes", "", "Yes"),
    ],
)
def test_reasoning(name: str, prompt: str, text: str, thought: str, content: str) -> None:
    for at in range(len(text)):
        made = think_tags.find(name)()
        made.follows(prompt)
        events = read(made, [text[:at], text[at:]])
        assert "".join(each.text for each in events if isinstance(each, Reasoning)) == thought
        assert "".join(each.text for each in events if isinstance(each, Content)) == content


def test_names_that_do_not_exist() -> None:
    with pytest.raises(ValueError, match="the parsers are hermes, "):
        parser.find("herms")
    with pytest.raises(ValueError, match="the parsers are deepseek_r1, "):
        think_tags.find("none")


def test_complete_arguments_are_json() -> None:
    for _, text, _, calls in CORPUS:
        for _, arguments in calls:
            if text.rstrip().endswith(("}", "]", ">", ")", ".")):
                assert isinstance(json.loads(arguments), dict)
