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

*Another head.* A head that follows another one has an epoch, and its lanes begin at numbers that no lane of a head before has
reached (`base_of`), and so do its views. So what a stamp says of an old head counts as delivered, and a view of an old head as
known. A member that has changed to the new head still holds back what comes from one that has not, if it was sent with a view
that never came here: the new head first tells what that other member knew.

The rules cannot make members wait in a circle: a write waits only for writes that happened before it, and for changes of
membership that its sender had already seen.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final, NamedTuple

from skate.fabric.order_lane import EPOCH_BITS, FRAMES_MAX, OrderLane, Receipt, Stamp, Write
from skate.fabric.order_stamps import AGE_MAX as AGE_MAX
from skate.fabric.order_stamps import ARRIVED, Stamps

#: Kinds of writes and deliveries.
DATA: Final = 0  # frames, in order
EXPRESS: Final = 1  # frames that are delivered once, but as soon as they arrive: what the head relays
JOINED: Final = 2  # news from the head: (member, info)
LEFT: Final = 3  # news from the head: (member, reason)
FORETOLD: Final = 4  # news from the head: (member, info) of one that follows the head before, and may return

HEAD: Final = 0
_VIEW: Final = -1  # what a lane waits for that waits for news; members are not negative


class OrderError(ValueError):
    """A carrier has left out a write, or a member has come back without its memory."""


class Delivery(NamedTuple):
    """Frames for the handler, or news: then `frames` has one pair."""

    source: int
    kind: int
    frames: tuple[Any, ...]


