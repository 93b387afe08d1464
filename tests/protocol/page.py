"""docs/protocol.md, made from the records: `python -m tests.protocol.page` writes it anew."""

from __future__ import annotations

import typing
from pathlib import Path
from typing import Annotated, Any

from skate.protocol import effects, fields, shell_events
from skate.protocol.check import Length
from skate.protocol.directory import DIRECTIONS, constant_of, tag_of
from skate.protocol.record import FieldDict, is_field_dict
from skate.protocol.version import VERSION

PAGE = Path(__file__).parents[2] / "docs" / "protocol.md"
#: What the shell of a node gives its core. These never travel.
FROM_SHELL: dict[int, Any] = {
    tag_of(each): each
    for each in vars(shell_events).values()
    if isinstance(each, type) and "tag" in vars(each).get("__annotations__", {})
}
HEAD = f"""# Messages, events and effects

This page is generated from the records in `src/skate/protocol/` (`python -m tests.protocol.page`); a test checks that it is
current.

A message is a tuple: its number, then the fields. Everything in it is what msgpack carries, so the same tuple is a direct call
in an embedded driver, a frame on a Unix socket and an event in a simulation. Both sides state the version of the protocol when
they connect (drivers in `ATTACH`, workers in `READY`, nodes in the first frame of their connection), and another one is refused.
This is version {VERSION}.

A dict inside a message may have entries beyond those that are checked here.
"""


def type_text(kind: Any) -> str:
    """A type as the page shows it."""
    origin = typing.get_origin(kind)
    if origin is Annotated:
        base, *marks = typing.get_args(kind)
        lengths = [f"[{' or '.join(map(str, mark.lengths))}]" for mark in marks if isinstance(mark, Length)]
        return type_text(base) + "".join(lengths)
    if kind is Any:
        return "any"
    if kind is type(None):
        return "None"
    arguments = typing.get_args(kind)
    if origin is tuple and len(arguments) == 2 and arguments[1] is Ellipsis:
        return f"tuple of {type_text(arguments[0])}"
    if origin is tuple:
        return f"({', '.join(map(type_text, arguments))})"
    if origin is dict:
        return f"dict of {' to '.join(map(type_text, arguments))}"
    if origin is list:
        return f"list of {type_text(arguments[0])}"
    if arguments:
        return " or ".join(map(type_text, arguments))
    return str(kind.__name__)


def fields_text(record: Any) -> str:
    """The fields of a record, but for its number."""
    hints = typing.get_type_hints(record, include_extras=True)
    hints.pop("tag", None)
    return ", ".join(f"`{name}`: {type_text(kind)}" for name, kind in hints.items()) or "none"


def row(*cells: object) -> str:
    return f"| {' | '.join(str(cell).replace(chr(10), ' ').replace('|', chr(92) + '|') for cell in cells)} |"


def doc(record: Any) -> str:
    return " ".join((record.__doc__ or "").split())


def page() -> str:
    """The text of the page."""
    lines = [HEAD]
    shell = {"the shell of a node → its core, as events, which never travel": FROM_SHELL}
    for direction, records in (DIRECTIONS | shell).items():
        lines += [
            f"## {direction[0].upper()}{direction[1:]}",
            "",
            row("number", "name", "meaning", "fields"),
            "|---|---|---|---|",
        ]
        lines += [
            row(tag, f"`{constant_of(record)}`", doc(record), fields_text(record))
            for tag, record in sorted(records.items())
        ]
        lines.append("")
    lines += ["## Dicts inside messages", "", row("record", "meaning", "entries"), "|---|---|---|"]
    dicts = [each for each in vars(fields).values() if is_field_dict(each) and each is not FieldDict]
    lines += [row(f"`{each.__name__}`", doc(each), fields_text(each)) for each in dicts]
    lines += ["", "## Effects", "", "What the core asks of the shell around it; these never travel.", ""]
    lines += [row("effect", "meaning", "fields"), "|---|---|---|"]
    lines += [
        row(f"`{each.__name__}`", doc(each), fields_text(each))
        for each in typing.get_args(effects.ShellEffect)
    ]
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    PAGE.write_text(page())
