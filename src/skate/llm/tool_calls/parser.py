"""The interface of parsers, and their names, which are vLLM's."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Protocol

from skate.llm.tool_calls.event import Event
from skate.llm.tool_calls.hermes import HermesParser
from skate.llm.tool_calls.llama3_json import Llama3JsonParser
from skate.llm.tool_calls.mistral import MistralParser
from skate.llm.tool_calls.pythonic import PythonicParser
from skate.llm.tool_calls.qwen3_coder import Qwen3CoderParser

#: The parameters of each tool, as JSON schemas, by the tool's name.
Tools = Mapping[str, Mapping[str, Any]]


class ToolCallParser(Protocol):
    """Finds calls in the text of one answer. The events do not depend on how the text is divided into parts."""

    @property
    def open(self) -> bool:
        """True if a call has begun and is not complete."""

    def feed(self, text: str) -> list[Event]:
        """Return what a further part of the text contains."""

    def finish(self) -> list[Event]:
        """Return what was held back at the end of the text."""


class ToolCallFormat(Protocol):
    """How a family of models writes calls."""

    def __call__(self, tools: Tools) -> ToolCallParser:
        """Return a parser for one answer."""


_FORMATS: dict[str, Callable[[Tools], ToolCallParser]] = {
    "hermes": HermesParser,
    "llama3_json": Llama3JsonParser,
    "llama4_json": Llama3JsonParser,
    "llama4_pythonic": PythonicParser,
    "mistral": MistralParser,
    "pythonic": PythonicParser,
    "qwen3_coder": Qwen3CoderParser,
    "qwen3_xml": Qwen3CoderParser,
}


def names() -> tuple[str, ...]:
    """Return the names of all parsers."""
    return tuple(sorted(_FORMATS))


def find(name: str) -> Callable[[Tools], ToolCallParser]:
    """Return the parser of a name. Raises ValueError if there is none."""
    found = _FORMATS.get(name)
    if found is None:
        raise ValueError(f"there is no tool_call_parser {name!r}; the parsers are {', '.join(names())}")
    return found
