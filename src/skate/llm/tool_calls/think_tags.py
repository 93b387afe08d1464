"""Reasoning that a model writes before its answer, between `<think>` and `</think>`."""

from __future__ import annotations

from collections.abc import Callable

from skate.llm.tool_calls.content import overlap
from skate.llm.tool_calls.event import Content, Event, Reasoning

_OPEN, _CLOSE = "<think>", "</think>"


class ThinkTags:
    """Splits the text of one answer.

    Args:
        inside: True if an answer begins with reasoning although the start tag is missing, because the prompt ends with it.
    """

    def __init__(self, inside: bool) -> None:
        self._inside = inside
        self._buffer = ""
        self._state = "start"

    def follows(self, prompt: str) -> None:
        """Begin inside of or after the reasoning if the prompt ends with one of the tags."""
        if prompt.rstrip().endswith((_OPEN, _CLOSE)):
            self._inside = prompt.rstrip().endswith(_OPEN)

    def feed(self, text: str) -> list[Event]:
        """Return what a further part of the text contains."""
        self._buffer += text
        events: list[Event] = []
        if self._state == "start":
            rest = self._buffer.lstrip()
            if not rest or (rest != _OPEN and _OPEN.startswith(rest)):
                return events
            begins = rest.startswith(_OPEN)
            self._state = "inside" if begins or self._inside else "answer"
            self._buffer = rest.removeprefix(_OPEN) if begins else self._buffer
        if self._state == "inside":
            self._think(events)
        if self._state == "answer" and self._buffer:
            events.append(Content(self._buffer))
            self._buffer = ""
        return events

    def _think(self, events: list[Event]) -> None:
        at = self._buffer.find(_CLOSE)
        size = at if at >= 0 else len(self._buffer) - overlap(self._buffer, (_CLOSE,))
        if size:
            events.append(Reasoning(self._buffer[:size]))
        self._buffer = self._buffer[size:]
        if at >= 0:
            self._buffer, self._state = self._buffer[len(_CLOSE) :], "answer"

    def finish(self) -> list[Event]:
        """Return what was held back at the end of the text."""
        rest, self._buffer = self._buffer, ""
        if not rest:
            return []
        return [Reasoning(rest) if self._state == "inside" else Content(rest)]


_PARSERS: dict[str, Callable[[], ThinkTags]] = {
    "deepseek_r1": lambda: ThinkTags(inside=True),
    "qwen3": lambda: ThinkTags(inside=False),
}


def find(name: str) -> Callable[[], ThinkTags]:
    """Return the parser of a name. Raises ValueError if there is none."""
    found = _PARSERS.get(name)
    if found is None:
        raise ValueError(
            f"there is no reasoning_parser {name!r}; the parsers are {', '.join(sorted(_PARSERS))}"
        )
    return found
