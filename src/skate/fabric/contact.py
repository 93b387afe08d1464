"""The contact between a member and the head, as either directory keeps it: what was heard, and what has arrived."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from typing import Final, Literal

State = Literal["joining", "alive", "suspect", "draining", "dead"]
JOINING: Final = "joining"
ALIVE: Final = "alive"
SUSPECT: Final = "suspect"
DRAINING: Final = "draining"
DEAD: Final = "dead"


@dataclass(frozen=True)
class Timing:
    """Seconds, and the number of turns."""

    beat: float = 1.0  # at least one write in this time
    silence: float = 5.0  # without which a member is suspected, and a lease ends
    reach: float = 2.5  # in which a member has been heard, for those who are asked, and for the head's doubt
    ask: float = 1.0  # for answers
    grace: float = 60.0  # for which members continue without a head, and a head in doubt declares nobody dead
    turns: int = 10  # of the head's loop within `silence`, or its clock is not to be trusted


class Sent:
    """Numbered things that were sent to another member, and have no receipt yet."""

    __slots__ = ("_waiting", "newest")

    def __init__(self) -> None:
        self.newest = 0
        self._waiting: deque[tuple[int, float]] = deque()

    def add(self, number: int, now: float) -> None:
        """Note what was sent just now; one that is sent again counts from the first time."""
        waiting = self._waiting
        if not waiting or number > waiting[-1][0]:
            self.newest = number
            waiting.append((number, now))

    def confirm(self, number: int) -> float | None:
        """Handle the receipt of everything up to this number; return when the last of it was sent, or None."""
        when = None
        waiting = self._waiting
        while waiting and waiting[0][0] <= number:
            when = waiting.popleft()[1]
        return when


class Contact:
    """The contact with one other member, in both directions.

    Beside the numbered writes of the lane there are pulses: signs of life of a member that has nothing else to write, which the
    head echoes. Both have numbers of their own, so that a pulse costs less than a write, and may be lost.
    """

    __slots__ = ("confirmed", "echoed", "heard", "pulses", "wrote", "_writes")

    def __init__(self, now: float) -> None:
        self.heard = now
        self.wrote = now
        self.confirmed = now  # when the last write or pulse was sent that is known to have arrived
        self.pulses = Sent()  # of the head: its echoes
        self.echoed = 0  # of a member: the last of its pulses that the head has echoed
        self._writes = Sent()

    def write(self, number: int, now: float) -> None:
        """Note a write with its number."""
        self.wrote = now
        self._writes.add(number, now)

    def confirm(self, number: int) -> None:
        """Note that the writes up to this number have arrived."""
        self._arrived(self._writes.confirm(number))

    def pulse(self, number: int, now: float) -> None:
        """Note a pulse, or an echo, with its number."""
        self.wrote = now
        self.pulses.add(number, now)

    def confirm_pulse(self, number: int) -> None:
        """Note that the pulses up to this number have arrived, or the echoes."""
        self._arrived(self.pulses.confirm(number))

    def _arrived(self, when: float | None) -> None:
        if when is not None and when > self.confirmed:
            self.confirmed = when


@dataclass(slots=True)
class Member:
    """The head's entry of one member."""

    number: int
    state: State
    contact: Contact
    connected: bool = True
    registered: bool = True
    deadline: float | None = None  # of a drain
    reason: str = ""
    patience: float = 0.0  # seconds for which it may be silent beyond the usual
    asked_at: float | None = None
    asked: tuple[int, ...] = ()
    answers: dict[int, bool] = field(default_factory=dict)

    @property
    def is_living(self) -> bool:
        """True if it counts as a member."""
        return self.state in (ALIVE, SUSPECT, DRAINING)
