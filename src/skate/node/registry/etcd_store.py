"""Records in etcd, through its JSON gateway: they survive the machine of the head, and etcd's quorum decides who is the head.

A head holds a key with a lease, which it renews in a thread. Each write is a transaction that compares that key, so a head that
was stopped for longer than its lease can write nothing any more. After a crash the next head waits until the lease has run out.
A head that cannot renew its lease ends before that, because another one may begin; one that was stopped takes its place back if
nobody else has had it.
"""

from __future__ import annotations

import base64
import contextlib
import json
import os
import socket
import threading
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final

from skate.node.registry.store import (
    ETCD_SCHEME,
    Change,
    Opened,
    StoreFullError,
    StoreLostError,
    StoreTakenError,
)

#: How long a head that does not answer keeps its place.
LEASE_SECONDS: Final = 10
REQUEST_SECONDS: Final = 5.0
POLL_SECONDS: Final = 0.2
#: etcd refuses transactions with more operations (128) or bytes (1.5 MiB); JSON takes a third more.
OPERATIONS_MAX: Final = 100
BYTES_MAX: Final = 1 << 20
PAGE_KEYS: Final = 100
#: etcd's error when its quota is used up.
FULL: Final = "space exceeded"


class EtcdStore:
    """A store in etcd. Changes beyond OPERATIONS_MAX or BYTES_MAX are written in several transactions, in their order.

    Args:
        url: Such as "etcd://10.0.0.9:2379/my-cluster"; each cluster needs a name of its own.
        lease_s: How long the place of a head is kept that has died, in seconds.

    Raises:
        ValueError: the URL has another form.
    """

    def __init__(self, url: str, lease_s: int = LEASE_SECONDS) -> None:
        host, _, cluster = url.removeprefix(ETCD_SCHEME).partition("/")
        if not url.startswith(ETCD_SCHEME) or not urllib.parse.urlsplit(f"http://{host}").port or not cluster:
            raise ValueError(
                f"the state of a head in etcd has an address like etcd://HOST:2379/CLUSTER, got {url!r}"
            )
        self.name = url
        self._base = f"http://{host}/v3/"
        self._prefix = f"skate/{cluster.strip('/')}/".encode()
        self._lease_s = lease_s
        self._lease = ""
        self._epoch = 0
        #: When the request was sent that has renewed the lease last.
        self._renewed = 0.0
        self._lost = ""
        self.on_lost: Callable[[str], None] = lambda reason: None
        self._owner = f"{socket.gethostname()}:{os.getpid()}:{os.urandom(4).hex()}".encode()
        self._ended = threading.Event()
        self._renewal: threading.Thread | None = None

    def open(self) -> Opened:
        """Become the head, begin the next epoch, and return the records."""
        try:
            self._grant()
            self._take_place(time.monotonic() + self._lease_s + REQUEST_SECONDS)
            self._renewal = threading.Thread(target=self._keep_lease, name="skate-lease", daemon=True)
            self._renewal.start()
            found = self._call("kv/range", {"key": _text(self._prefix + b"epoch")}).get("kvs", [])
            epoch = 1 + (int(_bytes(found[0]["value"])) if found else 0)
            self._write([_put(self._prefix + b"epoch", b"%d" % epoch)])
            self._epoch = epoch
            return Opened(epoch, self._records())
        except OSError as error:
            self.close()
            if isinstance(error, ConnectionError):
                raise
            raise ConnectionError(str(error)) from error

    def _grant(self) -> None:
        """Get a new lease."""
        sent = time.monotonic()
        self._lease = str(self._call("lease/grant", {"TTL": self._lease_s})["ID"])
        self._renewed = sent

    def _take_place(self, deadline: float) -> None:
        """Create the key of the head, once the one before has ended or its lease has run out."""
        while (owner := self._try_place([])) is not None:
            if time.monotonic() > deadline:
                host, pid, _ = owner.rsplit(":", 2)
                raise StoreTakenError(
                    f"another head keeps its state in {self.name} (process {pid} on {host}); end it with `skate stop`, or name "
                    "another cluster"
                )
            time.sleep(POLL_SECONDS)  # the interval of the poll
            if time.monotonic() - self._renewed > self._lease_s / 3 and not self._renew(REQUEST_SECONDS):
                self._grant()  # it was stopped meanwhile

    def _try_place(self, compare: list[dict[str, Any]]) -> str | None:
        """Create the key of the head, if what is compared is true; return None, or else who has it."""
        key = _text(self._prefix + b"head")
        request = {
            "compare": [{"key": key, "target": "CREATE", "create_revision": "0"}, *compare],
            "success": [{"request_put": {"key": key, "value": _text(self._owner), "lease": self._lease}}],
            "failure": [{"request_range": {"key": key}}],
        }
        answer = self._call("kv/txn", request)
        if answer.get("succeeded"):
            return None
        owners = answer["responses"][0]["response_range"].get("kvs", [])
        return _bytes(owners[0]["value"]).decode() if owners else "?:?:?"

    def _records(self) -> dict[bytes, bytes]:
        """Return the records, in the order in which their keys were first written."""
        prefix = self._prefix + b"records/"
        start, end = prefix, prefix[:-1] + b"0"  # the character after the slash
        rows: list[tuple[int, bytes, bytes]] = []
        more = True
        while more:
            page = self._call("kv/range", {"key": _text(start), "range_end": _text(end), "limit": PAGE_KEYS})
            for row in page.get("kvs", []):
                start = _bytes(row["key"])
                # A new key gets a revision; keys of one transaction have the same one, and the order of their names.
                rows.append(
                    (int(row["create_revision"]), start.removeprefix(prefix), _bytes(row.get("value", "")))
                )
            start += b"\0"
            more = bool(page.get("more"))
        rows.sort(key=lambda row: row[0])
        return {key: value for _, key, value in rows}

    def append(self, changes: Sequence[Change]) -> None:
        """Write changes; each transaction is durable on a majority of etcd's members."""
        last = {self._prefix + b"records/" + key: value for key, value in changes}
        for part in _parts(last):
            self._write(part)

    def _write(self, operations: list[dict[str, Any]]) -> None:
        compare = {"key": _text(self._prefix + b"head"), "target": "VALUE", "value": _text(self._owner)}
        if not self._call("kv/txn", {"compare": [compare], "success": operations}).get("succeeded"):
            raise StoreLostError(self._lost or self._taken_over())

    def _taken_over(self) -> str:
        return f"another head has taken over the state in {self.name}"

    def _keep_lease(self) -> None:
        """Renew the lease until the end. Report it before the lease may have run out, or if another head has begun."""
        request_s = min(REQUEST_SECONDS, self._lease_s / 4)
        pause, problem, is_failing = self._lease_s / 3, "", False
        while not problem and not self._ended.wait(pause):
            silent = time.monotonic() - self._renewed
            if is_failing and silent + request_s > self._lease_s:
                problem = f"{self.name} was not reached for {silent:.0f} s, and another head may begin"
                continue
            try:
                is_renewed = self._renew(request_s)
                pause, is_failing = self._lease_s / 3, False
                problem = "" if is_renewed else self._take_back()
            except OSError:  # tried again, sooner
                pause, is_failing = self._lease_s / 20, True
        if problem:
            self._lost = problem
            self.on_lost(problem)

    def _renew(self, request_s: float) -> bool:
        """Renew the lease; return False if it has run out."""
        sent = time.monotonic()
        answer = self._call("lease/keepalive", {"ID": self._lease}, request_s)
        if int(answer.get("result", {}).get("TTL", 0)) <= 0:
            return False
        self._renewed = sent
        return True

    def _take_back(self) -> str:
        """Become the head again after the lease has run out, if no other one has begun meanwhile; return the problem."""
        epoch = {
            "key": _text(self._prefix + b"epoch"),
            "target": "VALUE",
            "value": _text(b"%d" % self._epoch),
        }
        self._grant()
        return "" if self._try_place([epoch]) is None else self._taken_over()

    def close(self) -> None:
        """Give up the place of the head. Safe to call more than once."""
        self._ended.set()
        if self._renewal is not None:
            self._renewal.join()
        lease, self._lease = self._lease, ""
        if lease:
            with contextlib.suppress(OSError):  # it runs out by itself
                self._call("lease/revoke", {"ID": lease})

    def _call(self, path: str, request: dict[str, Any], seconds: float = REQUEST_SECONDS) -> dict[str, Any]:
        sent = urllib.request.Request(self._base + path, json.dumps(request).encode())
        try:
            with urllib.request.urlopen(sent, timeout=seconds) as answer:
                found: dict[str, Any] = json.load(answer)
                return found
        except urllib.error.HTTPError as error:
            with error:
                text = error.read(1000).decode(errors="replace")
            if FULL in text:
                raise StoreFullError(
                    f"{self.name} is full, where the head keeps its state ({text.strip()})"
                ) from None
            raise ConnectionError(f"{self.name} refuses a request: {text.strip() or error}") from None
        except OSError as error:
            raise ConnectionError(
                f"{self.name} cannot be reached, where the head keeps its state: {error}"
            ) from error


def _parts(last: dict[bytes, bytes | None]) -> Iterator[list[dict[str, Any]]]:
    """Yield the operations of transactions."""
    part: list[dict[str, Any]] = []
    size = 0
    for key, value in last.items():
        size += len(key) + len(value or b"")
        if part and (len(part) == OPERATIONS_MAX or size > BYTES_MAX):
            yield part
            part, size = [], len(key) + len(value or b"")
        part.append({"request_delete_range": {"key": _text(key)}} if value is None else _put(key, value))
    if part:
        yield part


def _put(key: bytes, value: bytes) -> dict[str, Any]:
    return {"request_put": {"key": _text(key), "value": _text(value)}}


def _text(data: bytes) -> str:
    return base64.b64encode(data).decode()


def _bytes(text: str) -> bytes:
    return base64.b64decode(text)
