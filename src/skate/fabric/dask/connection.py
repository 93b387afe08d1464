"""One attempt to connect to another node, and the cause in words when it fails."""

from __future__ import annotations

import asyncio
import errno
import os
import socket
import ssl
from collections.abc import Iterator, Sequence
from typing import Any

from distributed.comm import Comm, CommClosedError, parse_address
from distributed.comm.registry import get_backend

from skate import procfs
from skate.fabric.carrier import NobodyThere

#: From OpenSSL's x509_vfy.h.
CERT_NOT_YET_VALID = 9
CERT_HAS_EXPIRED = 10
#: The state LISTEN in /proc/net/tcp.
LISTENING = b"0A"


class CarrierError(ConnectionError):
    """The engine cannot listen, or this node cannot join; the message names the cause.

    Attributes: final (True if another attempt would fail as well), is_nobody (True if nothing listens at the address).
    """

    def __init__(self, text: str, final: bool = False, is_nobody: bool = False) -> None:
        super().__init__(text)
        self.final = final
        self.is_nobody = is_nobody

    @property
    def cause(self) -> str:
        """The cause as a carrier reports it."""
        return NobodyThere(self) if self.is_nobody else str(self)


async def connect(address: str, arguments: dict[str, Any]) -> Comm:
    """Open a connection. Dask's own function tries again until its time is over, and then hides the cause."""
    scheme, location = parse_address(address)
    comm = await get_backend(scheme).get_connector().connect(location, deserialize=False, **arguments)
    try:
        comm.local_info = comm.handshake_info()
        await comm.write(comm.local_info)
        comm.remote_info = await comm.read()
        comm.handshake_options = comm.handshake_configuration(comm.local_info, comm.remote_info)
    except BaseException:  # also a cancellation, when the handshake takes too long
        comm.abort()
        raise
    return comm


async def connect_any(addresses: Sequence[str], arguments: dict[str, Any]) -> tuple[str, Comm]:
    """Connect to the one of several addresses that answers first; return that address as well.

    If none does, raises the error of one of them: that of a closed port only if all are closed.
    """
    attempts = {asyncio.ensure_future(connect(each, arguments)): each for each in addresses}
    error: BaseException | None = None
    try:
        while attempts:
            for attempt in (await asyncio.wait(attempts, return_when=asyncio.FIRST_COMPLETED))[0]:
                address = attempts.pop(attempt)
                if attempt.exception() is None:
                    return address, attempt.result()
                if error is None or explained(error, address).is_nobody:
                    error = attempt.exception()
        assert error is not None, "there is an address"
        raise error
    finally:
        for attempt in attempts:
            if attempt.done() and not attempt.cancelled() and attempt.exception() is None:
                attempt.result().abort()
            attempt.cancel()


def explained(error: BaseException, address: str, seconds: float = 0.0) -> CarrierError:
    """Return the error for a connection that failed."""
    errors = list(_chain(error))
    for each in errors:
        if isinstance(each, CarrierError):
            return each
        if isinstance(each, ssl.SSLError):
            return _of_tls(each, address)
        if isinstance(each, ValueError) and "SSL" in str(each):  # tornado has read bytes before the handshake
            return _unencrypted(address, "it speaks first")
    host, _, port = address.rpartition("://")[2].rpartition(":")
    for each in errors:
        if isinstance(each, socket.gaierror):
            return CarrierError(f"the name of {address} is unknown: {host} has no address ({each.strerror})")
        if isinstance(each, ConnectionRefusedError):
            return CarrierError(
                f"{address} refuses the connection: nothing listens on port {port} of {host}; the node is not running, "
                "or has another port",
                is_nobody=True,
            )
        if isinstance(each, asyncio.TimeoutError | TimeoutError):
            waited = f" within {seconds:g} s" if seconds else ""
            return CarrierError(
                f"no answer from {address}{waited}: a firewall drops what is sent to TCP port {port} of {host}, "
                "or that machine is down or hangs"
            )
    for each in errors:
        if isinstance(each, CommClosedError | ConnectionResetError):
            return CarrierError(
                f"{address} closed the connection during the handshake: it requires a token that this node does not use, "
                "or is not a node of Skate"
            )
    return CarrierError(f"the connection to {address} failed: {error}")


