"""The event log of a node: all inputs of its core. Another core that gets the same inputs makes the same decisions.

To report a bug in the node, run the program again with a log, and attach the log file of the node that shows the bug:

    SKATE_EVENT_LOG=logs python program.py           # writes logs/node-<pid>-<node id>.log

To replay it in another process or on another machine, without workers, sockets or clocks:

    python -m skate.node.event_log_file logs/node-4711-5be1c0de.log

To stop in a debugger before the step that went wrong, use `core = replay(entries(path), until=number)`. Tests keep the log in
memory: they make an `EventLog(core)` for a new core, then call `replay(log.entries)`.

`replay` compares the effects of every step with the recorded ones and reports the first difference, so a log also shows whether
a code change alters a decision. Each input is written before the core handles it, so the log has it even if the core raises.
A log contains the arguments and small values of all tasks: review it before you share it. Unpickle only logs that you trust.
"""

from __future__ import annotations

import hashlib
import pickle
from collections.abc import Callable, Iterable
from typing import Any

from skate.core.node import NodeCore

#: Kinds of entries: the core's arguments, an input of `step`, an input of `tick`, the hash of the last input's effects.
MADE_OF = "made of"
STEP = "step"
TICK = "tick"
EFFECTS = "effects"


class Divergence(AssertionError):
    """A core made other decisions than the recorded ones."""


class EventLog:
    """All inputs of one core and hashes of its effects, as packed entries."""

    def __init__(self, core: NodeCore, write: Callable[[bytes], object] | None = None) -> None:
        self.core = core
        self.entries: list[bytes] = []
        self._write = self.entries.append if write is None else write
        self._step, self._tick = core.step, core.tick
        total, options = core.made_of
        # A memory plan may own real memory; its decisions depend only on its size.
        kept = {name: value for name, value in options.items() if name != "memory"}
        self._put(MADE_OF, total, kept)
        core.step, core.tick = self.step, self.tick  # type: ignore[method-assign]

    def step(self, cid: int, message: tuple[Any, ...], now: float) -> None:
        """Record a step of the core."""
        # Pack it now: the core may change the message.
        self._put(STEP, cid, message, now)
        before = len(self.core.effects)
        self._step(cid, message, now)
        self._put(EFFECTS, digest_of(None, self.core.effects[before:]))

    def tick(self, now: float) -> float | None:
        """Record a tick of the core."""
        self._put(TICK, now)
        before = len(self.core.effects)
        wanted = self._tick(now)
        self._put(EFFECTS, digest_of(wanted, self.core.effects[before:]))
        return wanted

    def close(self) -> None:
        """Stop recording."""
        self.core.step, self.core.tick = self._step, self._tick  # type: ignore[method-assign]

    def _put(self, *entry: Any) -> None:
        self._write(pickle.dumps(entry))


def digest_of(answer: float | None, effects: list[Any]) -> bytes:
    """Return the hash of a core's answer and effects."""
    return hashlib.blake2b(repr((answer, effects)).encode(), digest_size=8).digest()


def replay(entries: Iterable[bytes], until: int | None = None) -> NodeCore:
    """Make a core from a log and feed it all recorded inputs, or only those before number `until`.

    Raise Divergence at the first different decision.
    """
    core: NodeCore | None = None
    count = 0
    given: Any = None
    answer: float | None = None
    for packed in entries:
        mark, *what = pickle.loads(packed)
        if mark == MADE_OF:
            core = NodeCore(what[0], **what[1])
            continue
        assert core is not None, "a log begins with what its node is made of"
        if mark == EFFECTS:
            if digest_of(answer, core.effects) != what[0]:
                raise Divergence(
                    f"input {count - 1}, {given!r:.500}, has led to other effects: {core.effects!r:.2000}"
                )
            continue
        if count == until:
            break
        count += 1
        given = what
        core.effects.clear()
        answer = core.tick(*what) if mark == TICK else core.step(*what)  # type: ignore[func-returns-value]
    assert core is not None, "an empty log"
    return core
