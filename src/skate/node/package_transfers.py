"""Packages of working directories and modules that a node fetches from the others, and those that it has for them.

They travel as values do, under keys of their own: first the size of a package, then its bytes. The core knows nothing of them.
"""

from __future__ import annotations

import functools
import mmap
import os
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from skate.exceptions import RuntimeEnvSetupError
from skate.protocol.values import PACKAGE
from skate.runtime_env import cache
from skate.runtime_env.package_uri import KIND, SCHEME, cache_key, is_name

if TYPE_CHECKING:
    from skate.fabric.fabric import Fabric, NodeId
    from skate.runtime_env.deadline import Deadline
    from skate.wire.pump import Pump

SIZE_OF = PACKAGE + b"size "
BYTES_OF = PACKAGE + b"bytes "
SIZE_BYTES = 8
#: Packages that stay mapped for other nodes.
MAPPED_MAX = 4
#: How often a waiting thread looks at its deadline.
LOOK_SECONDS = 0.5


class Links(Protocol):
    """The links to other nodes."""

    fabric: Fabric

    def member_of(self, cid: int) -> NodeId | None:
        """Return the member that the core knows by this client id."""

    def flush(self) -> None:
        """Send everything that is queued."""


class PackageTransfers:
    """The packages of one node.

    Args:
        links: the links to other nodes, if there are any.
        homes: the client ids of the nodes of other nodes' drivers, by job.
        stores: folders with packages, under their whole names; a head has one for those that come over HTTP.
    """

    def __init__(
        self, links: Links | None, pump: Pump, homes: Mapping[str, int], stores: Sequence[Path]
    ) -> None:
        self._links = links
        self._pump = pump
        self._homes = homes
        self._stores = stores
        self._mapped: dict[str, mmap.mmap] = {}

    # -- for other nodes; the engine lock is held

    def read(self, key: bytes, at: int, size: int, answer: Callable[[Any], None]) -> None:
        """Answer another node with the size or with bytes of a package, or with None if it is not here."""
        is_size = key.startswith(SIZE_OF)
        name = key.removeprefix(SIZE_OF if is_size else BYTES_OF).decode("ascii", "replace")
        found = self._map(name)
        if found is None:
            answer(None)
            return
        whole = memoryview(len(found).to_bytes(SIZE_BYTES, "big") if is_size else found)
        answer(whole[at : at + size] if at + size <= len(whole) else None)

    def _map(self, name: str) -> mmap.mmap | None:
        path = self.find(name)
        if path is None:
            return None
        found = self._mapped.get(name)
        if found is None:
            try:
                with open(path, "rb") as file:
                    found = mmap.mmap(file.fileno(), 0, prot=mmap.PROT_READ)
            except (OSError, ValueError):  # it was removed just now, or is empty
                return None
            if len(self._mapped) >= MAPPED_MAX:
                # Senders keep their own reference, so the memory stays until they have sent it.
                del self._mapped[next(iter(self._mapped))]
            self._mapped[name] = found
        return found

    def find(self, name: str) -> Path | None:
        """Return the file of a package on this machine, or None."""
        if not is_name(name):
            return None
        places = [cache.default_root() / KIND / cache_key(name), *(store / name for store in self._stores)]
        return next((path for path in places if path.is_file()), None)

    # -- from other nodes; in a thread that prepares an environment

    def fetch(self, job: str, name: str, target: Path, deadline: Deadline) -> None:
        """Write a package to a file: from this machine, or from the first node that has it, the driver's before others.

        Raises RuntimeEnvSetupError if no node has it, or the deadline ends first.
        """
        found = self.find(name)
        if found is not None:
            _copy(found, target)
            return
        with self._pump.lock:
            sources = list(self._sources(job))
        for source, shown in sources:
            doing = f"fetching the package {name} from the node at {shown}"
            size = self._size_at(source, name, deadline, doing)
            if size and self._fetch_from(source, name, size, target, deadline, doing):
                return
        if not sources:
            raise RuntimeEnvSetupError(
                f"the package {SCHEME}://{name} is not on this node, which belongs to no cluster. Use the folder itself, or a "
                "URI that can be read from here (https, s3, gs, file)."
            )
        asked = ", ".join(shown for _, shown in sources)
        raise RuntimeEnvSetupError(
            f"the package {SCHEME}://{name} is on no living node (asked: {asked}). The node of the program that named the "
            "folder keeps it while the program runs: start that program again, or name a URI that every node can read "
            "(https, s3, gs)."
        )

    def _sources(self, job: str) -> Iterator[tuple[NodeId, str]]:
        """Yield the nodes to ask, with their addresses: the one of the job's driver, the head, then the others."""
        if self._links is None:
            return
        home = self._links.member_of(self._homes.get(job, 0))
        infos = self._links.fabric.members()
        for member in sorted(infos, key=lambda each: (each != home, not infos[each].get("head"))):
            yield member, str(infos[member].get("facts", {}).get("address") or member[0][:8])

    def _size_at(self, source: NodeId, name: str, deadline: Deadline, doing: str) -> int:
        """Return the size of a package at another node; 0 if it is not there."""
        data = bytearray(SIZE_BYTES)
        key = SIZE_OF + name.encode()
        there = self._transfer(source, key, memoryview(data), deadline, doing)
        return int.from_bytes(data, "big") if there else 0

    def _fetch_from(
        self, source: NodeId, name: str, size: int, target: Path, deadline: Deadline, doing: str
    ) -> bool:
        try:
            with open(target, "w+b") as file:
                # A disk that is full is an error here; in the mapping it would end the process.
                os.posix_fallocate(file.fileno(), 0, size)
                memory = mmap.mmap(file.fileno(), size)
        except OSError as error:
            raise RuntimeEnvSetupError(
                f"the package {SCHEME}://{name} ({size} bytes) cannot be written to {target.parent}: {error.strerror}."
            ) from error
        # The mapping is not closed here: after the deadline a thread may still write to it.
        return self._transfer(source, BYTES_OF + name.encode(), memoryview(memory), deadline, doing)

    def _transfer(
        self, source: NodeId, key: bytes, space: memoryview, deadline: Deadline, doing: str
    ) -> bool:
        """Fetch a value of another node into memory; return False if it is not there."""
        over = threading.Event()
        outcome: list[bool] = []

        def write(at: int, piece: Any) -> None:
            space[at : at + len(piece)] = piece

        def done(there: bool) -> None:
            outcome.append(there)
            over.set()

        with self._pump.lock:
            if self._links is None or self._pump.closed:
                return False
            self._links.fabric.fetch(source, key, len(space), write, done, lambda: space)
            self._links.flush()
            self._pump.kick()
        while not over.wait(deadline.left_s(LOOK_SECONDS)):
            deadline.check(doing)
        return outcome[0]

    def fetcher(self, job: str) -> Callable[[str, Path, Deadline], None]:
        """Return the function with which an environment of a job fetches its packages."""
        return functools.partial(self.fetch, job)

    def __repr__(self) -> str:
        return f"<PackageTransfers {list(self._mapped)}>"


def _copy(source: Path, target: Path) -> None:
    import shutil  # only packages that were submitted over HTTP are copied

    shutil.copyfile(source, target)
