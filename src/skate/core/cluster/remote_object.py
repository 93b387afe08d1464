"""The relations of one object to other nodes: where its value is, and which node counts its holders."""

from __future__ import annotations

from skate.core.cluster.membership import Peer


class RemoteObject:
    """The relations of an object's record to other nodes."""

    __slots__ = ("owner", "grants", "wanted", "place", "source", "copies", "tries", "lost", "final")

    def __init__(self, owner: Peer | None = None) -> None:
        #: The node that counts its holders; None for this one.
        self.owner = owner
        self.grants = 0  # this node's grants at the owner
        self.wanted = False  # the value was requested from the owner
        #: The node that has the value of an own object, held there by one grant.
        self.place: Peer | None = None
        self.source: Peer | None = None  # the node last asked for the value
        #: Nodes with a copy of an own object, held by one grant each; one of them can replace `place`.
        self.copies: tuple[Peer, ...] = ()
        self.tries = 0
        self.lost: Peer | None = None  # the node that the value was lost with
        #: Why it cannot be reconstructed, once known: the reason as Ray names it, and a text.
        self.final: tuple[str, str] | None = None