def _chain(error: BaseException | None) -> Iterator[BaseException]:
    while error is not None:
        yield error
        error = error.__cause__ or error.__context__


def _of_tls(error: ssl.SSLError, address: str) -> CarrierError:
    if isinstance(error, ssl.SSLCertVerificationError):
        if error.verify_code in (CERT_NOT_YET_VALID, CERT_HAS_EXPIRED):
            return CarrierError(
                f"the certificate of {address} {error.verify_message.removeprefix('certificate ')}: the clocks of the "
                "two machines differ by more than a day",
                final=True,
            )
        return _other_token(address)
    reason = error.reason or ""
    if "UNKNOWN_CA" in reason or "CERTIFICATE" in reason or "DECRYPT" in reason:
        return _other_token(address)
    return _unencrypted(address, reason or str(error))


def _unencrypted(address: str, sign: str) -> CarrierError:
    return CarrierError(
        f"{address} does not encrypt: it is not a node of Skate, or it runs without a token ({sign})",
        final=True,
    )


def _other_token(address: str) -> CarrierError:
    return CarrierError(
        f"{address} has another token: its certificate is not signed by this cluster", final=True
    )


async def own_host(address: str) -> str:
    """Return the address of this machine on the way to another; sends nothing. Raises OSError if it is unknown."""
    host, _, port = address.rpartition("://")[2].rpartition(":")
    found = await asyncio.get_running_loop().getaddrinfo(host.strip("[]"), port, type=socket.SOCK_DGRAM)
    family, kind, _, _, place = found[0]
    with socket.socket(family, kind) as sock:
        sock.connect(place)
        return str(sock.getsockname()[0])


def check_free(host: str, port: int) -> None:
    """Raise CarrierError if nobody can listen there. Tornado leaves a socket open when it finds that out itself."""
    try:
        family, kind, _, _, place = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        with socket.socket(family, kind) as sock:
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            sock.bind(place)
    except OSError as error:
        raise cannot_listen(error, host, port) from None


def cannot_listen(error: BaseException, host: str, port: int) -> CarrierError:
    """Return the error for an address where nobody can listen; names the process that does, if /proc tells."""
    if getattr(error, "errno", None) == errno.EADDRINUSE:
        owner = _owner(port)
        who = f" by process {owner}" if owner else ""
        return CarrierError(f"port {port} of {host} is in use{who}; choose another port", final=True)
    if getattr(error, "errno", None) == errno.EADDRNOTAVAIL:
        return CarrierError(f"{host} is no address of this machine", final=True)
    return CarrierError(f"this node cannot listen on port {port} of {host}: {error}", final=True)


def _owner(port: int) -> str:
    """Return the process that listens on a port of this machine, such as "4711 (python -m http.server)", or ""."""
    inodes = {f"socket:[{inode}]" for inode in listeners().get(port, ())}
    for pid in procfs.processes() if inodes else ():
        folder = f"/proc/{pid}/fd"
        try:
            names = os.listdir(folder)
        except OSError:  # another user's process, or one that has ended
            continue
        for name in names:
            try:
                found = os.readlink(f"{folder}/{name}") in inodes
            except OSError:
                continue
            if found:
                command = procfs.read(f"/proc/{pid}/cmdline").replace(b"\0", b" ").decode(errors="replace")
                return f"{pid} ({command.strip()})"
    return ""


def listeners() -> dict[int, list[int]]:
    """Return the inodes of the sockets of this machine that listen for TCP, by port."""
    found: dict[int, list[int]] = {}
    for table in ("tcp", "tcp6"):
        try:
            with open(f"/proc/net/{table}", "rb") as file:
                lines = file.read().splitlines()[1:]
        except OSError:
            continue
        for line in lines:
            words = line.split()
            if words[3] == LISTENING:
                found.setdefault(int(words[1].rpartition(b":")[2], 16), []).append(int(words[9]))
    return found
