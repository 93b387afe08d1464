"""Large values that are sent from files, and what happens to those whose file cannot be read."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from skate.core.memory.memory_plan import DISK_STRIDE
from skate.fabric.arrivals import Visit
from skate.fabric.bulk import FilePart
from skate.node.peer_links import PeerLinks
from tests.fabric.clusters import MeshCluster, TLSCluster
from tests.fabric.test_transfer import CHUNK_BYTES, SIZE, Fetched, value

START = 4096


class Spilled:
    """A handler of reads with the value in a file; asked for it in memory, it restores the value."""

    def __init__(self, folder: Path, data: bytes) -> None:
        self.fd = os.open(folder / "file", os.O_RDWR | os.O_CREAT)
        os.pwrite(self.fd, data, START)
        self.memory: bytes | None = data
        self.visits: list[Visit] = []
        self.restored = 0

    def read(self, key: bytes, at: int, size: int, answer: Callable[[Any], None], visit: Visit) -> None:
        if visit not in self.visits:
            self.visits.append(visit)
        if not visit.from_memory:
            answer(FilePart(self.fd, START + at, size))
            return
        self.restored += 1
        answer(None if self.memory is None else memoryview(self.memory)[at : at + size])


@pytest.fixture(params=[MeshCluster, TLSCluster])
def mesh(request: pytest.FixtureRequest) -> Iterator[MeshCluster]:
    found: MeshCluster = request.param()
    found.start(3)
    yield found
    found.close()


@pytest.fixture
def spilled(mesh: MeshCluster, tmp_path: Path) -> Iterator[Spilled]:
    made = Spilled(tmp_path, value(1))
    mesh.nodes[1].handler.read = made.read  # type: ignore[assignment,method-assign]
    yield made
    os.close(made.fd)


def fetch(mesh: MeshCluster) -> Fetched:
    _, source, reader = mesh.nodes
    fetched = Fetched(reader, source, b"key", SIZE)
    mesh.until(lambda: bool(fetched.done))
    return fetched


def test_a_value_is_sent_from_its_file(mesh: MeshCluster, spilled: Spilled) -> None:
    fetched = fetch(mesh)
    assert fetched.done == [True] and bytes(fetched.memory) == value(1)
    assert not spilled.restored and len(spilled.visits) == 1


def test_a_value_whose_file_cannot_be_read_comes_from_memory_if_the_node_can_restore_it(
    mesh: MeshCluster, spilled: Spilled
) -> None:
    os.ftruncate(spilled.fd, 0)
    fetched = fetch(mesh)
    assert fetched.done == [True] and bytes(fetched.memory) == value(1)
    assert spilled.restored


@pytest.mark.parametrize("left", [0, 3 * CHUNK_BYTES])
def test_a_value_whose_file_cannot_be_read_at_all_is_missing(
    mesh: MeshCluster, spilled: Spilled, left: int
) -> None:
    os.ftruncate(spilled.fd, START + left)
    spilled.memory = None
    assert fetch(mesh).done == [False]
    assert spilled.restored


def test_bytes_of_a_file_and_of_memory_are_not_mixed(mesh: MeshCluster, spilled: Spilled) -> None:
    os.ftruncate(spilled.fd, START + 3 * CHUNK_BYTES)
    assert fetch(mesh).done == [False], "the reader asks again from the start"


def test_a_part_of_a_closed_file_cannot_be_read(tmp_path: Path) -> None:
    fd = os.open(tmp_path / "file", os.O_RDWR | os.O_CREAT)
    os.close(fd)
    assert FilePart(fd, 0, 10).read() is None


# -- which reads are answered from a file


class Host:
    """As much of a node as reads need: one value, in memory or on disk."""

    def __init__(self) -> None:
        self.place: tuple[int, int] | None = None
        self.disk_place: tuple[int, int] | None = (DISK_STRIDE + START, 100)
        self.told: list[Any] = []
        self.pump = self.pool = self.jobs = SimpleNamespace(
            homes={}, environments=SimpleNamespace(stores=()), lock=None
        )
        self.disk = SimpleNamespace(at=lambda place: (7, place - DISK_STRIDE))
        self.mapping = SimpleNamespace(view=lambda offset, size, call: ("memory", offset, size))
        self.snapshot = SimpleNamespace(
            on_disk=lambda key: self.place is None and self.disk_place is not None,
            place_on_disk=lambda key: self.disk_place,
            place_of=lambda key: self.place,
        )

    def tell(self, event: Any) -> None:
        self.told.append(event)


def links(host: Host) -> PeerLinks:
    fabric: Any = SimpleNamespace(congested=set(), flush=lambda: None)
    return PeerLinks(host, fabric)  # type: ignore[arg-type]


def answers(made: PeerLinks, at: int, visit: Visit | None, size: int = 10) -> list[Any]:
    found: list[Any] = []
    made.read(b"key", at, size, found.append, visit)
    return found


def test_a_spilled_value_is_read_in_its_file_and_stays_there() -> None:
    host = Host()
    made, visit = links(host), Visit(1)
    assert answers(made, 20, visit) == [FilePart(7, START + 20, 10)]
    assert not host.told, "the core restores nothing"
    host.place = (5000, 100)  # it was restored for somebody else, and its copy stays
    assert answers(made, 30, visit) == [FilePart(7, START + 30, 10)]
    assert answers(made, 30, Visit(1)) == [("memory", 5030, 10)]


def test_a_reader_does_not_continue_in_another_file() -> None:
    host = Host()
    made, visit = links(host), Visit(1)
    answers(made, 0, visit)
    host.disk_place = (DISK_STRIDE + 9 * START, 100)
    assert answers(made, 10, visit) == [None]
    host.disk_place = None
    assert answers(made, 10, visit) == [None]


def test_a_value_is_restored_for_reads_that_need_it_in_memory() -> None:
    """Reads over a lane, reads after one that has failed, and those of copies in external storage."""
    host = Host()
    made = links(host)
    failed = Visit(1)
    answers(made, 0, failed)
    failed.from_memory = True
    waiting = [answers(made, 0, None), answers(made, 0, failed)]
    place, host.disk_place = host.disk_place, None
    host.snapshot.on_disk = lambda key: True
    waiting.append(answers(made, 0, Visit(1)))
    assert waiting == [[], [], []] and len(host.told) == 3
    host.disk_place, host.place = place, (5000, 100)
    made.serve_reads(b"key")
    assert waiting == [[("memory", 5000, 10)]] * 3


def test_a_read_past_the_end_of_a_spilled_value_is_not_answered_from_its_file() -> None:
    host = Host()
    assert not any(isinstance(each, FilePart) for each in answers(links(host), 95, Visit(1)))
