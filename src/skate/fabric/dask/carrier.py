"""The engine's part of one node: a thread of Dask, which registers the node and opens its connections."""

from __future__ import annotations

import asyncio
import contextlib
import ipaddress
import math
import socket
import time
from collections.abc import Callable, Mapping
from typing import Any

from distributed.security import Security

from skate.fabric.carrier import Purpose, Receiver
from skate.fabric.dask import OLDEST, own_version, too_old
from skate.fabric.dask.connection import (
    CarrierError,
    cannot_listen,
    check_free,
    connect,
    connect_any,
    explained,
    own_host,
)
from skate.fabric.dask.credentials import Credentials
from skate.fabric.dask.scheduler import Head, Registrations, protocol_of
from skate.fabric.dask.sockets import request
from skate.fabric.dask.thread import END_SECONDS, EngineThread, Mailbox
from skate.fabric.dask.worker import Node
from skate.wire.pump import Pump

START_SECONDS = 30.0
DIAL_SECONDS = 5.0
#: A node that has not registered after this long looks for the cause with connections of its own.
PROBE_DELAY_SECONDS = 0.5
#: The pause between attempts to register again; attempts of Dask's own happen within each.
REST_SECONDS = 0.1
#: Attempts to listen on the former port again before another is taken.
SAME_PORT_ATTEMPTS = 5
RENEWAL_CHECK_SECONDS = 3600.0
LOOPBACK = ("127.", "::1", "localhost")

#: Reasons of Dask for closing a worker, in words.
DETACHED = {
    "scheduler-close": "the head has ended its engine",
    "scheduler-remove-worker": "the head has removed this node from its engine",
    "scheduler-close-worker": "the head has removed this node from its engine",
}


class DaskCarrier:
    """Base of the head's carrier and of a member's.

    Give a `token`, or Dask's own settings of TLS as `security`. Without either only loopback addresses are allowed.
    With `forwarded`, sockets are never taken from Dask.
    """

    role = ""
    receiver: Receiver

    def __init__(
        self,
        pump: Pump,
        host: str,
        port: int,
        token: str | None = None,
        security: Security | None = None,
        forwarded: bool = False,
    ) -> None:
        self.address = ""
        self.head_address = ""
        #: All addresses at which the head may be.
        self.head_addresses: tuple[str, ...] = ()
        #: True if it has several addresses, or a name, which may lead elsewhere later.
        self.head_may_move = False
        self._credentials = Credentials(token) if token is not None else None
        self.security = self._credentials.security if self._credentials else security or Security()
        self._host = host
        self._port = port
        self._forwarded = forwarded
        self._pump = pump
        self._arguments = self.security.get_connection_args(self.role)
        self._mailbox: Mailbox | None = None
        self._engine: EngineThread | None = None
        self._closed = False

    def start(self, timeout: float = START_SECONDS) -> None:
        """Start the engine. Raises CarrierError with the cause if that fails or takes too long."""
        if too_old(own_version()):
            raise CarrierError(
                f"Dask.distributed {own_version()} is too old: {'.'.join(map(str, OLDEST))} or later is required "
                "(pip install -U distributed)",
                final=True,
            )
        self._check_encryption()
        self._mailbox = Mailbox(self._pump)
        try:
            self._engine = EngineThread()
            self._engine.run(self._begin(timeout), timeout + END_SECONDS)
            if self._credentials is not None:
                self._engine.spawn(self._keep_certificate())
        except BaseException:  # also Ctrl-C: a thread and a socket are open by now
            self.close()
            raise

    def _check_encryption(self) -> None:
        if self._host and not self.security.require_encryption and not self._host.startswith(LOOPBACK):
            raise ValueError(f"{self._host} can be reached from other machines, so the cluster needs a token")

    async def _begin(self, timeout: float) -> None:
        raise NotImplementedError

    async def _end(self) -> None:
        raise NotImplementedError

    def _post(self, call: Callable[..., None], *arguments: Any) -> None:
        """Have the pump call; from Dask's thread."""
        if self._mailbox is not None:
            self._mailbox.post(call, *arguments)

    def _accepted(self, purpose: Purpose, sock: socket.socket) -> None:
        self._post(self._deliver, purpose, sock)

    def _deliver(self, purpose: Purpose, sock: socket.socket) -> None:
        self.receiver.accepted(purpose, sock)

    def dial(
        self,
        address: str,
        purpose: Purpose,
        opened: Callable[[socket.socket], None],
        failed: Callable[[str], None],
    ) -> None:
        """Open a connection to another member; calls `opened` or `failed`, but neither once it is closed."""
        if self._engine is not None:
            self._engine.spawn(self._dial(address, purpose, opened, failed))

    async def _dial(
        self,
        address: str,
        purpose: Purpose,
        opened: Callable[[socket.socket], None],
        failed: Callable[[str], None],
    ) -> None:
        try:
            sock = await asyncio.wait_for(self._open(address, purpose), DIAL_SECONDS)
        except Exception as error:  # whatever it is: who dials has to be told
            self._post(failed, explained(error, address, DIAL_SECONDS).cause)
        else:
            self._post(opened, sock)

    async def _open(self, address: str, purpose: Purpose) -> socket.socket:
        heads = self.head_addresses
        if address in heads and len(heads) > 1:
            _, comm = await connect_any(heads, self._arguments)
        else:
            comm = await connect(address, self._arguments)
        try:
            return await request(comm, purpose, self._forwarded)
        except BaseException:  # also a cancellation: Dask does not close what nobody has
            comm.abort()
            raise

    def seek_head(self) -> None:
        """No-op: this is the head."""

    async def _keep_certificate(self) -> None:
        while self._credentials is not None:
            await asyncio.sleep(RENEWAL_CHECK_SECONDS)
            self._credentials.renew_if_due()

    def forked(self) -> None:
        """In a forked child: close the inherited descriptors, and leave everything else to the parent."""
        self._closed = True
        if self._engine is not None:
            self._engine.forked()
        if self._mailbox is not None:
            self._mailbox.forked()

    def close(self) -> None:
        """Sign off, end the engine's thread, and close what nobody has taken over. Safe to call more than once."""
        if self._closed:
            return
        self._closed = True
        if self._mailbox is not None:
            with self._pump.lock:
                self._mailbox.close()
        if self._engine is not None:
            # Whatever fails in Dask: the thread ends, and its descriptors with it.
            with contextlib.suppress(Exception):
                self._engine.run(self._end(), END_SECONDS)
            self._engine.stop()


