"""A process's mapping of the arena: written values are read back, and a view pins its object while it is in use."""

from __future__ import annotations

import array
import contextlib
import gc
import os
import pickle
import random
import threading
from collections import deque

import pytest

from skate.node.memory.arena_file import ArenaFile
from skate.wire.memory_map import Mapping, _class_of

CAPACITY = 1 << 24


@pytest.fixture
def arena():
    file = ArenaFile(CAPACITY)
    yield file
    file.close()


@pytest.fixture
def mapping(arena):
    made = Mapping(arena.fd, CAPACITY)
    yield made
    made.close()


@pytest.fixture
def released():
    return deque()


def view_of(mapping: Mapping, released: deque, offset: int, size: int, key: object = "gone") -> memoryview:
    return mapping.view(offset, size, lambda: released.append(key))


@pytest.mark.parametrize("size", [0, 1, 63, 4096, 70_000, 300_000, 3_000_001])
@pytest.mark.parametrize("offset", [0, 64, 65_536 - 64, 1 << 20])
def test_every_round_of_writing_is_read_back(mapping, offset: int, size: int) -> None:
    # Three rounds take the three ways: through the file, after populating, and straight.
    for round in range(4):
        value = random.Random(round).randbytes(size)
        assert mapping.write(offset, [b"head", value, b"", b"tail"]) == size + 8
        assert mapping.copy(offset, size + 8) == b"head" + value + b"tail"


