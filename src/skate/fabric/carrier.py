"""The interface between a mesh of nodes and the engine that registers and connects their machines.

A `Carrier` finds members and opens authenticated connections; it never sees a message. `Mesh` sends everything over the
sockets that it gets. The engine may run in a thread of its own, but every call of a `Receiver` and every callback happens in
the loop of the node's pump, under the engine lock, and never within the call that has asked for it.
"""

from __future__ import annotations

import socket
from collections.abc import Callable, Mapping
from typing import Final, Literal, Protocol

#: What a connection is for.
Purpose = Literal["lane", "bulk"]
LANE: Final = "lane"  # messages
BULK: Final = "bulk"  # bytes of large values


class NobodyThere(str):
    """The cause of a dial that failed because its machine has answered that nothing listens there: the process is gone."""


class Receiver(Protocol):
    """Handles what a carrier reports; the engine lock is held in every call."""

    def accepted(self, purpose: Purpose, sock: socket.socket) -> None:
        """Take over a connection that another member has opened. It is authenticated, but has not said who it is."""

    def registered(self, name: str, address: str) -> None:
        """On the head: a member has registered with the engine, and can be dialled at `address`."""

    def unregistered(self, name: str) -> None:
        """On the head: the engine has lost its connection to a member, or the member has signed off."""

    def detached(self, reason: str) -> None:
        """On a member: the connection to the head's engine is lost; the carrier tries to register again until it is closed."""


class Carrier(Protocol):
    """The engine's part of one node."""

    #: Where other members reach this node, such as "tls://10.0.0.5:41231"; on a member, set once it is registered.
    address: str
    #: Where members register: on the head its own address; on a member the one of its addresses where it was found last.
    head_address: str
    #: On a member: True if the head may be found at another address than before.
    head_may_move: bool
    receiver: Receiver

    def members(self) -> Mapping[str, str]:
        """On the head: the addresses of the registered members, by name."""

    def dial(
        self,
        address: str,
        purpose: Purpose,
        opened: Callable[[socket.socket], None],
        failed: Callable[[str], None],
    ) -> None:
        """Open a connection to another member.

        Calls `opened` with a connected socket, which is the caller's from then on: a plain one, an `ssl.SSLSocket`, or
        one end of a pair that the engine forwards. Calls `failed` with a sentence about the cause otherwise, a `NobodyThere`
        if nothing listens at that address; there are no retries.
        """

    def seek_head(self) -> None:
        """On a member: give up the registration with a head that is silent, and look for the head at all its addresses."""

    def forked(self) -> None:
        """In a forked child: close the inherited descriptors, and leave everything else to the parent."""

    def close(self) -> None:
        """Sign off, end the engine's thread, and close what nobody has taken over. Safe to call more than once."""