class HeadCarrier(DaskCarrier):
    """The head's carrier: nodes register here. Listens on `host` and `port` alone."""

    role = "scheduler"

    def __init__(
        self,
        pump: Pump,
        host: str,
        port: int,
        token: str | None = None,
        security: Security | None = None,
        forwarded: bool = False,
        dask_clients: bool = False,
    ) -> None:
        super().__init__(pump, host, port, token, security, forwarded)
        self._dask_clients = dask_clients
        self._members: dict[str, str] = {}
        self._head: Head | None = None

    def members(self) -> Mapping[str, str]:
        """The addresses of the registered members, by name."""
        return self._members

    async def _begin(self, timeout: float) -> None:
        check_free(self._host, self._port)
        plugin = Registrations(
            lambda name, address: self._post(self._registered, name, address),
            lambda name: self._post(self._unregistered, name),
        )
        head = Head(
            bracketed(self._host),
            self._port,
            self.security,
            plugin,
            self._accepted,
            self._dask_clients,
        )
        try:
            await head.start()
        except RuntimeError as error:  # Dask's wrapper of every cause
            raise cannot_listen(error.__cause__ or error, self._host, self._port) from error
        self._head = head
        self.address = self.head_address = head.address

    def _registered(self, name: str, address: str) -> None:
        self._members[name] = address
        self.receiver.registered(name, address)

    def _unregistered(self, name: str) -> None:
        self._members.pop(name, None)
        self.receiver.unregistered(name)

    async def _end(self) -> None:
        if self._head is not None:
            await self._head.close(reason="skate-close")


