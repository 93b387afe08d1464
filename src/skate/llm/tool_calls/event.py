"""The parts that a parser finds in the text of an answer, in order."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Content:
    """Text for the user."""

    text: str


@dataclass(frozen=True, slots=True)
class Reasoning:
    """Text of the model's reasoning."""

    text: str


@dataclass(frozen=True, slots=True)
class CallStart:
    """The start of a call of a tool; its arguments follow."""

    name: str


@dataclass(frozen=True, slots=True)
class Arguments:
    """A part of the arguments of the latest call, as JSON."""

    text: str


Event = Content | Reasoning | CallStart | Arguments


def joined(events: list[Event]) -> list[Event]:
    """Merge neighbours of the same kind, which belong to the same text."""
    found: list[Event] = []
    for each in events:
        last = found[-1] if found else None
        if not isinstance(each, CallStart) and not isinstance(last, CallStart) and type(each) is type(last):
            assert last is not None
            found[-1] = type(each)(last.text + each.text)
        else:
            found.append(each)
    return found
