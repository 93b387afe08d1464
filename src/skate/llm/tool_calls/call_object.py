"""A call written as a JSON object with its name and its arguments, in a text that arrives in parts."""

from __future__ import annotations

import json
from collections.abc import Collection
from enum import Enum

from skate.llm.tool_calls.event import Arguments, CallStart, Event
from skate.llm.tool_calls.json_span import JsonSpan

_SPACE = " \t\r\n"
#: Models name the arguments differently, whatever their format asks for.
_ARGUMENTS = ("arguments", "parameters")
#: Other keys that a call may have.
_OTHERS = ("type", "id")


class Part(Enum):
    """The part of an object that comes next."""

    OPEN = "{"
    KEY = "key"
    COLON = ":"
    VALUE = "value"
    NEXT = ", or }"
    DONE = "done"
    FAILED = "failed"


class CallObject:
    """Reads one object. Once its name and the start of its arguments are known, arguments are passed on as they come.

    Until then nothing is given away: if the object turns out to be no call, `begun` is False and `raw` has its text so far.

    Args:
        names: the names of the tools. None if every object with a name is a call, because a mark precedes it. Otherwise an
            object without arguments, or with keys that no call has, is none unless its name is among them.
    """

    def __init__(self, names: Collection[str] | None = None) -> None:
        self.raw = ""
        self.part = Part.OPEN
        self._names = names
        self._name: str | None = None
        self._key = ""
        self.begun = False
        self._span = JsonSpan()
        self._value = ""  # of the value that is being read, if it is needed as a whole
        self._early: str | None = None  # complete arguments that preceded the name
        self._streams = False
        self._given = False

    @property
    def ended(self) -> bool:
        """True if the object is complete or is no call."""
        return self.part in (Part.DONE, Part.FAILED)

    @property
    def open(self) -> bool:
        """True if the call has begun and its arguments have not ended."""
        return self.begun and not self._given and not self.ended

    def take(self, text: str, at: int, events: list[Event]) -> int:
        """Read from a place, append what was found to `events`, and return the place after what belongs to the object."""
        while at < len(text) and not self.ended:
            start = at
            if self.part in (Part.KEY, Part.VALUE) and self._span.opener:
                at = self._reads(text, at, events)
            elif text[at] in _SPACE:
                at += 1
            else:
                at = self._begins(text, at, events)
            if not self.begun:
                self.raw += text[start:at]
        return at

    def _begins(self, text: str, at: int, events: list[Event]) -> int:
        """Read the first character of a part."""
        char, part = text[at], self.part
        if (part is Part.OPEN and char == "{") or (part is Part.NEXT and char == ","):
            self.part, self._span, self._value = Part.KEY, JsonSpan(), ""
            return at + 1
        if part is Part.COLON and char == ":":
            self.part, self._span, self._value = Part.VALUE, JsonSpan(), ""
            return at + 1
        if (part is Part.KEY and char == '"') or (part is Part.VALUE and char not in ",:}]"):
            return self._reads(text, at, events)
        if char == "}" and part in (Part.NEXT, Part.KEY):
            self._closes(events)
            return at + 1
        self.part = Part.FAILED
        return at

    def _reads(self, text: str, at: int, events: list[Event]) -> int:
        """Read a key or a value up to its end, or to that of the text."""
        first = not self._span.opener
        end = self._span.take(text, at)
        if first and self.part is Part.VALUE and self._key in _ARGUMENTS and not self._given:
            if self._span.opener not in '{"n' and self._names is not None:
                self.part = Part.FAILED
                return at
            self._streams = self._span.opener == "{" and self._name is not None
            if self._streams:
                self._start(events)
        if self._streams:
            events.append(Arguments(text[at:end]))
        else:
            self._value += text[at:end]
        if self._span.done:
            self._read(events)
        return end

    def _read(self, events: list[Event]) -> None:
        """Handle a complete key or value."""
        if self.part is Part.KEY:
            key = _loaded(self._value)
            self._key = key if isinstance(key, str) else ""
            known = self._key == "name" or self._key in _ARGUMENTS or self._key in _OTHERS
            self.part = Part.COLON if known or self.begun or self._names is None else Part.FAILED
            return
        self.part = Part.NEXT
        if self._streams:
            self._streams, self._given = False, True
        elif self._key == "name" and self._name is None:
            name = _loaded(self._value)
            if not isinstance(name, str) or not name:
                self.part = Part.FAILED
                return
            self._name = name
            if self._early is not None:
                self._whole(self._early, events)
        elif self._key in _ARGUMENTS and not self._given and self._early is None:
            arguments = _arguments(self._value)
            if self._name is None:
                self._early = arguments
            else:
                self._whole(arguments, events)

    def _closes(self, events: list[Event]) -> None:
        bare = self._name is not None and (self._names is None or self._name in self._names)
        if not self._given and bare:
            self._whole("{}", events)
        self.part = Part.DONE if self._given else Part.FAILED

    def _start(self, events: list[Event]) -> None:
        assert self._name is not None
        self.begun, self.raw = True, ""
        events.append(CallStart(self._name))

    def _whole(self, arguments: str, events: list[Event]) -> None:
        self._start(events)
        events.append(Arguments(arguments))
        self._given = True


class CallArray:
    """Reads calls in a JSON array. Once `failed` is True, `raw` has the text of what is no call.

    Args:
        bare: True if a single object without brackets stands for an array of it.
    """

    def __init__(self, bare: bool = False) -> None:
        self.done = self.failed = False
        self.raw = ""
        self._bare = self._open = bare
        self._call: CallObject | None = None

    def take(self, text: str, at: int, events: list[Event]) -> int:
        """Read from a place, append what was found to `events`, and return the place after what belongs to the array."""
        while at < len(text) and not self.done and not self.failed:
            char = text[at]
            if self._call is not None:
                at = self._in_call(self._call, text, at, events)
            elif char in _SPACE or (char == "," and self._open) or (char == "[" and not self._open):
                self._open = self._open or char == "["
                at += 1
            elif char == "]" and self._open:
                self.done = True
                at += 1
            elif char == "{" and self._open:
                self._call = CallObject()
            else:
                self.failed = True
        return at

    def _in_call(self, call: CallObject, text: str, at: int, events: list[Event]) -> int:
        at = call.take(text, at, events)
        if call.ended:
            self._call = None
            self.failed, self.raw = call.part is Part.FAILED, call.raw
            self.done = self._bare and not self.failed
        return at

    @property
    def open(self) -> bool:
        """True if a call has begun and its arguments have not ended."""
        return self._call is not None and self._call.open

    @property
    def pending(self) -> str:
        """The text of an object that is not known to be a call yet."""
        return "" if self._call is None else self._call.raw


def _loaded(text: str) -> object:
    try:
        found: object = json.loads(text)
    except (ValueError, RecursionError):
        return None
    return found


def _arguments(text: str) -> str:
    """Return arguments as JSON: some models write them as a string that contains JSON, or as null."""
    if text.startswith('"'):
        inner = _loaded(text)
        return inner if isinstance(inner, str) else text
    return "{}" if text == "null" else text
