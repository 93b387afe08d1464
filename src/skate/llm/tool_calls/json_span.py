"""The extent of one JSON value in a text that arrives in parts."""

from __future__ import annotations

_AFTER_SCALARS = ",}] \t\r\n"


class JsonSpan:
    """Finds where a value ends. The value itself is not checked beyond its strings and brackets.

    `opener` is the value's first character, and `done` is True once the value is complete.
    """

    def __init__(self) -> None:
        self.opener = ""
        self.done = False
        self._depth = 0
        self._quoted = False
        self._escaped = False

    def take(self, text: str, at: int) -> int:
        """Read from a place, which is the value's start in the first call; return the place after what belongs to it."""
        if not self.opener and at < len(text):
            self.opener = text[at]
        scalar = self.opener not in '{["'
        while at < len(text) and not self.done:
            char = text[at]
            if scalar and char in _AFTER_SCALARS:
                self.done = True
                break
            at += 1
            if self._escaped:
                self._escaped = False
            elif self._quoted:
                self._in_string(char)
            elif char == '"':
                self._quoted = True
            elif char in "{[":
                self._depth += 1
            elif char in "}]":
                self._depth -= 1
                self.done = self._depth == 0
        return at

    def _in_string(self, char: str) -> None:
        if char == "\\":
            self._escaped = True
        elif char == '"':
            self._quoted = False
            self.done = self._depth == 0
