"""Order among many members: numbered lanes, stamps on what binds, views. Pure: no socket, clock, thread or randomness.

A member keeps one `Order`. It turns frames to other members into numbered `Write`s, and received writes into `Delivery`s, in
an order that the core can rely on. A carrier moves the writes; it may lose its connections, but a connection has no gaps:
what is lost is a suffix. Four rules hold:

1.  *Lanes.* All writes between two members are numbered. The sender keeps each until a receipt says that it was received, and
    sends it again over the next connection; the receiver drops what it has. So every frame arrives once and in order,
    whatever path the lane takes.
2.  *Stamps.* A frame that follows causally from a binding frame b to member d (Lamport's "happened before") is not delivered
    at d before b. This is the causal broadcast of Schiper, Eggli and Sandoz (1989), restricted to few frames: a stamp
    (d, source of b, number of b's write) goes along with every write that follows from b, and d holds a write back until it
    has delivered what the stamps for d name. Members that are not d remember the stamp and pass it on, once to each lane.
    The receiver waits, never the sender: a slow link delays only what depends on it.
3.  *Views.* The head decides who is a member, and tells the changes one after the other in its lanes. Each write has the
    number of changes that its sender knew of (its view, as in virtual synchrony), and waits until its receiver knows them.
4.  *Departures.* A departure is delivered after everything that has arrived from the member that left, and nothing of that
    member comes after it. The receiver learns of it as soon as the news arrives, also when it is stuck in a lane: from then
    on no write waits for something that the dead member never sent.

Stamps are sparse. One disappears when its frame is known to be delivered: at the source by a receipt, elsewhere by a note that
follows the stamp through the lanes, or because a write with this stamp was delivered at d. What is left is dropped after
AGE_MAX turns. A turn is the time after which a member that has not answered is dead, so the frame has been delivered or has
no receiver by then. The age travels with the stamp, so that members cannot keep an old one alive among themselves.

The rules cannot make members wait in a circle: a write waits only for writes that happened before it, and for changes of
membership that its sender had already seen.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping
from typing import Any, Final

from skate.fabric.write import DATA, EXPRESS, JOINED, LEFT, Delivery, Receipt, Stamp, Write

#: Turns after which a stamp is dropped that nobody has said anything about.
AGE_MAX: Final = 2
ARRIVED: Final = -1  # in place of an age: the frame of a stamp has been delivered
#: The most frames of one write, so that a long break does not end in one of gigabytes.
FRAMES_MAX: Final = 1024
_VIEW: Final = -1  # what a lane waits for that waits for news; members are not negative


class OrderError(ValueError):
    """A carrier has left out a write, or a member has come back without its memory."""


class _Lane:
    """Both directions between this member and another."""

    __slots__ = (
        "peer", "queued", "window", "sent", "announced", "sent_stamps", "held", "received", "delivered", "receipted", "waits",
    )  # fmt: skip

    def __init__(self, peer: int) -> None:
        self.peer = peer
        self.queued: list[Any] = []  # frames that are in no write yet
        self.window: deque[Write] = deque()  # writes without a receipt
        self.sent = 0  # number of the last write
        self.announced = 0  # index of the last note that was announced to the peer
        #: Stamps for the peer itself that writes have carried: (number of the write, source, number).
        self.sent_stamps: deque[tuple[int, int, int]] = deque()
        self.held: deque[Write] = deque()  # received, not delivered
        self.received = self.delivered = 0
        self.receipted = Receipt(0, 0)  # the last receipt sent
        self.waits = False


class _Note:
    """Knowledge of the last binding frame between two members: it has been delivered, or perhaps not."""

    __slots__ = ("number", "arrived", "age", "index", "since")

    def __init__(self, number: int, age: int, index: int, since: int) -> None:
        self.number = number
        self.arrived = False
        self.age = age
        self.index = index  # position in the sequence of all changes of notes
        self.since = since  # position from which the pair has been told as a stamp


class Order:
    """One member's half of all its lanes."""

    def __init__(self, number: int, members: Iterable[int] = (), view: int = 0) -> None:
        self.number = number
        self.members = set(members)
        self.view = view  # changes of membership delivered here
        #: Members that are leaving, with the reason: the news is here, but may have to wait.
        self.closing: dict[int, str] = {}
        self._ended: set[int] = set()  # of these, the ones of whom nothing more can arrive
        self._announce: set[int] = (
            set()
        )  # of these, the ones whose departure this member, the head, is to tell
        self._lanes: dict[int, _Lane] = {}
        self._dirty: dict[int, _Lane] = {}  # with frames or writes to be handed out
        self._writes: list[tuple[int, Write]] = []
        self._waits: dict[int, list[_Lane]] = {}
        #: By (destination, source), in the order of their indices.
        self._notes: dict[tuple[int, int], _Note] = {}
        #: A head that has replaced another one, and its first view: stamps of older views do not count for it.
        self._void = (-1, 0)
        self._index = 0
        self._announced_max = 0  # the largest `announced` of any lane

    # -- sending

    def send(self, to: int, frame: object, binds: bool = False) -> None:
        """Queue a frame; no-op for one that is no member, or is leaving."""
        if to not in self.members or to in self.closing:
            return
        lane = self._lane(to)
        lane.queued.append(frame)
        self._dirty[to] = lane
        if binds:
            self._note((to, self.number), lane.sent + 1, 0)

    def send_express(self, to: int, frame: object) -> None:
        """Send a frame that overtakes what is held back at its receiver."""
        if to in self.members and to not in self.closing:
            self._write(self._lane(to), EXPRESS, (frame,))

    def writes(self) -> list[tuple[int, Write]]:
        """Return what is to be written now, with its receivers."""
        if self._dirty:
            dirty, self._dirty = self._dirty, {}
            for lane in dirty.values():
                self._flush(lane)
        elif not self._writes:
            return []
        found, self._writes = self._writes, []
        return found

    def _flush(self, lane: _Lane) -> None:
        while lane.queued:
            frames, lane.queued = tuple(lane.queued[:FRAMES_MAX]), lane.queued[FRAMES_MAX:]
            self._number(lane, DATA, self._stamps_for(lane), frames)

    def _write(self, lane: _Lane, kind: int, frames: tuple[Any, ...]) -> None:
        self._flush(lane)
        # What is to be read out of order has no stamps: they are not delayed.
        self._number(lane, kind, () if kind == EXPRESS else self._stamps_for(lane), frames)

    def _number(self, lane: _Lane, kind: int, stamps: tuple[Stamp, ...], frames: tuple[Any, ...]) -> None:
        lane.sent += 1
        lane.receipted = receipt = Receipt(lane.received, lane.delivered)
        write = Write(lane.sent, kind, self.view, receipt, stamps, frames)
        lane.window.append(write)
        self._writes.append((lane.peer, write))

    def _stamps_for(self, lane: _Lane) -> tuple[Stamp, ...]:
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

    # -- receiving

    def receive(self, source: int, write: Write) -> list[Delivery]:
        """Handle a write of another member; return what can be delivered now."""
        if self.is_over(source, write.view):
            return []
        lane = self._lanes.get(source) or self._lane(source)
        self.receipted(source, write.receipt)
        number = write.number
        if number <= lane.received:
            return []  # known from another connection
        if number > lane.received + 1:
            raise OrderError(f"write {number} of {source} came after {lane.received}")
        lane.received = number
        if (
            write.kind == DATA
            and not (write.stamps or lane.held or self._waits or self._announce)
            and write.view <= self.view
        ):
            lane.delivered = number  # nothing stands in its way, and nothing waits for it
            return [Delivery(source, DATA, write.frames)]
        found = []
        if write.kind == EXPRESS:
            found.append(Delivery(source, EXPRESS, write.frames))
        elif write.kind == LEFT:
            ((member, reason),) = write.frames
            self.closing.setdefault(member, reason)
        lane.held.append(write)
        if not lane.waits:
            self._advance([lane], found)
        return found

    def is_over(self, member: int, view: int) -> bool:
        """Return True if nothing is to come of a member, who speaks with this view: it has left, or its lane has ended."""
        return member in self._ended or (member not in self.members and view <= self.view)

    def ended(self, member: int) -> list[Delivery]:
        """Handle the end of all connections of a leaving member; return what waited for something that will not come."""
        found: list[Delivery] = []
        if member in self.closing:
            self._ended.add(member)
            self._advance(self._moved(member, found), found)
        return found

    def receipt(self, peer: int) -> Receipt | None:
        """Return the receipt to be sent to a member, if no write carried it."""
        lane = self._lanes.get(peer)
        if lane is None or lane.receipted == (lane.received, lane.delivered):
            return None
        lane.receipted = Receipt(lane.received, lane.delivered)
        return lane.receipted

    def receipted(self, peer: int, receipt: Receipt) -> None:
        """Handle a member's receipt."""
        lane = self._lanes.get(peer)
        if lane is None:
            return
        received, delivered = receipt
        if received > lane.sent:
            raise OrderError(f"member {peer} has received write {received} of {lane.sent}")
        window = lane.window
        while window and window[0].number <= received:
            window.popleft()
        if self._notes:
            self._arrived((peer, self.number), delivered)
        while lane.sent_stamps and lane.sent_stamps[0][0] <= delivered:
            _, source, number = lane.sent_stamps.popleft()
            self._arrived((peer, source), number)

    def resume(self, peer: int, received: int) -> list[Write]:
        """Return what must be written again over a new connection to a member that has received so much."""
        lane = self._lane(peer)
        self.receipted(peer, Receipt(received, 0))
        if lane.sent - len(lane.window) != received:
            raise OrderError(f"member {peer} has received {received} writes, and some before were discarded")
        lane.receipted = Receipt(-1, -1)  # the last one may be lost with the connection
        return list(lane.window)

    def received(self, peer: int) -> int:
        """Return how many writes of a member have arrived, for `resume` at the other end."""
        lane = self._lanes.get(peer)
        return 0 if lane is None else lane.received

    def backlog(self, peer: int) -> int:
        """Return how many writes to a member have no receipt: a carrier stops reading its sources at some number."""
        lane = self._lanes.get(peer)
        return 0 if lane is None else len(lane.window)

    # -- delivery

    def _advance(self, lanes: list[_Lane], found: list[Delivery]) -> None:
        """Deliver from lanes what nothing stands in the way of, and from those that waited for it."""
        while lanes:
            lane = lanes.pop()
            moved = False
            while lane.held:
                obstacle = self._obstacle(lane.held[0])
                if obstacle is not None:
                    lane.waits = True
                    self._waits.setdefault(obstacle, []).append(lane)
                    break
                write = lane.held.popleft()
                lane.delivered = write.number
                moved = True
                self._take(lane, write, lanes, found)
            if moved:
                lanes += self._moved(lane.peer, found)

    def _obstacle(self, write: Write) -> int | None:
        """Return the member that a write waits for, or _VIEW; None if it can be delivered."""
        if write.kind == EXPRESS:
            return None
        if write.view > self.view:
            return _VIEW
        for destination, source, number, age in write.stamps:
            if destination != self.number or age == ARRIVED or self._is_void(write.view, source):
                continue
            if self._is_awaited(source, number):
                return source
        if write.kind == LEFT:
            member: int = write.frames[0][0]
            if not self._is_drained(member):
                return member
        return None

    def _is_awaited(self, source: int, number: int) -> bool:
        """Return True if a write is yet to be delivered here; False if it was, or if it died with its source."""
        if source not in self.members:
            return False
        lane = self._lanes.get(source)
        delivered, received = (0, 0) if lane is None else (lane.delivered, lane.received)
        if source in self._ended and number > received:
            return False
        return number > delivered

    def _is_drained(self, member: int) -> bool:
        """Return True if nothing of a leaving member is left to be delivered, and nothing more can arrive."""
        lane = self._lanes.get(member)
        return member in self._ended and (lane is None or not lane.held)

    def _take(self, lane: _Lane, write: Write, lanes: list[_Lane], found: list[Delivery]) -> None:
        for stamp in write.stamps:
            if not (self._is_void(write.view, stamp[0]) or self._is_void(write.view, stamp[1])):
                self._learn(stamp)
        if write.kind == DATA:
            found.append(Delivery(lane.peer, DATA, write.frames))
        elif write.kind == JOINED:
            self.members.add(write.frames[0][0])
            found.append(Delivery(lane.peer, JOINED, write.frames))
            lanes += self._changed()
        elif write.kind == LEFT:
            lanes += self._departed(lane.peer, write.frames, found)

    def _moved(self, member: int, found: list[Delivery]) -> list[_Lane]:
        """Handle progress in a member's lane; return the lanes that have waited for it."""
        lanes = self._woken(member)
        if member in self._announce and self._is_drained(member):
            lanes += self._departed(self.number, ((member, self.closing[member]),), found)
        return lanes

    def _woken(self, obstacle: int) -> list[_Lane]:
        lanes = self._waits.pop(obstacle, [])
        for lane in lanes:
            lane.waits = False
        return lanes

    # -- views

    def admit(self, member: int, info: object) -> None:
        """On the head: add a member and tell the others; its own `Order` begins with this view and these members."""
        self._tell(JOINED, (member, info))
        self.members.add(member)
        self.view += 1  # nothing here waits for it: nobody else makes views

    def dismiss(self, member: int, reason: str) -> None:
        """On the head: begin to remove a member; the others are told once its lane has ended and is empty."""
        if member in self.members and member not in self.closing:
            self.closing[member] = reason
            self._announce.add(member)

    def _tell(self, kind: int, news: tuple[int, object]) -> None:
        for member in sorted(self.members):
            if member not in self.closing:
                self._write(self._lane(member), kind, (news,))

    # -- another head

    def change_head(
        self, head: int, view: int, members: Mapping[int, object], info: object, reason: str
    ) -> list[Delivery]:
        """Continue with another head, which has the number of the last one; its lane begins anew.

        Args:
            head: the number of the head.
            view: the view that the new head began with, greater than any of the last one.
            members: those that the head began with, this one left out, with what is known of each.
            info: what is known of the head.
            reason: why the last one has left.
        Returns:
            The news: who has left, the last head first, and who has joined. What it sent and was not delivered is lost.
        """
        news: list[Delivery] = [Delivery(head, LEFT, ((head, reason),))]
        self._forget_lane(head)
        self._void = (head, view)
        self.closing.clear()
        self._ended.clear()
        known = self.members - {head}
        for member in sorted(known - members.keys()):
            self._forget_lane(member)
            news.append(Delivery(head, LEFT, ((member, reason),)))
        self.members = {head, *members}
        self.view = view
        news.append(Delivery(head, JOINED, ((head, info),)))
        news += [Delivery(head, JOINED, ((each, members[each]),)) for each in sorted(members.keys() - known)]
        waiting = [lane for lanes in self._waits.values() for lane in lanes]
        self._waits.clear()
        for lane in waiting:
            lane.waits = False
        self._advance(waiting, news)
        return news

    def _forget_lane(self, member: int) -> None:
        lane = self._lanes.pop(member, None)
        self._dirty.pop(member, None)
        for pair in [pair for pair in self._notes if member in pair]:
            del self._notes[pair]
        self._writes = [each for each in self._writes if each[0] != member]
        for lanes in self._waits.values():
            if lane in lanes:
                lanes.remove(lane)

    def _is_void(self, view: int, member: int) -> bool:
        """Return True if a stamp in a write with this view names a lane of the last head."""
        head, first = self._void
        return member == head and view < first

    def _departed(self, source: int, frames: tuple[Any, ...], found: list[Delivery]) -> list[_Lane]:
        """Remove a member; return the lanes that may continue."""
        ((member, _),) = frames
        if member in self._announce:
            self._announce.discard(member)
            self._tell(LEFT, frames[0])
        self.members.discard(member)
        self.closing.pop(member, None)
        self._ended.discard(member)
        self._lanes.pop(member, None)
        self._dirty.pop(member, None)
        for pair in [pair for pair in self._notes if member in pair]:
            del self._notes[pair]
        found.append(Delivery(source, LEFT, frames))
        return self._woken(member) + self._changed()

    def _changed(self) -> list[_Lane]:
        self.view += 1
        return self._woken(_VIEW)

    # -- notes

    def _note(self, pair: tuple[int, int], number: int, age: int) -> None:
        """Remember a binding frame that may not have been delivered."""
        self._index += 1
        before = self._notes.pop(pair, None)
        since = self._index if before is None else before.since
        self._notes[pair] = _Note(number, age, self._index, since)

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

    # -- checks

    def _lane(self, peer: int) -> _Lane:
        lane = self._lanes.get(peer)
        if lane is None:
            lane = self._lanes[peer] = _Lane(peer)
        return lane

    @property
    def stamps(self) -> list[Stamp]:
        """Binding frames that may not have been delivered, as far as known here."""
        return [(*pair, note.number, note.age) for pair, note in self._notes.items() if not note.arrived]

    def held(self) -> dict[int, int]:
        """Return how many received writes of each member wait here."""
        return {peer: len(lane.held) for peer, lane in self._lanes.items() if lane.held}

    def check(self) -> None:
        """Raise AssertionError if an invariant is broken."""
        indices = [note.index for note in self._notes.values()]
        assert indices == sorted(indices), "the notes are not in the order of their indices"
        waiting = [lane.peer for lanes in self._waits.values() for lane in lanes]
        assert len(waiting) == len(set(waiting)), f"a lane waits twice: {waiting}"
        for lane in self._lanes.values():
            assert lane.delivered + len(lane.held) == lane.received, f"a write of {lane.peer} is missing"
            numbers = [write.number for write in lane.window]
            assert numbers == list(range(lane.sent - len(numbers) + 1, lane.sent + 1)), numbers
            assert bool(lane.held) == lane.waits == (lane.peer in waiting), f"{lane.peer} waits for nothing"

    def __repr__(self) -> str:
        return f"<Order {self.number} view={self.view} held={self.held()} stamps={len(self._notes)}>"
