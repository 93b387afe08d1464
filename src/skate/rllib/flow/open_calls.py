"""Calls of runners whose results nobody has fetched yet, by runner and tag."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True, slots=True)
class OpenCall:
    """One call.

    Attributes:
        runner: Index of the runner.
        tag: Name under which the result is fetched; None for none.
        actor: The actor that was called; after a restart the runner is another one.
    """

    runner: int
    tag: str | None
    actor: Any


@dataclass(slots=True)
class OpenCalls:
    """The calls that were made and not fetched.

    Attributes:
        calls: By the reference to the result.
        turn: The runner that gets the next call of those that are dealt out in turn.
    """

    calls: dict[Any, OpenCall] = field(default_factory=dict)
    turn: int = 0

    def count(self, runner: int, tag: str | None) -> int:
        """Return the number of open calls of a runner under a tag."""
        return sum(call.runner == runner and call.tag == tag for call in self.calls.values())

    def under(self, tags: str | Collection[str] | None) -> list[Any]:
        """Return the references of the calls under one tag or several, in the order of the calls; all if None or empty."""
        wanted = (tags,) if isinstance(tags, str) else tags
        return [ref for ref, call in self.calls.items() if not wanted or call.tag in wanted]

    def total(self, tag: str | None = None) -> int:
        """Return the number of open calls: under a tag, or of all."""
        return len(self.under(tag))

    def deal(self, runners: list[int], count: int) -> list[int]:
        """Return the runners of so many calls: each one's if there are as many, otherwise the runners in turn."""
        if count == len(runners) or not runners:
            return runners
        dealt = [runners[(self.turn + index) % len(runners)] for index in range(count)]
        self.turn = (self.turn + count) % len(runners)
        return dealt