def test_ranges_in_different_states_are_written_whole(mapping) -> None:
    chance = random.Random(3)
    model = bytearray(CAPACITY)
    for _ in range(150):
        size = chance.choice([100, 5_000, 70_000, 400_000, 2_000_000])
        offset = chance.randrange((CAPACITY - size) // 64) * 64
        value = chance.randbytes(size)
        cut = chance.randrange(size)
        mapping.write(offset, [value[:cut], value[cut:]])
        model[offset : offset + size] = value
        if chance.random() < 0.1:
            mapping.forget(offset, size)
    assert mapping.copy(0, CAPACITY) == model


def test_more_parts_than_one_system_call_takes(mapping) -> None:
    parts = [bytes([i % 256]) * (i % 7) for i in range(3000)]
    for _ in range(3):
        mapping.write(128, parts)
        assert mapping.copy(128, sum(map(len, parts))) == b"".join(parts)


def test_a_write_cut_short_by_the_system_goes_on_where_it_stopped(mapping, monkeypatch) -> None:
    whole = os.pwritev
    parts = [b"", b"a" * 10, b"b" * 70_000, b"", b"c" * 9, b"d"]

    def cut(fd: int, buffers: list, offset: int) -> int:
        return whole(fd, [b"".join(buffers)[:4096]], offset)

    monkeypatch.setattr(os, "pwritev", cut)
    mapping.write(0, parts)
    assert mapping.copy(0, 70_020) == b"".join(parts)


def test_buffers_of_any_format_are_written_as_their_bytes(mapping) -> None:
    numpy = pytest.importorskip("numpy")
    square = numpy.arange(12, dtype="f8").reshape(3, 4)
    parts = [
        array.array("i", [1, 2, 3]),
        bytearray(b"ab"),
        pickle.PickleBuffer(square),
        numpy.asfortranarray(square),
    ]
    expected = b"".join([parts[0].tobytes(), b"ab", square.tobytes(), square.T.tobytes()])
    mapping.write(0, parts)
    assert mapping.copy(0, len(expected)) == expected
    with pytest.raises(BufferError):
        mapping.write(0, [square[:, ::2]])


def test_other_mappings_see_what_is_written(arena, mapping) -> None:
    reader = Mapping(arena.fd, CAPACITY, writable=False)
    for value in (b"one", b"two", b"six"):
        mapping.write(4096, [value])
        assert reader.copy(4096, 3) == value
    reader.close()


def test_memory_given_back_can_be_written_again(arena, mapping) -> None:
    value = random.Random(1).randbytes(1 << 20)
    for forget in (True, False):
        for _ in range(3):
            mapping.write(0, [value])
        arena.release(0, 1 << 20)
        if forget:
            mapping.forget(0, 1 << 20)
        mapping.write(0, [value])
        assert mapping.copy(0, 1 << 20) == value


def test_what_does_not_fit_is_refused_and_writes_nothing(mapping) -> None:
    with pytest.raises(ValueError, match="outside the arena of 16777216 bytes"):
        mapping.write(CAPACITY - 4, [b"abc", b"de"])
    with pytest.raises(ValueError, match="outside the arena"):
        mapping.write(-64, [b"abc"])
    with pytest.raises(ValueError, match="outside the arena"):
        mapping.view(CAPACITY, 1, print)
    with pytest.raises(ValueError, match="outside the arena"):
        mapping.copy(0, CAPACITY + 1)
    assert mapping.copy(CAPACITY - 4, 4) == bytes(4)


def test_a_read_only_mapping_takes_views_and_refuses_writes(arena, mapping, released) -> None:
    mapping.write(0, [b"abc"])
    reader = Mapping(arena.fd, CAPACITY, writable=False)
    view = view_of(reader, released, 0, 3)
    assert view == b"abc"
    with pytest.raises(ValueError, match="read-only"):
        reader.write(0, [b"x"])
    assert repr(reader) == "Mapping(16777216 bytes, read-only)"
    del view
    reader.close()
    assert list(released) == ["gone"]


def test_a_view_is_read_only_plain_bytes_without_a_copy(mapping, released) -> None:
    mapping.write(100, [b"hello"])
    view = view_of(mapping, released, 100, 5)
    assert (view.readonly, view.format, view.nbytes, view.ndim) == (True, "B", 5, 1)
    assert view[1] == ord("e")
    assert view.cast("b")[1] == ord("e")
    with pytest.raises(TypeError):
        view[0] = 1
    mapping.write(100, [b"HELLO"])
    assert view == b"HELLO"


@pytest.mark.parametrize("size", [0, 1, 17, 1000, 4097, 1 << 20])
def test_a_view_is_released_once_with_its_last_slice(mapping, released, size: int) -> None:
    view = view_of(mapping, released, 64, size)
    assert view.nbytes == size
    part = view[size // 2 :]
    copied = bytes(view)
    del view
    gc.collect()
    assert not released
    del part
    assert list(released) == ["gone"]
    assert len(copied) == size
    gc.collect()
    assert list(released) == ["gone"]


def test_releasing_the_memoryview_by_hand_releases_the_object(mapping, released) -> None:
    with view_of(mapping, released, 0, 10):
        pass
    gc.collect()
    assert list(released) == ["gone"]


def test_numpy_arrays_pin_their_object(mapping, released) -> None:
    numpy = pytest.importorskip("numpy")
    mapping.write(0, [numpy.arange(1000.0)])
    whole = numpy.frombuffer(view_of(mapping, released, 0, 8000))
    gc.collect()
    assert not released
    part = whole[10:20].reshape(2, 5)
    del whole
    gc.collect()
    assert not released
    assert part[1, 4] == 19.0
    assert not part.flags.writeable
    again = numpy.asarray(memoryview(part))
    del part
    gc.collect()
    assert not released
    del again
    assert list(released) == ["gone"]


def test_arrow_buffers_pin_their_object(mapping, released) -> None:
    pyarrow = pytest.importorskip("pyarrow")
    mapping.write(0, [array.array("q", range(100))])
    buffer = pyarrow.py_buffer(view_of(mapping, released, 0, 800))
    column = pyarrow.Array.from_buffers(pyarrow.int64(), 100, [None, buffer])
    part = column.slice(90)
    del buffer, column
    gc.collect()
    assert not released
    assert part.to_pylist() == list(range(90, 100))
    del part
    gc.collect()
    assert list(released) == ["gone"]


def test_values_unpickled_from_views_pin_their_objects(mapping, released) -> None:
    numpy = pytest.importorskip("numpy")
    value = {"a": numpy.arange(50_000), "b": [numpy.ones((100, 100)), bytearray(b"z" * 5000)]}
    buffers: list[pickle.PickleBuffer] = []
    data = pickle.dumps(value, protocol=5, buffer_callback=buffers.append)
    views = []
    offset = 0
    for number, buffer in enumerate(buffers):
        size = mapping.write(offset, [buffer])
        views.append(view_of(mapping, released, offset, size, number))
        offset += -(-size // 64) * 64
    loaded = pickle.loads(data, buffers=views)
    del views
    gc.collect()
    assert 0 not in released
    assert 1 not in released
    assert (loaded["a"] == value["a"]).all()
    ones = loaded["b"][0]
    del loaded
    gc.collect()
    assert 0 in released
    assert 1 not in released
    assert ones.sum() == 10_000
    del ones
    gc.collect()
    assert sorted(released) == list(range(len(buffers)))


def test_a_view_in_a_reference_cycle_is_released_by_the_collector(mapping, released) -> None:
    cycle: list[object] = [view_of(mapping, released, 0, 100)]
    cycle.append(cycle)
    del cycle
    assert not released
    gc.collect()
    assert list(released) == ["gone"]


def test_a_view_let_go_in_another_thread_is_released_there(mapping) -> None:
    where: list[int] = []
    held = [mapping.view(0, 100, lambda: where.append(threading.get_ident()))]
    thread = threading.Thread(target=held.clear)
    thread.start()
    ident = thread.ident
    thread.join()
    assert where == [ident]


def test_views_of_one_object_are_released_each_on_its_own(mapping, released) -> None:
    views = [view_of(mapping, released, 0, 100 + i, i) for i in range(500)]
    for i in range(500):
        views[i] = memoryview(b"")
        assert released[-1] == i
    assert len(released) == 500


def descriptors_of(file: os.stat_result) -> list[int]:
    """List the descriptors of this process that are open on a file; other threads may open others meanwhile."""
    found = []
    for name in os.listdir("/proc/self/fd") if os.path.isdir("/proc/self/fd") else ():
        with contextlib.suppress(OSError):
            if os.path.samestat(os.fstat(int(name)), file):
                found.append(int(name))
    return found


def test_views_outlive_close_and_the_last_one_unmaps(arena, released) -> None:
    same = os.fstat(arena.fd)
    before = descriptors_of(same)
    mapping = Mapping(arena.fd, CAPACITY)
    mapping.write(0, [b"x" * 100_000])
    first = view_of(mapping, released, 0, 100_000, 1)
    second = view_of(mapping, released, 50_000, 10, 2)
    mapping.close()
    mapping.close()
    assert repr(mapping) == "Mapping(16777216 bytes, closed)"
    for use in (
        lambda: mapping.view(0, 1, print),
        lambda: mapping.write(0, [b"x"]),
        lambda: mapping.copy(0, 1),
    ):
        with pytest.raises(ValueError, match="closed"):
            use()
    del first
    gc.collect()
    assert list(released) == [1]
    assert second == b"x" * 10
    del second
    assert list(released) == [1, 2]
    assert descriptors_of(same) == before


def test_threads_write_at_once_without_mixing(mapping) -> None:
    size = 1 << 20
    values = [bytes([i]) * size for i in range(8)]

    def write(number: int) -> None:
        for _ in range(5):
            mapping.write(number * size, [values[number][:100], values[number][100:]])

    threads = [threading.Thread(target=write, args=(i,)) for i in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert mapping.copy(0, 8 * size) == b"".join(values)


def test_array_classes_are_few_and_never_too_short() -> None:
    sizes = [*range(2000), *(random.Random(5).randrange(1 << 34) for _ in range(5000))]
    for size in sizes:
        assert size <= _class_of(size) <= size + size // 8 + 1
    assert len({_class_of(size) for size in range(1 << 10, 1 << 16)}) <= 8 * 6 + 1
