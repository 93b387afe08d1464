"""A carrier of socket pairs for tests: members register at once, and a test cuts what it likes."""

from __future__ import annotations

import os
import socket
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from skate.fabric.carrier import NobodyThere

if TYPE_CHECKING:
    from skate.fabric.carrier import Purpose, Receiver
    from skate.wire.pump import Pump


class Engine:
    """The registry of a test, and the connections of its members."""

    def __init__(self, pump: Pump) -> None:
        self.pump = pump
        self.carriers: dict[str, PairCarrier] = {}  # by address
        self.blocked: set[frozenset[str]] = set()  # pairs of names that cannot connect
        self.pairs: list[tuple[frozenset[str], Purpose, socket.socket, socket.socket]] = []
        self.dials: list[tuple[str, str]] = []
        self._calls: list[Callable[[], None]] = []
        self._wake = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)
        pump.add(self._wake, self._run)

    def later(self, call: Callable[[], None]) -> None:
        """Call back from the loop of the pump."""
        self._calls.append(call)
        os.eventfd_write(self._wake, 1)

    def _run(self, events: int) -> None:
        os.eventfd_read(self._wake)
        calls, self._calls = self._calls, []
        for call in calls:
            call()

    def connect(self) -> tuple[socket.socket, socket.socket]:
        return socket.socketpair()

    def cut(self, one: str, other: str, purpose: Purpose = "lane") -> int:
        """Break the connections of two members; return how many there were."""
        count = 0
        for pair, what, *socks in self.pairs:
            if pair == {one, other} and what == purpose:
                for sock in socks:
                    if sock.fileno() >= 0:
                        count += 1
                        socket.socket.shutdown(
                            sock, socket.SHUT_RDWR
                        )  # not the method of TLS, which also drops its layer
                        break
        return count

    def block(self, one: str, other: str) -> None:
        """Let two members no longer connect, and break the connections that they have."""
        self.blocked.add(frozenset((one, other)))
        for purpose in ("lane", "bulk"):
            self.cut(one, other, purpose)  # type: ignore[arg-type]

    def close(self) -> None:
        self.pump.remove(self._wake)
        os.close(self._wake)


class PairCarrier:
    """One node's part."""

    receiver: Receiver

    def __init__(self, engine: Engine, name: str, head: PairCarrier | None = None) -> None:
        self.engine = engine
        self.name = name
        self.address = f"pair://{name}"
        self.head = self if head is None else head
        self.head_may_move = False
        self.seeks = 0
        self.registered: dict[str, str] = {}
        self.closed = False
        engine.carriers[self.address] = self
        if head is not None:
            self.register()

    @property
    def head_address(self) -> str:
        return self.head.address

    def seek_head(self) -> None:
        self.seeks += 1

    def register(self) -> None:
        self.head.registered[self.name] = self.address
        self.engine.later(lambda: self.head.receiver.registered(self.name, self.address))

    def members(self) -> dict[str, str]:
        return self.registered

    def dial(
        self,
        address: str,
        purpose: Purpose,
        opened: Callable[[socket.socket], None],
        failed: Callable[[str], None],
    ) -> None:
        self.engine.dials.append((self.name, address))
        self.engine.later(lambda: self._connect(address, purpose, opened, failed))

    def _connect(self, address: str, purpose: Purpose, opened: Any, failed: Any) -> None:
        other = self.engine.carriers.get(address)
        if self.closed:
            return
        name = address.removeprefix("pair://")
        pair = frozenset((self.name, name))
        if pair in self.engine.blocked:
            failed(f"{address} cannot be reached")
            return
        if other is None or other.closed:
            failed(NobodyThere(f"{address} refuses the connection"))
            return
        ours, theirs = self.engine.connect()
        self.engine.pairs.append((pair, purpose, ours, theirs))
        other.receiver.accepted(purpose, theirs)
        opened(ours)

    def forked(self) -> None:
        """Leave everything to the parent."""

    def lose(self) -> None:
        """End the registration, as when the process dies."""
        if self.head is not self and self.name in self.head.registered:
            del self.head.registered[self.name]
            if not self.head.closed:
                self.engine.later(lambda: self.head.receiver.unregistered(self.name))

    def close(self) -> None:
        if self.closed:
            return
        self.closed = True
        self.lose()
        for other in self.engine.carriers.values():
            if other.head is self and other is not self and not other.closed:
                self.engine.later(lambda other=other: other.receiver.detached("the head has ended"))  # type: ignore[misc]
