"""Calls as Llama 3.2 and 4 write them, in Python: `[weather(city="Oslo", days=2), time()]`."""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Mapping
from typing import Any

from skate.llm.tool_calls.buffered_parser import BufferedParser
from skate.llm.tool_calls.event import Arguments, CallStart, Event

_START, _END = "<|python_start|>", "<|python_end|>"
_HEAD = re.compile(r"[^\W\d][\w.]*\s*\(")
_UNFINISHED = re.compile(r"(?:[^\W\d][\w.]*)?\s*")
#: JSON's names of values, which models write in Python as well.
_NAMES = {"true": True, "false": False, "null": None}


class PythonicParser(BufferedParser):
    """Reads calls of a list that an answer begins with. Each is given once it is complete."""

    open = False

    def __init__(self, tools: Mapping[str, Mapping[str, Any]]) -> None:
        super().__init__()
        self._tools = tools
        self._state = "start"
        self._before = ""  # the list's text before the first call
        self._span: _CodeSpan | None = None
        self._at = 0  # the place in the buffer up to which the span has read

    def _step(self, events: list[Event]) -> bool:
        return bool(getattr(self, "_" + self._state)(events))

    def _start(self, events: list[Event]) -> bool:
        """Read what comes before the calls; return False if more text is needed, as the other states do."""
        rest = self._buffer.lstrip()
        if rest.startswith(_START):
            rest = rest[len(_START) :].lstrip()
        if not rest or (rest != _START and _START.startswith(rest)):
            return False
        if rest[0] == "[":
            self._buffer, self._before, self._state = rest[1:], "[", "calls"
        else:
            self._state = "text"
        return True

    def _calls(self, events: list[Event]) -> bool:
        if self._span is not None:
            return self._call(self._span, events)
        rest = self._buffer.lstrip(" \t\r\n,")
        if not rest:
            return False
        if rest[0] == "]" and not self._before:
            self._buffer, self._state = rest[1:], "end"
        elif _HEAD.match(rest):
            self._before += self._buffer[: len(self._buffer) - len(rest)] if self._before else ""
            self._buffer, self._span, self._at = rest, _CodeSpan(), 0
        elif _UNFINISHED.fullmatch(rest):
            return False
        else:
            self._fail(events)
        return True

    def _call(self, span: _CodeSpan, events: list[Event]) -> bool:
        self._at = span.take(self._buffer, self._at)
        if not span.done:
            return False
        found = _read(self._buffer[: self._at], self._tools)
        self._span = None
        if found is None:
            self._fail(events)
            return True
        self._content.call()
        events += [CallStart(found[0]), Arguments(found[1])]
        self._buffer, self._before = self._buffer[self._at :], ""
        return True

    def _fail(self, events: list[Event]) -> None:
        """Treat the rest as text, because it is no call."""
        self._buffer, self._before, self._state = self._before + self._buffer, "", "text"

    def _end(self, events: list[Event]) -> bool:
        rest = self._buffer.lstrip()
        if not rest or (rest != _END and _END.startswith(rest)):
            return False
        self._buffer, self._state = rest.removeprefix(_END), "text"
        return True

    def _text(self, events: list[Event]) -> bool:
        events += self._content.add(self._buffer)
        self._buffer = ""
        return False

    def _unread(self) -> str:
        return "" if self._state == "end" else self._before + self._buffer


class _CodeSpan:
    """Finds the parenthesis that closes a call."""

    def __init__(self) -> None:
        self.done = False
        self._depth = 0
        self._quote = ""
        self._escaped = False

    def take(self, text: str, at: int) -> int:
        while at < len(text) and not self.done:
            char = text[at]
            at += 1
            if self._escaped:
                self._escaped = False
            elif self._quote:
                self._escaped = char == "\\"
                if char == self._quote:
                    self._quote = ""
            elif char in "\"'":
                self._quote = char
            elif char in "([{":
                self._depth += 1
            elif char in ")]}":
                self._depth -= 1
                self.done = self._depth == 0
        return at


def _read(code: str, tools: Mapping[str, Mapping[str, Any]]) -> tuple[str, str] | None:
    """Return the name and the arguments of a call, or None if it is not one of literals."""
    try:
        call = ast.parse(code, mode="eval").body
        if not isinstance(call, ast.Call):
            return None
        name = ast.unparse(call.func)
        properties = list((tools.get(name) or {}).get("properties") or ())
        if len(call.args) > len(properties):
            return None
        found = {
            properties[at]: ast.literal_eval(_Names().visit(value)) for at, value in enumerate(call.args)
        }
        for each in call.keywords:
            if each.arg is None:
                return None
            found[each.arg] = ast.literal_eval(_Names().visit(each.value))
        return name, json.dumps(found, ensure_ascii=False)
    # Code of a model may be anything: the parser and the literals fail in these ways.
    except (SyntaxError, ValueError, TypeError, RecursionError, MemoryError):
        return None


class _Names(ast.NodeTransformer):
    """Replaces JSON's names of values."""

    def visit_Name(self, node: ast.Name) -> ast.AST:  # noqa: N802 -- the name that ast calls
        """Return the value of a name that JSON has."""
        return ast.Constant(_NAMES[node.id]) if node.id in _NAMES else node
