"""The ties of one object to other nodes: where its value is, and who counts its holders."""

from __future__ import annotations

from skate.core.cluster.membership import Peer


class RemoteObject:
    """The relations of an object's record to other nodes."""

    __slots__ = ("owner", "grants", "wanted", "place", "source", "copies", "tries", "lost", "final")

    def __init__(self, owner: Peer | None = None) -> None:
        #: The node that counts its holders; None if that is this one.
        self.owner = owner
        self.grants = 0  # of ours, with the owner
        self.wanted = False  # the owner has been asked for the value
        #: Where the value of an object of ours is, by one grant.
        self.place: Peer | None = None
        self.source: Peer | None = None  # the node that was last asked for the value
        #: Where it was read of an object of ours, by one grant each: what can take the place of the place.
        self.copies: tuple[Peer, ...] = ()
        self.tries = 0
        self.lost: Peer | None = None  # the node that the value was lost with
        #: Why it cannot be made again, once that is known: the reason as Ray names it, and a text.
        self.final: tuple[str, str] | None = None
