"""The arena's file: sparse, nameless, of a fixed length, and able to give its memory back."""

from __future__ import annotations

import mmap
import os
import sys

import pytest

from skate.node.memory.arena_file import ArenaFile

CAPACITY = 1 << 26
on_linux = pytest.mark.skipif(
    not sys.platform.startswith("linux"), reason="memfd and hole punching are Linux's"
)


@pytest.fixture
def arena():
    file = ArenaFile(CAPACITY)
    yield file
    file.close()


def test_it_is_as_long_as_its_capacity_but_takes_up_only_what_was_touched(arena) -> None:
    assert os.fstat(arena.fd).st_size == CAPACITY
    assert arena.resident() == 0
    os.pwrite(arena.fd, b"x" * 10_000, 1 << 20)
    assert 10_000 <= arena.resident() <= 1 << 20


def test_it_has_no_name_and_is_not_inherited(arena) -> None:
    assert os.fstat(arena.fd).st_nlink == 0
    assert not os.get_inheritable(arena.fd)


@on_linux
def test_released_memory_goes_back_and_reads_as_zeros(arena) -> None:
    with mmap.mmap(arena.fd, CAPACITY) as mapped:
        mapped[: 1 << 20] = b"x" * (1 << 20)
        full = arena.resident()
        assert arena.release(4096, (1 << 20) - 8192)
        assert arena.resident() <= full - (1 << 20) + 8192
        assert mapped[0:4096] == b"x" * 4096
        assert mapped[4096:8192] == bytes(4096)
        assert mapped[(1 << 20) - 4096 : 1 << 20] == b"x" * 4096
    assert os.fstat(arena.fd).st_size == CAPACITY


@on_linux
def test_nobody_can_change_its_length(arena) -> None:
    for length in (0, CAPACITY * 2):
        with pytest.raises(PermissionError):
            os.ftruncate(arena.fd, length)


def test_close_is_idempotent_and_leaves_no_descriptor() -> None:
    file = ArenaFile(CAPACITY)
    fd = file.fd
    file.close()
    file.close()
    assert file.fd == -1
    with pytest.raises(OSError):
        os.fstat(fd)


def test_without_memfd_an_unlinked_file_does(monkeypatch, tmp_path) -> None:
    def refused(*_: object) -> int:
        raise PermissionError(1, "forbidden by a sandbox")

    monkeypatch.setattr(os, "memfd_create", refused, raising=False)
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    monkeypatch.setattr(os, "access", lambda *_: False)
    file = ArenaFile(CAPACITY)
    try:
        assert list(tmp_path.iterdir()) == []
        assert os.fstat(file.fd).st_nlink == 0
        assert os.fstat(file.fd).st_size == CAPACITY
        os.pwrite(file.fd, b"abc", CAPACITY - 3)
        assert os.pread(file.fd, 3, CAPACITY - 3) == b"abc"
        file.release(0, 1 << 20)
    finally:
        file.close()


def test_a_length_the_system_refuses_is_an_error_and_leaks_nothing() -> None:
    before = len(os.listdir("/proc/self/fd")) if sys.platform.startswith("linux") else None
    with pytest.raises((OSError, OverflowError)):
        ArenaFile(-1)
    if before is not None:
        assert len(os.listdir("/proc/self/fd")) == before


@on_linux
def test_a_file_system_that_cannot_punch_holes_is_asked_once(arena) -> None:
    offsets = []

    def unsupported(fd: int, offset: int, size: int) -> int:
        offsets.append(offset)
        return 95

    arena._punch = unsupported
    assert not arena.release(0, 4096)
    assert not arena.release(4096, 4096)
    assert offsets == [0]


@on_linux
def test_a_failed_release_says_what_was_asked(arena) -> None:
    arena._punch = lambda fd, offset, size: 5
    with pytest.raises(OSError, match="cannot give back 4096 bytes at 8192"):
        arena.release(8192, 4096)
