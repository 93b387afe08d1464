"""One connection of a lane: what goes over it, and the handler that reads it. A connection knows nothing of its lane.

The first frame is a greeting, with a limit of 64 KiB and a deadline. Writes follow, each packed once; their frames are packed
when they are sent, so that the sender may change its objects, and a write that is repeated is the same one.
"""

from __future__ import annotations

import fcntl
import socket
import struct
import termios
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

import msgpack

from skate.fabric.order import DATA, EXPRESS, FORETOLD, JOINED, LEFT
from skate.fabric.order_lane import Receipt, Write
from skate.wire.channel import FRAME_BYTES_MAX, ChannelClosed
from skate.wire.tls_channel import open_channel

if TYPE_CHECKING:
    from skate.wire.pump import Pump

EPOLLOUT: Final = 4
#: The most bytes that a stranger may send before its greeting is complete.
GREETING_BYTES_MAX: Final = 1 << 16
SOCKET_BYTES: Final = 1 << 22
_INT: Final = struct.Struct("i")
#: Opens an array of eight: a write, whose last element is the array of its frames.
_EIGHT: Final = b"\x98"
#: Opens an array of seven: the greeting to a new member.
_SEVEN: Final = b"\x97"

# kinds of frames
HELLO: Final = 1  # version, node id, number or 0, the receiver's number, epoch or 0, view, received, info
WELCOME: Final = 2  # epoch, view, received, number, config, members
REFUSED: Final = 3  # text, True if the receiver counts as dead
WRITE: Final = 4  # a write of `Order`
RECEIPT: Final = 5  # received, delivered
PROMPT: Final = 6  # asks for a receipt: much is on its way
PULSE: Final = 7  # number, the last echo: a sign of life of a member, to the head
ECHO: Final = 8  # number, by how many µs the next pulses should come earlier: the head's answer to a pulse

#: Kinds of writes that only the head sends.
NEWS: Final = (JOINED, FORETOLD, LEFT)

_pack = msgpack.Packer(autoreset=True).pack
_pack_array_header = msgpack.Packer(autoreset=True).pack_array_header


class Connection:
    """A socket with its channel, in the loop of a pump."""

    __slots__ = ("channel", "closed", "deadline", "gone", "is_relayed", "pump", "take")

    def __init__(
        self,
        pump: Pump,
        sock: socket.socket,
        take: Callable[[Connection, list[tuple[Any, ...]]], None],
        gone: Callable[[Connection], None],
        frame_bytes_max: int = FRAME_BYTES_MAX,
    ) -> None:
        self.pump = pump
        self.take = take
        self.gone = gone
        self.closed = False
        self.deadline = 0.0  # of the greeting
        self.is_relayed = False
        if sock.family == socket.AF_UNIX:
            for option in (socket.SO_SNDBUF, socket.SO_RCVBUF):
                sock.setsockopt(socket.SOL_SOCKET, option, SOCKET_BYTES)
        else:
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.channel = open_channel(sock, frame_bytes_max)
        pump.add(self.channel.fd, self._ready)

    def _ready(self, events: int) -> None:
        if events & EPOLLOUT:
            self.flush()
            if events == EPOLLOUT:
                return
        try:
            frames = self.channel.read()
        except ChannelClosed:
            self.close()
            self.gone(self)
        else:
            if frames:
                self.take(self, frames)

    def push(self, *frame: Any) -> None:
        """Queue a frame that is not a write."""
        self.channel.push(frame)

    def flush(self) -> None:
        """Write what is queued; the loop writes the rest when the socket has space again."""
        channel = self.channel
        if channel.closed:
            channel.queued.clear()
            return
        waited = bool(channel.backlog)
        done = channel.flush()
        if done == waited:
            self.pump.want_write(channel.fd, not done)

    def unacknowledged(self) -> int:
        """Return how many bytes the kernel has taken, and the peer's kernel has not acknowledged."""
        try:
            found: tuple[int] = _INT.unpack(fcntl.ioctl(self.channel.fd, termios.TIOCOUTQ, bytes(_INT.size)))
        except OSError:  # the connection has ended
            return 0
        return found[0]

    def refuse(self, text: str, is_dead: bool = False) -> None:
        """Say why there will be no lane, and close."""
        self.push(REFUSED, text, is_dead)
        self.flush()
        self.close()

    def close(self) -> None:
        """Close the socket; safe to call more than once."""
        if not self.closed:
            self.closed = True
            self.pump.remove(self.channel.fd)
            self.channel.close()

    def forked(self) -> None:
        """In a forked child: close the inherited descriptor."""
        self.closed = True
        self.channel.close()


def packed_frame(frame: Any) -> bytes:
    """Return a frame as `Order` keeps it."""
    data: bytes = _pack(frame)
    return data


def packed_welcome(
    epoch: int, view: int, received: int, number: int, config: dict[str, Any], members: list[bytes]
) -> bytes:
    """Return a WELCOME with the descriptions of all members, which are packed once and not for each newcomer."""
    head = _pack((WELCOME, epoch, view, received, number, config))
    return b"".join((_SEVEN, head[1:], _pack_array_header(len(members)), *members))


def packed_write(write: Write) -> bytes:
    """Return a write as it goes over a connection."""
    number, kind, view, (received, delivered), stamps, frames = write
    head = _pack((WRITE, number, kind, view, received, delivered, stamps))
    if kind in NEWS:
        frames = tuple(each if type(each) is bytes else packed_frame(each) for each in frames)
    return b"".join((_EIGHT, head[1:], _pack_array_header(len(frames)), *frames))


def unpacked_write(source: int, frame: tuple[Any, ...]) -> Write:
    """Return the write that a frame contains. Raises ValueError if it is invalid."""
    try:
        _, number, kind, view, received, delivered, stamps, frames = frame
    except ValueError:
        raise ValueError(f"a write with {len(frame)} fields") from None
    if not (type(number) is type(kind) is type(view) is type(received) is type(delivered) is int):
        raise ValueError(f"{frame[1:6]!r:.80} in a write")
    if number < 0 or view < 0 or received < 0 or delivered < 0:
        raise ValueError(f"{frame[1:6]!r:.80} in a write")
    if type(stamps) is not tuple or type(frames) is not tuple or not frames:
        raise ValueError("a write without frames")
    for stamp in stamps:
        if type(stamp) is not tuple or [type(each) for each in stamp] != [int] * 4:
            raise ValueError(f"{stamp!r:.80} as a stamp")
    if kind in NEWS:
        if source or (len(frames) != 1 and kind == FORETOLD):
            raise ValueError(f"news from {source}")
        if any(type(each) is not tuple or len(each) != 2 for each in frames):
            raise ValueError(f"{frames!r:.80} as news")
    elif kind in (DATA, EXPRESS):
        for each in frames:
            if type(each) is not tuple or not each or type(each[0]) is not int:
                raise ValueError(f"invalid message: {each!r:.80}")
    else:
        raise ValueError(f"a write of kind {kind}")
    return Write(number, kind, view, Receipt(received, delivered), stamps, frames)
