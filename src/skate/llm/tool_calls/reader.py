"""Reads one answer: the engine's text in, the fields of OpenAI's messages and deltas out."""

from __future__ import annotations

import secrets
import string
import uuid
from collections.abc import Sequence
from typing import Any, Protocol

from skate.llm.output import Increment
from skate.llm.tool_calls.choice import ToolChoice
from skate.llm.tool_calls.event import Arguments, CallStart, Content, Event, Reasoning
from skate.llm.tool_calls.parser import ToolCallParser
from skate.llm.tool_calls.think_tags import ThinkTags

Fields = dict[str, Any]
_MISTRAL_LETTERS = string.ascii_letters + string.digits


class Reader(Protocol):
    """Reads one answer. Use either `delta` for each increment, or `message` once."""

    def delta(self, new: Increment) -> Fields:
        """Return the delta of an increment; empty if it contains nothing for the client."""

    def message(self, text: str, tokens: Sequence[int]) -> Fields:
        """Return the fields of the message of a whole answer."""

    def finish_reason(self, end: Increment) -> str | None:
        """Return OpenAI's finish reason, given the last increment."""


class AnswerReader:
    """Reads an answer with Skate's parsers.

    Args:
        choice: what the request says about tools.
        calls: finds the calls; None for a request without tools.
        reasoning: finds the reasoning; None for models without.
        short_ids: True for ids of nine letters and digits, which the templates of Mistral's models require.
    """

    def __init__(
        self,
        choice: ToolChoice,
        calls: ToolCallParser | None,
        reasoning: ThinkTags | None,
        short_ids: bool = False,
    ) -> None:
        self._choice = choice
        self._calls = calls
        self._reasoning = reasoning
        self._short_ids = short_ids
        self._count = 0

    def delta(self, new: Increment) -> Fields:
        """Return the delta of an increment."""
        found: Fields = {}
        for event in self._events(new.text, new.finish_reason is not None):
            self._add(event, found)
        return found

    def message(self, text: str, tokens: Sequence[int]) -> Fields:
        """Return the fields of the message of a whole answer."""
        found: Fields = {"content": None}
        for event in self._events(text, True):
            self._add(event, found)
        for each in found.get("tool_calls", ()):
            del each["index"]
        if self._choice.mode in ("auto", "none") and "tool_calls" not in found:
            found["content"] = found["content"] or ""
        return found

    def finish_reason(self, end: Increment) -> str | None:
        """Return "tool_calls" for an answer that ended with complete calls which the model chose."""
        whole = end.finish_reason == "stop" and not (self._calls is not None and self._calls.open)
        return "tool_calls" if self._count and whole and self._choice.mode != "named" else end.finish_reason

    def _events(self, text: str, ended: bool) -> list[Event]:
        if self._reasoning is None:
            return self._read(text, ended)
        found: list[Event] = []
        events = self._reasoning.feed(text)
        for event in [*events, *(self._reasoning.finish() if ended else ())]:
            found += self._read(event.text, False) if isinstance(event, Content) else [event]
        return found + (self._read("", True) if ended else [])

    def _read(self, text: str, ended: bool) -> list[Event]:
        if self._calls is None:
            return [Content(text)] if text else []
        found = self._calls.feed(text)
        return found + self._calls.finish() if ended else found

    def _add(self, event: Event, found: Fields) -> None:
        """Add an event to a delta or a message."""
        if isinstance(event, Content):
            found["content"] = (found.get("content") or "") + event.text
        elif isinstance(event, Reasoning):
            # vLLM's name, and that of earlier releases, which many clients read.
            found["reasoning"] = found["reasoning_content"] = found.get("reasoning", "") + event.text
        elif isinstance(event, CallStart):
            self._count += 1
            if self._count > 1 and not self._choice.parallel:
                return
            function = {"name": event.name, "arguments": ""}
            call = {"index": self._count - 1, "id": self._id(), "type": "function", "function": function}
            found.setdefault("tool_calls", []).append(call)
        elif isinstance(event, Arguments) and (self._count == 1 or self._choice.parallel):
            calls = found.setdefault("tool_calls", [])
            if not calls or calls[-1]["index"] != self._count - 1:
                calls.append({"index": self._count - 1, "function": {"arguments": ""}})
            calls[-1]["function"]["arguments"] += event.text

    def _id(self) -> str:
        if self._short_ids:
            return "".join(secrets.choice(_MISTRAL_LETTERS) for _ in range(9))
        return f"call_{uuid.uuid4().hex[:24]}"
