"""The relations of one object to other nodes: where its value is, who reads it from where, and which node counts its holders."""

from __future__ import annotations

from collections import Counter
from itertools import islice

from skate.core.cluster.membership import Peer

#: The rank of a reader that reads from the place of a value; a read from a copy has the next one.
RANK_OF_PLACE = 1
RANK_OF_COPY = 2
#: How far a reader may be from a complete value.
RANK_MAX = 8
#: A reader that was sent to so many places without success reads from the place of the value from then on.
FAILURES_MAX = 2
#: So many copies and so many readers are considered as sources, the latest ones.
CHOICES_MAX = 64


class Reading:
    """A read of an own value by another node, which has not said that it is over."""

    __slots__ = ("source", "rank", "failed")

    def __init__(self, source: Peer, rank: int, failed: tuple[Peer, ...]) -> None:
        self.source = source
        #: One more than that of its source. A source only waits for bytes on behalf of readers with a higher rank than its own,
        #: so nodes never wait for each other in a circle, whatever this node knows of them.
        self.rank = rank
        self.failed = failed  # sources that had not got the value


class RemoteObject:
    """The relations of an object's record to other nodes."""

    __slots__ = (
        *("owner", "grants", "wanted", "place", "source", "rank", "copies", "readers", "tries", "lost", "final"),
    )  # fmt: skip

    def __init__(self, owner: Peer | None = None) -> None:
        #: The node that counts its holders; None for this one.
        self.owner = owner
        self.grants = 0  # this node's grants at the owner
        self.wanted = False  # the value was requested from the owner
        #: The node that has the value of an own object, held there by one grant.
        self.place: Peer | None = None
        self.source: Peer | None = None  # the node last asked for the value
        self.rank = RANK_OF_PLACE  # of that read
        #: Nodes with a copy of an own object, held by one grant each; one of them can replace `place`.
        self.copies: tuple[Peer, ...] = ()
        #: Nodes that read an own object now. They pass on what they have received.
        self.readers: dict[Peer, Reading] = {}
        self.tries = 0
        self.lost: Peer | None = None  # the node that the value was lost with
        #: Why it cannot be reconstructed, once known: the reason as Ray names it, and a text.
        self.final: tuple[str, str] | None = None

    def source_for(self, reader: Peer, place: Peer, own_pull: Peer | None) -> Reading:
        """Choose where a node reads an own value: the source with the fewest readers, of these the nearest to the place.

        So readers at the same time form a chain, in which each passes on what it has received, and at most about twice as many
        bytes leave a node as the value has. A reader that asks again has not found the value at its last source.

        Args:
            reader: the node that asks.
            place: a node that has the whole value, kept there by a grant or by this node itself.
            own_pull: this node, if it reads the value from the place itself now.
        """
        before = self.readers.pop(reader, None)
        failed = () if before is None else (*before.failed, before.source)
        choices = [(place, RANK_OF_PLACE)]
        if len(failed) < FAILURES_MAX:
            choices += self._others(reader, failed)
            if own_pull is not None and reader.passes_on:
                choices.append((own_pull, RANK_OF_COPY))
            if (place in failed or place is reader) and len(choices) > 1:
                del choices[0]
        loads = Counter(reading.source for reading in self.readers.values())
        loads[place] += own_pull is not None
        source, rank = min(choices, key=lambda choice: (loads[choice[0]], choice[1]))
        reading = self.readers[reader] = Reading(source, rank, failed)
        return reading

    def _others(self, reader: Peer, failed: tuple[Peer, ...]) -> list[tuple[Peer, int]]:
        """Return the nodes besides the place that have the value or receive it, each with the rank of its reader."""
        copies = [(peer, RANK_OF_COPY) for peer in self.copies[-CHOICES_MAX:]]
        if reader.passes_on:  # it has connections to the others, over which a source can make it wait
            latest = islice(reversed(self.readers.items()), CHOICES_MAX)
            copies += [(peer, reading.rank + 1) for peer, reading in latest if reading.rank < RANK_MAX]
        return [
            (peer, rank)
            for peer, rank in copies
            if peer.passes_on and peer.alive and peer is not reader and peer not in failed
        ]

    def forget_readers(self, holders: dict[int, int]) -> None:
        """Forget the readers that no longer hold the object."""
        for peer in [peer for peer in self.readers if peer.cid not in holders]:
            del self.readers[peer]
