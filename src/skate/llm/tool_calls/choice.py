"""The tools of a request and which of them the model may or must call, checked as OpenAI does."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from skate.llm.errors import BadRequest

#: OpenAI's limit.
TOOLS_MAX = 128
_NAME = re.compile(r"[a-zA-Z0-9_-]{1,64}")
_MODES = ("none", "auto", "required")


@dataclass(frozen=True)
class Tool:
    """A function that the model may call. `given` is the client's description of it, as chat templates expect it."""

    name: str
    parameters: dict[str, Any]
    given: dict[str, Any]


@dataclass(frozen=True)
class ToolChoice:
    """The tools of a request, and which of them its answer must call.

    Args:
        tools: the tools that the model is told of.
        mode: "named" if the model must call the tool `name`; "required" if it must call at least one.
        parallel: False if it may call at most one.
    """

    tools: Sequence[Tool] = ()
    mode: Literal["none", "auto", "required", "named"] = "none"
    name: str | None = None
    parallel: bool = True
    schemas: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)

    @property
    def forced(self) -> bool:
        """True if the answer must be a call."""
        return self.mode in ("required", "named")


def chosen(tools: Sequence[Any] | None, choice: object, parallel: bool | None) -> ToolChoice:
    """Return the choice of a request, from its fields `tools`, `tool_choice` and `parallel_tool_calls`. Raises BadRequest."""
    if tools is None:
        if choice not in (None, "none", "auto"):
            raise BadRequest("tool_choice requires tools", "tool_choice")
        return ToolChoice()
    found = _tools(tools)
    mode, name = _mode(choice, [each.name for each in found])
    schemas = {each.name: each.parameters for each in found}
    return ToolChoice(found, mode, name, parallel is not False, schemas)


def _tools(given: Sequence[Any]) -> list[Tool]:
    if not given:
        raise BadRequest("tools is an empty array; leave it out, or give at least one tool", "tools")
    if len(given) > TOOLS_MAX:
        raise BadRequest(f"tools may have at most {TOOLS_MAX} tools, got {len(given)}", "tools")
    found = [_tool(each, f"tools[{number}]") for number, each in enumerate(given)]
    names = [each.name for each in found]
    for number, name in enumerate(names):
        if name in names[:number]:
            raise BadRequest(f"tools[{number}]: there are two tools with the name {name!r}", "tools")
    return found


def _tool(given: Any, where: str) -> Tool:
    kind = given.get("type") if isinstance(given, Mapping) else None
    if kind != "function":
        raise BadRequest(
            f"{where}.type must be 'function', got {kind!r}; this server has no other kinds of tools", "tools"
        )
    function = given.get("function")
    if not isinstance(function, Mapping):
        raise BadRequest(f"{where}.function must be an object with a name", "tools")
    name = function.get("name")
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        raise BadRequest(
            f"{where}.function.name must have 1 to 64 letters, digits, underscores or dashes, got {name!r}",
            "tools",
        )
    parameters = function.get("parameters")
    if parameters is not None and not isinstance(parameters, Mapping):
        raise BadRequest(f"{where}.function.parameters must be a JSON schema, which is an object", "tools")
    if parameters and parameters.get("type", "object") != "object":
        raise BadRequest(
            f"{where}.function.parameters must be a schema of type 'object', got {parameters['type']!r}",
            "tools",
        )
    if not isinstance(function.get("description"), str | None):
        raise BadRequest(f"{where}.function.description must be a string", "tools")
    return Tool(name, dict(parameters or {}), dict(given))


def _mode(choice: Any, names: Sequence[str]) -> tuple[Any, str | None]:
    if choice is None:
        return "auto", None
    if isinstance(choice, str):
        if choice not in _MODES:
            raise BadRequest(
                f"tool_choice must be one of {', '.join(_MODES)}, or name a tool, got {choice!r}",
                "tool_choice",
            )
        return choice, None
    function = choice.get("function") if choice.get("type") == "function" else None
    name = function.get("name") if isinstance(function, Mapping) else None
    if not isinstance(name, str):
        raise BadRequest(
            'a tool_choice that is an object must be {"type": "function", "function": {"name": ...}}',
            "tool_choice",
        )
    if name not in names:
        raise BadRequest(
            f"tool_choice names the tool {name!r}, which is not among tools: {', '.join(names)}",
            "tool_choice",
        )
    return "named", name