class MemberCarrier(DaskCarrier):
    """A member's carrier: registers with the head under a name, and again whenever the registration is lost.

    `head_address` may be several addresses with commas between them: the head is at one of them, and may be at another later.
    """

    role = "worker"

    def __init__(
        self,
        pump: Pump,
        name: str,
        head_address: str,
        host: str = "",
        port: int = 0,
        token: str | None = None,
        security: Security | None = None,
        forwarded: bool = False,
    ) -> None:
        super().__init__(pump, host, port, token, security, forwarded)
        self.head_addresses = tuple(
            f"{protocol_of(self.security)}://{each.rpartition('://')[2]}" for each in head_address.split(",")
        )
        self.head_address = self.head_addresses[0]
        self.head_may_move = len(self.head_addresses) > 1 or has_name(self.head_address)
        self._name = name
        self._any_port = port == 0
        self._node: Node | None = None
        self._reregistration: asyncio.Task[None] | None = None

    def members(self) -> Mapping[str, str]:
        """Only the head knows the members."""
        return {}

    async def _begin(self, timeout: float) -> None:
        deadline = time.monotonic() + timeout
        await self._find_host(deadline)
        await self._find_head(deadline)
        check_free(self._host, self._port)
        node = self._node = self._new_node()
        registration = asyncio.ensure_future(node.start())
        cause: CarrierError | None = None
        try:
            await asyncio.wait((registration,), timeout=min(PROBE_DELAY_SECONDS, timeout))
            while not registration.done():
                cause = await self._cause(registration, deadline) or cause
                if cause is not None and cause.final:
                    raise cause
                left = deadline - time.monotonic()
                if left <= 0:
                    raise cause or explained(TimeoutError(), self.head_address, timeout)
                await asyncio.wait((registration,), timeout=min(PROBE_DELAY_SECONDS, left))
            await registration
        except BaseException as error:  # also a cancellation: what was begun ends in every case
            registration.cancel()
            await asyncio.wait((registration,))
            await node.close(reason="skate-close")
            if isinstance(error, CarrierError | asyncio.CancelledError):
                raise
            raise self._refused(error) from error
        self._registered()
        self._reregistration = asyncio.create_task(self._keep_registered())

    async def _find_host(self, deadline: float) -> None:
        """Find the address of this machine on the way to the head, if none was given: Dask would listen on all."""
        found = ""
        while not found:
            for address in self.head_addresses:
                try:
                    found = found or await own_host(address)
                except OSError as error:
                    if time.monotonic() > deadline:
                        raise explained(error, address) from error
            if not found:
                await asyncio.sleep(REST_SECONDS)
        self._host = self._host or found
        self._check_encryption()

    async def _find_head(self, deadline: float) -> None:
        """Find out at which of several addresses the head is. Without a deadline no error ends the search."""
        while len(self.head_addresses) > 1:
            try:
                self.head_address, comm = await asyncio.wait_for(
                    connect_any(self.head_addresses, self._arguments), DIAL_SECONDS
                )
            except Exception as error:  # each becomes a cause
                cause = explained(error, " or ".join(self.head_addresses), DIAL_SECONDS)
                if deadline < math.inf and (cause.final or time.monotonic() >= deadline):
                    raise cause from error
            else:
                comm.abort()
                return
            await asyncio.sleep(REST_SECONDS)

    def _new_node(self) -> Node:
        return Node(
            self.head_address,
            self._name,
            bracketed(self._host),
            self._port,
            self.security,
            self._accepted,
        )

    async def _cause(self, registration: asyncio.Task[Node], deadline: float) -> CarrierError | None:
        """Look for the cause of a delay, which Dask does not tell, until the registration ends by itself."""
        probe = asyncio.ensure_future(self._probe(max(PROBE_DELAY_SECONDS, deadline - time.monotonic())))
        await asyncio.wait((registration, probe), return_when=asyncio.FIRST_COMPLETED)
        if probe.done():
            return probe.result()
        probe.cancel()
        return None

    async def _probe(self, seconds: float) -> CarrierError | None:
        """Return why the head cannot be reached, or None if it can."""
        try:
            comm = await asyncio.wait_for(connect(self.head_address, self._arguments), seconds)
        except Exception as error:  # each becomes a cause
            return explained(error, self.head_address, seconds)
        comm.abort()
        return None

    def _refused(self, error: BaseException) -> CarrierError:
        """Return the error for a registration that failed."""
        inner = error.__cause__ or error
        if "name taken" in str(inner):
            return CarrierError(
                f"{self.head_address} has a node of the name {self._name} already, and its connection is alive"
            )
        if isinstance(inner, ValueError) and "register" in str(inner):
            return CarrierError(f"{self.head_address} refuses this node: {inner}", final=True)
        return explained(error, self.head_address)

    def _registered(self) -> None:
        """Remember the address, for other members and for the next registration."""
        assert self._node is not None
        self.address = self._node.address
        self._port = self._node.port

    async def _keep_registered(self) -> None:
        """Register again whenever Dask has closed the worker."""
        while self._node is not None:
            await self._node.finished()
            reason = DETACHED.get(
                self._node.reason, f"the connection to the head at {self.head_address} is lost"
            )
            self._post(self._detached, reason)
            await self._register_again()

    def _detached(self, reason: str) -> None:
        self.receiver.detached(reason)

    async def _register_again(self) -> None:
        attempts = 0
        await self._find_host(math.inf)  # a name that is unknown would make Dask warn on the terminal
        while True:
            await self._find_head(math.inf)
            try:
                check_free(self._host, self._port)
                self._node = self._new_node()
                await self._node.start()
            except CarrierError:  # another program has taken the port meanwhile
                attempts += 1
                if self._any_port and attempts == SAME_PORT_ATTEMPTS:
                    self._port = 0
            except Exception:  # the name is not free yet, or the head is gone again
                pass
            else:
                self._registered()
                return
            await asyncio.sleep(REST_SECONDS)

    def seek_head(self) -> None:
        """Give up the registration with a head that is silent, and look for the head at all its addresses."""
        if self._engine is not None:
            self._engine.spawn(self._let_go())

    async def _let_go(self) -> None:
        if self._node is not None:
            self._node.let_go()

    async def _end(self) -> None:
        if self._reregistration is not None:
            self._reregistration.cancel()
            await asyncio.wait((self._reregistration,))
        if self._node is not None:
            await self._node.close(reason="skate-close")


def has_name(address: str) -> bool:
    """Return True for an address with the name of a machine instead of its number."""
    host = address.rpartition("://")[2].rpartition(":")[0].strip("[]")
    try:
        ipaddress.ip_address(host.partition("%")[0])
    except ValueError:
        return True
    return False


def bracketed(host: str) -> str:
    """Return a host as it stands in an address."""
    return f"[{host}]" if ":" in host else host
