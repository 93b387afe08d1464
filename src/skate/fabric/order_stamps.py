"""The stamps of one member: which binding frames may not have been delivered, as far as it knows."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from skate.fabric.order_lane import Note, OrderLane, Stamp

#: Turns after which a stamp is dropped that nobody has said anything about.
AGE_MAX: Final = 2
ARRIVED: Final = -1  # in place of an age: the frame of a stamp has been delivered


class Stamps:
    """The part of `Order` that remembers binding frames and announces them to each lane."""

    def __init__(self, number: int, members: Iterable[int]) -> None:
        self.number = number
        self.members = set(members)
        #: By (destination, source), in the order of their indices.
        self._notes: dict[tuple[int, int], Note] = {}
        self._index = 0
        self._announced_max = 0  # the largest `announced` of any lane

    def _stamps_for(self, lane: OrderLane) -> tuple[Stamp, ...]:
        """Return the notes that have changed since the last write of a lane."""
        if lane.announced == self._index:
            return ()
        found: list[Stamp] = []
        for (destination, source), note in reversed(self._notes.items()):
            if note.index <= lane.announced:
                break
            if source == lane.peer or (destination == lane.peer and source == self.number):
                continue  # the peer has sent it, or finds it in this lane
            if note.arrived and note.since > lane.announced:
                continue  # its way was never announced to the peer
            found.append((destination, source, note.number, ARRIVED if note.arrived else note.age))
            if destination == lane.peer and not note.arrived:
                lane.sent_stamps.append((lane.sent + 1, source, note.number))
        lane.announced = self._index
        self._announced_max = max(self._announced_max, self._index)
        return tuple(found)

    def _note(self, pair: tuple[int, int], number: int, age: int) -> None:
        """Remember a binding frame that may not have been delivered."""
        self._index += 1
        before = self._notes.pop(pair, None)
        since = self._index if before is None else before.since
        self._notes[pair] = Note(number, age, self._index, since)

    def _learn(self, stamp: Stamp) -> None:
        """Remember what a delivered write says about a binding frame between two others."""
        destination, source, number, age = stamp
        if self.number in (destination, source) or not self.members.issuperset((destination, source)):
            return
        note = self._notes.get((destination, source))
        if age == ARRIVED:
            self._arrived((destination, source), number)
        elif note is None or number > note.number:
            self._note((destination, source), number, age)
        elif number == note.number and not note.arrived:
            note.age = max(note.age, age)

    def _arrived(self, pair: tuple[int, int], number: int) -> None:
        """Note that the frames of a pair up to this number have been delivered."""
        note = self._notes.get(pair)
        if note is None or note.arrived or note.number > number:
            return
        del self._notes[pair]
        if note.since <= self._announced_max:  # it was announced to a peer, so this is announced as well
            self._index += 1
            note.arrived, note.age, note.index = True, 0, self._index
            self._notes[pair] = note

    def turn(self) -> None:
        """Age the notes: call this once in the time after which a silent member is dead."""
        for pair, note in list(self._notes.items()):
            if pair[1] == self.number and not note.arrived:
                continue  # its receipt comes, or its receiver leaves
            note.age += 1
            if note.age > AGE_MAX:
                del self._notes[pair]

    def _forget_notes(self, member: int) -> None:
        for pair in [pair for pair in self._notes if member in pair]:
            del self._notes[pair]

    @property
    def stamps(self) -> list[Stamp]:
        """Binding frames that may not have been delivered, as far as known here."""
        return [(*pair, note.number, note.age) for pair, note in self._notes.items() if not note.arrived]