class Order(Stamps):
    """One member's half of all its lanes. `view` is that of the head; its upper bits say which epoch it belongs to."""

    def __init__(self, number: int, members: Iterable[int] = (), view: int = 0) -> None:
        super().__init__(number, members)
        self.view = view  # changes of membership delivered here
        self._base = view >> EPOCH_BITS << EPOCH_BITS  # of the lanes to the head
        self._last_view = self._base  # under the head before
        self._changed: set[int] = set()  # members that have changed to the present head, as far as known
        self._is_headless = False
        #: Members that are leaving, with the reason: the news is here, but may have to wait.
        self.closing: dict[int, str] = {}
        self._ended: set[int] = set()  # of these, the ones of whom nothing more can arrive
        self._announce: set[int] = set()  # of these, the ones whose departure this head is to tell
        self._lanes: dict[int, OrderLane] = {}
        self._dirty: dict[int, OrderLane] = {}  # with frames or writes to be handed out
        self._writes: list[tuple[int, Write]] = []
        #: True on a head that calls `tell` itself: then many members that join become one write to each other member.
        self.holds_news = False
        self._untold: dict[int, OrderLane] = {}  # lanes with news of members that have joined
        self._waits: dict[int, list[OrderLane]] = {}

    # -- sending

    def send(self, to: int, frame: object, binds: bool = False) -> None:
        """Queue a frame; no-op for one that is no member, or is leaving."""
        if to not in self.members or to in self.closing:
            return
        lane = self._lanes.get(to) or self._lane(to)
        lane.queued.append(frame)
        self._dirty[to] = lane
        if binds:
            self._note((to, self.number), lane.last_queued(), 0)

    def send_alone(self, to: int, frame: object, binds: bool = False) -> None:
        """Queue a large frame, in a write of its own."""
        if to in self.members and to not in self.closing:
            self._flush(self._lane(to))
            self.send(to, frame, binds)
            self._flush(self._lane(to))

    def send_express(self, to: int, frame: object) -> None:
        """Send a frame that overtakes what is held back at its receiver."""
        if to in self.members and to not in self.closing:
            self._write(self._lane(to), EXPRESS, (frame,))

    def writes(self) -> list[tuple[int, Write]]:
        """Return what is to be written now, with its receivers."""
        if self._untold and not self.holds_news:
            self.tell()
        if self._dirty:
            dirty, self._dirty = self._dirty, {}
            for lane in dirty.values():
                self._flush(lane)
        elif not self._writes:
            return []
        found, self._writes = self._writes, []
        return found

    def tell(self) -> None:
        """On the head: have the next `writes` tell the others who has joined, also those that nothing else is written to."""
        self._dirty.update(self._untold)
        self._untold = {}

    def _flush(self, lane: OrderLane) -> None:
        if lane.news:  # what follows has a view that includes it
            view, groups = self.view - len(lane.news), lane.grouped_news()
            lane.news = []
            self._untold.pop(lane.peer, None)
            for kind, news in groups:
                # Stamps may be about members that join, of whom the receiver does not know yet.
                self._number(lane, kind, () if kind == JOINED else self._stamps_for(lane), news, view)
                view += len(news)
        while lane.queued:
            frames, lane.queued = tuple(lane.queued[:FRAMES_MAX]), lane.queued[FRAMES_MAX:]
            self._number(lane, DATA, self._stamps_for(lane), frames)

    def _write(self, lane: OrderLane, kind: int, frames: tuple[Any, ...]) -> None:
        self._flush(lane)
        # What is to be read out of order has no stamps: they are not delayed.
        self._number(lane, kind, () if kind == EXPRESS else self._stamps_for(lane), frames)

    def _number(
        self,
        lane: OrderLane,
        kind: int,
        stamps: tuple[Stamp, ...],
        frames: tuple[Any, ...],
        view: int | None = None,
    ) -> None:
        lane.sent += 1
        lane.receipted = receipt = Receipt(lane.received, lane.delivered)
        write = Write(lane.sent, kind, self.view if view is None else view, receipt, stamps, frames)
        lane.window.append(write)
        self._writes.append((lane.peer, write))

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
            and not self._is_ahead(source, write.view)
        ):
            lane.delivered = number  # nothing stands in its way, and nothing waits for it
            return [Delivery(source, DATA, write.frames)]
        found = []
        if write.kind == EXPRESS:
            found.append(Delivery(source, EXPRESS, write.frames))
        elif write.kind == LEFT:
            for member, reason in write.frames:
                self.closing.setdefault(member, reason)
            # Those members will not change to the present head any more.
            self._advance(self._woken(_VIEW), found)
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
        return self._base_of(peer) if lane is None else lane.received

    def backlog(self, peer: int) -> int:
        """Return how many writes to a member have no receipt: a carrier stops reading its sources at some number."""
        lane = self._lanes.get(peer)
        return 0 if lane is None else len(lane.window)

    # -- delivery

    def _advance(self, lanes: list[OrderLane], found: list[Delivery]) -> None:
        """Deliver from lanes what nothing stands in the way of, and from those that waited for it."""
        while lanes:
            lane = lanes.pop()
            moved = False
            while lane.held:
                obstacle = self._obstacle(lane.peer, lane.held[0])
                if obstacle is not None:
                    lane.waits = True
                    self._waits.setdefault(obstacle, []).append(lane)
                    break
                write = lane.held.popleft()
                moved = True
                if write.kind == LEFT and len(write.frames) > 1:
                    # One after the other: what the second waits for may itself wait for the news of the first.
                    lane.held.appendleft(write._replace(stamps=(), frames=write.frames[1:]))
                    write = write._replace(frames=write.frames[:1])
                else:
                    lane.delivered = write.number
                self._take(lane, write, lanes, found)
            if moved:
                lanes += self._moved(lane.peer, found)

    def _obstacle(self, peer: int, write: Write) -> int | None:
        """Return the member that a write waits for, or _VIEW; None if it can be delivered."""
        if write.kind == EXPRESS:
            return None
        if self._is_ahead(peer, write.view):
            return _VIEW
        for destination, source, number, age in write.stamps:
            if destination == self.number and age != ARRIVED and self._is_awaited(source, number):
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
        base = self._base_of(source)
        delivered, received = (base, base) if lane is None else (lane.delivered, lane.received)
        if (source in self._ended or (source == HEAD and self._is_headless)) and number > received:
            return False
        return number > delivered

    def _is_drained(self, member: int) -> bool:
        """Return True if nothing of a leaving member is left to be delivered, and nothing more can arrive."""
        lane = self._lanes.get(member)
        return member in self._ended and (lane is None or not lane.held)

    def _take(self, lane: OrderLane, write: Write, lanes: list[OrderLane], found: list[Delivery]) -> None:
        for stamp in write.stamps:
            self._learn(stamp)
        if write.kind == DATA:
            found.append(Delivery(lane.peer, DATA, write.frames))
        elif write.kind in (JOINED, FORETOLD):
            for news in write.frames:
                member: int = news[0]
                if member != self.number:
                    self.members.add(member)
                if write.kind == JOINED:
                    self._changed.add(member)
                found.append(Delivery(lane.peer, JOINED, (news,)))
                lanes += self._view_changed()
        elif write.kind == LEFT:
            lanes += self._departed(lane.peer, write.frames, found)

    def _moved(self, member: int, found: list[Delivery]) -> list[OrderLane]:
        """Handle progress in a member's lane; return the lanes that have waited for it."""
        lanes = self._woken(member)
        if member in self._announce and self._is_drained(member):
            lanes += self._departed(self.number, ((member, self.closing[member]),), found)
        return lanes

    def _woken(self, obstacle: int) -> list[OrderLane]:
        lanes = self._waits.pop(obstacle, [])
        for lane in lanes:
            lane.waits = False
        return lanes

    # -- views

    def admit(self, member: int, info: object, frame: object = None) -> None:
        """On the head: add a member and tell the others; its own `Order` begins with this view and these members.

        `frame` is the news as a carrier writes it, (member, info) by default.
        """
        for other in sorted(self.members - self.closing.keys()):
            lane = self._lane(other)
            if lane.queued:  # before the view changes
                self._flush(lane)
            lane.news.append((JOINED, (member, info) if frame is None else frame))
            self._untold[other] = lane
        self.members.add(member)
        self.view += 1  # nothing here waits for it: nobody else makes views

    def foretell(self, member: int, info: object) -> None:
        """On the head: tell the others of a member of the head before, which has not returned yet."""
        self._tell(FORETOLD, (member, info))
        self.members.add(member)
        self.view += 1

    def dismiss(self, member: int, reason: str) -> None:
        """On the head: begin to remove a member; the others are told once its lane has ended and is empty."""
        if member in self.members and member not in self.closing:
            self.closing[member] = reason
            self._announce.add(member)

    def _tell(self, kind: int, news: tuple[int, object]) -> None:
        for member in sorted(self.members):
            if member not in self.closing:
                self._write(self._lane(member), kind, (news,))

    def _tell_left(self, news: tuple[int, str]) -> None:
        """Have the next `writes` tell the others of a member that has left, with others that leave until then."""
        for member in sorted(self.members):
            if member not in self.closing:
                lane = self._lane(member)
                if lane.queued:  # before the view changes
                    self._flush(lane)
                lane.news.append((LEFT, news))
                self._dirty[member] = lane

    def _departed(self, source: int, frames: tuple[Any, ...], found: list[Delivery]) -> list[OrderLane]:
        """Remove a member; return the lanes that may continue."""
        ((member, _),) = frames
        if member in self._announce:
            self._announce.discard(member)
            self._tell_left(frames[0])
        self.members.discard(member)
        self.closing.pop(member, None)
        self._ended.discard(member)
        self._forget(member)
        self._forget_notes(member)
        found.append(Delivery(source, LEFT, frames))
        return self._woken(member) + self._view_changed()

    def _view_changed(self) -> list[OrderLane]:
        self.view += 1
        return self._woken(_VIEW)

    # -- another head

    def lost_head(self) -> list[Delivery]:
        """On a member: note that the head's process is gone; return what waited for writes that it has never sent."""
        found: list[Delivery] = []
        if not self._is_headless:
            self._is_headless = True
            self._advance(self._moved(HEAD, found), found)
        return found

    def change_head(self, view: int, members: Iterable[int], changed: Iterable[int]) -> list[Delivery]:
        """On a member: begin the lane to the head of a later epoch, with its view, the members that it knows, and those of
        them that have changed before; return what can be delivered now. What the old head has not delivered is lost.
        """
        found: list[Delivery] = []
        self._lanes.pop(HEAD, None)
        self._dirty.pop(HEAD, None)
        self._writes = [(peer, write) for peer, write in self._writes if peer != HEAD]
        for waiting in self._waits.values():
            waiting[:] = [lane for lane in waiting if lane.peer != HEAD]
        self._forget_notes(HEAD)
        self._last_view = self.view
        self.view, self._base = view, view >> EPOCH_BITS << EPOCH_BITS
        self._changed = {HEAD, *changed}
        self._is_headless = False
        self.members.update(set(members) - {self.number})
        self._advance(self._woken(HEAD) + self._woken(_VIEW), found)
        return found

    def return_to(self, member: int) -> None:
        """On the head: begin a lane to a member of the head before; the others are told with `admit` once it has said what
        it knows."""
        self._forget(member)
        self._writes = [(peer, write) for peer, write in self._writes if peer != member]
        self.members.add(member)

    def _is_ahead(self, source: int, view: int) -> bool:
        """Return True if a member knew of changes of membership that are not known here."""
        if self._last_view < view < self._base:
            return source not in self._changed and source not in self.closing
        return view > self.view

    def _base_of(self, peer: int) -> int:
        return self._base if HEAD in (peer, self.number) else 0

    def _forget(self, member: int) -> None:
        for lanes in (self._lanes, self._dirty, self._untold):
            lanes.pop(member, None)

    # -- checks

    def _lane(self, peer: int) -> OrderLane:
        lane = self._lanes.get(peer)
        if lane is None:
            lane = self._lanes[peer] = OrderLane(peer, self._base_of(peer))
        return lane

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
