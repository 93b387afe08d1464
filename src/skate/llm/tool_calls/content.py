"""The text of an answer beside its calls. Whitespace next to calls is left out."""

from __future__ import annotations

from collections.abc import Sequence

from skate.llm.tool_calls.event import Content, Event


def overlap(text: str, marks: Sequence[str]) -> int:
    """Return the number of characters at the end of a text that may be the start of one of the marks."""
    longest = max(map(len, marks)) - 1
    for size in range(min(len(text), longest), 0, -1):
        if any(mark.startswith(text[-size:]) for mark in marks):
            return size
    return 0


class ContentText:
    """Holds whitespace back until it is known that no call follows it."""

    def __init__(self) -> None:
        self._held = ""
        self._begun = False
        self._called = False

    def add(self, text: str) -> list[Event]:
        """Return the text that can be given now."""
        text = self._held + text
        kept = text.rstrip()
        self._held = text[len(kept) :]
        if not kept:
            return []
        if self._called and not self._begun:
            kept = kept.lstrip()
        self._begun = True
        return [Content(kept)]

    def call(self) -> None:
        """Drop the whitespace before a call."""
        self._held = ""
        self._called = True

    def end(self) -> list[Event]:
        """Return the whitespace at the end of an answer without calls."""
        held, self._held = self._held, ""
        return [Content(held)] if held and not self._called else []
