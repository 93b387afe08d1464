"""Conversations with calls and their results, checked as OpenAI does, and written as chat templates expect them."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from skate.llm.errors import BadRequest

Message = dict[str, Any]


def checked(messages: Sequence[Message]) -> list[Message]:
    """Return messages for a chat template: arguments become objects, and results have the name of their tool.

    Raises BadRequest for a call without an id or a function, for a call without a result, and for a result without a call.
    """
    found: list[Message] = []
    open_calls: dict[str, str] = {}
    for number, message in enumerate(messages):
        where = f"messages[{number}]"
        if message["role"] == "tool":
            name = open_calls.pop(_result_id(message, where), None)
            if name is None:
                raise BadRequest(
                    f"{where} has the role 'tool' and the tool_call_id {message['tool_call_id']!r}, but must be a result "
                    "of a call in the tool_calls of the assistant's message before it",
                    "messages",
                )
            found.append({"name": name, **message})
            continue
        _check_complete(open_calls, where)
        open_calls = {}
        if message.get("tool_calls"):
            calls = [_call(each, f"{where}.tool_calls[{at}]") for at, each in _items(message, where)]
            open_calls = {each["id"]: each["function"]["name"] for each in calls}
            message = {**message, "tool_calls": calls}
        elif "tool_calls" in message:
            message = {key: value for key, value in message.items() if key != "tool_calls"}
        found.append(message)
    _check_complete(open_calls, "the end of messages")
    return found


def _result_id(message: Message, where: str) -> str:
    found = message.get("tool_call_id")
    if not isinstance(found, str):
        raise BadRequest(f"{where} has the role 'tool' and needs a tool_call_id", "messages")
    return found


def _items(message: Message, where: str) -> list[tuple[int, Any]]:
    if message["role"] != "assistant" or not isinstance(message["tool_calls"], list):
        raise BadRequest(f"{where}.tool_calls must be an array in a message of the assistant", "messages")
    return list(enumerate(message["tool_calls"]))


def _check_complete(open_calls: Mapping[str, str], where: str) -> None:
    if open_calls:
        raise BadRequest(
            "an assistant's message with tool_calls must be followed by a message with the role 'tool' for each of them; "
            f"at {where}, there is none for {', '.join(open_calls)}",
            "messages",
        )


def _call(given: Any, where: str) -> Message:
    function = given.get("function") if isinstance(given, Mapping) else None
    fits = isinstance(function, Mapping) and isinstance(function.get("name"), str)
    if not fits or not isinstance(given.get("id"), str):
        raise BadRequest(
            f"{where} must have an id and a function with a name and arguments, like the calls of an answer",
            "messages",
        )
    assert function is not None
    return {**given, "function": {**function, "arguments": _arguments(function.get("arguments"))}}


def _arguments(given: object) -> Any:
    """Return the object that a text describes; other texts unchanged, because a model may have written any."""
    if not isinstance(given, str):
        return {} if given is None else given
    try:
        found = json.loads(given or "{}")
    except (ValueError, RecursionError):
        return given
    return found if isinstance(found, dict) else given


def told(
    messages: Sequence[Message], tools: Sequence[Mapping[str, Any]], written: Callable[[str, Any], str]
) -> list[Message]:
    """Return messages for a template that knows no tools: texts describe the tools, the calls and the results.

    Args:
        messages: checked messages.
        tools: the client's descriptions of the tools.
        written: returns a call as the model should write it, from its name and its arguments.
    """
    lines = [json.dumps(each.get("function"), ensure_ascii=False) for each in tools]
    description = (
        "You may call functions. Each of the following lines describes one of them as JSON:\n"
        + "\n".join(lines)
        + "\nTo call a function, write its name and its arguments like this: "
        + written("name", {"argument": "value"})
        + "\nThe results are in the next message."
    )
    found: list[Message] = []
    for message in messages:
        if (message["role"] == "tool" or message.get("tool_calls")) and not isinstance(
            message["content"], str
        ):
            raise BadRequest(
                "the chat template of this model knows no tools, so calls and their results may have only text",
                "messages",
            )
        if message["role"] == "tool":
            text = f"Result of {message['name']}: {message['content']}"
            if found and found[-1].get("role") == "user" and found[-1].pop("results", False):
                text = f"{found.pop()['content']}\n{text}"
            found.append({"role": "user", "content": text, "results": True})
        elif message.get("tool_calls"):
            calls = [each["function"] for each in message["tool_calls"]]
            texts = [written(each["name"], each["arguments"]) for each in calls]
            content = "\n".join([message["content"], *texts] if message["content"] else texts)
            found.append({"role": "assistant", "content": content})
        else:
            found.append(dict(message))
    found = [{key: value for key, value in each.items() if key != "results"} for each in found]
    if not tools:
        return found
    if found[0]["role"] == "system" and isinstance(found[0]["content"], str):
        found[0]["content"] = f"{found[0]['content']}\n\n{description}"
    else:
        found.insert(0, {"role": "system", "content": description})
    return found
