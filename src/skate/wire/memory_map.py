"""The arena mapped into one process: values are written through the mapping, and read in place.

Writing. The cost of a copy into shared memory is the page faults, not the copy. Measured on a 2-core virtual
machine, 100 MB, in GB/s (one warm memcpy: 15):

                                          page never    page there, not    page mapped
                                          touched       mapped here        here
    store through the mapping             1.5           3.0                14
    pwrite to the file                    2.9           6.5                6
    populate the mapping, then store      1.7           4.4                9

pwrite allocates whole pages without zeroing or mapping them, but goes through the kernel forever; a
mapping is slow once and then as fast as memory. So each 64 KiB of the arena passes through three stages in
each process: its first write uses pwrite, the second maps it, later ones are plain copies. The arena reuses
memory while it is warm, so a loop reaches the third stage in its third iteration. A wrong stage (memory
returned meanwhile, a fork) only costs time, never correctness.

Reading. A view must pin its object until the last array derived from it is gone, and numpy keeps the
*exporter* of a buffer alive, not the memoryview that it received. So each view exports from its own ctypes
array, placed over the mapping, whose finalizer reports the release; it also keeps the mapping alive, so
`close` does not have to consider views. (Python 3.12's `__buffer__` would also work, but not for 3.10.)
"""

from __future__ import annotations

import ctypes
import errno
import mmap
import os
import pickle
import sys
from collections.abc import Callable, Sequence
from typing import Any

from skate.wire.limits import no_address_space

_STEP = 64 * 1024
_PIECE = 16 * 1024 * 1024
_UNSEEN, _WRITTEN, _MAPPED = 0, 1, 2
# For smaller copies, releasing the interpreter lock does not pay.
_UNLOCKED = 256 * 1024
_PARTS = min(os.sysconf("SC_IOV_MAX"), 1024) if hasattr(os, "pwritev") else 0
_POPULATE_WRITE = 23  # linux/mman.h, since 5.14; missing in the mmap module


class Mapping:
    """The arena of `size` bytes behind `fd`, mapped into this process once.

    The caller keeps `fd` and may close it. With `writable=False` only views can be taken. Raises LimitReached
    if this process has no address space for it.
    """

    def __init__(self, fd: int, size: int, writable: bool = True) -> None:
        self.size = size
        self.writable = writable
        # None once closed. Views hold it too, and the end of the last holder unmaps it.
        try:
            self._map: mmap.mmap | None = mmap.mmap(
                fd, size, mmap.MAP_SHARED, mmap.PROT_READ | (mmap.PROT_WRITE if writable else 0)
            )
        except OSError as error:
            if error.errno != errno.ENOMEM:
                raise
            raise no_address_space(size) from None
        self._bytes = memoryview(self._map)
        self._address = address_of(self._bytes)
        # The stage that each 64 KiB has reached; empty before the first write, as in most workers.
        self._steps = bytearray()
        self._fd = os.dup(fd) if writable else -1

    def __repr__(self) -> str:
        kind = "closed" if self._map is None else "writable" if self.writable else "read-only"
        return f"Mapping({self.size} bytes, {kind})"

    def write(self, offset: int, parts: Sequence[Any]) -> int:
        """Write the buffers one after another from `offset` on, and return the bytes written.

        `parts` are contiguous buffers of any format (BufferError otherwise). Raises ValueError if they do not
        fit, or if the mapping is closed or read-only, and OSError if the machine is out of memory. Other
        threads run while large parts are copied.
        """
        views = [_raw(part) for part in parts]
        total = sum([view.nbytes for view in views])
        held = self._bounds(offset, total)
        if not self.writable:
            raise ValueError("cannot write to an arena that was mapped read-only")
        if not total:
            return 0
        first, last = offset // _STEP, -(-(offset + total) // _STEP)
        steps = self._stages()
        mapped = steps.count(_MAPPED, first, last)
        if mapped < last - first:
            if _PARTS and 2 * steps.count(_UNSEEN, first, last) > last - first:
                self._write_through_file(offset, views)
                steps[first:last] = steps[first:last].replace(b"\0", b"\1")
                return total
            self._populate(offset, total, first, last)
        self._copy(held, offset, views)
        return total

    def view(self, offset: int, size: int, on_release: Callable[[], object]) -> memoryview:
        """Return a read-only view of these bytes; `on_release` is called once, when no object derived from it is left.

        That may happen in any thread and at any point, so `on_release` must be tiny and take no lock: a bound
        `deque.append` with its argument is suitable. Raises ValueError outside the arena or after `close`.
        """
        held = self._bounds(offset, size)
        length = _class_of(size)
        exporter = (_exporters.get(length) or _make_exporter(length)).from_address(self._address + offset)
        exporter.held = held
        exporter.on_release = on_release
        # Through PickleBuffer, because a plain memoryview of a ctypes array cannot be indexed.
        return pickle.PickleBuffer(exporter).raw()[:size].toreadonly()

    def fill(self, offset: int, fd: int, at: int, size: int) -> None:
        """Read bytes of the file `fd`, from `at` on, into the arena. Raises OSError if not all of them can be read."""
        self._bounds(offset, size)
        target = self._bytes[offset : offset + size]
        done = 0
        while done < size:
            count = os.preadv(fd, [target[done : done + _PIECE]], at + done)
            if not count:
                raise OSError(f"{size - done} of {size} bytes at {at} are missing in the file")
            done += count
        self._mark_mapped(offset, size)

    def space(self, offset: int, size: int) -> memoryview:
        """Return these bytes, writable; the caller must ensure that nobody else uses them meanwhile."""
        self._bounds(offset, size)
        if not self.writable:
            raise ValueError("cannot write to an arena that was mapped read-only")
        self._mark_mapped(offset, size)
        return self._bytes[offset : offset + size]

    def _mark_mapped(self, offset: int, size: int) -> None:
        first, last = -(-offset // _STEP), (offset + size) // _STEP
        self._stages()[first:last] = bytes([_MAPPED]) * max(0, last - first)

    def peek(self, offset: int, size: int) -> memoryview:
        """Return these bytes, read-only; the caller must ensure that they do not change meanwhile."""
        self._bounds(offset, size)
        return self._bytes[offset : offset + size].toreadonly()

    def copy(self, offset: int, size: int) -> bytes:
        """Return a copy of these bytes. Raises ValueError outside the arena or after `close`."""
        self._bounds(offset, size)
        return self._bytes[offset : offset + size].tobytes()

    def forget(self, offset: int, size: int) -> None:
        """Record that the memory of this range was returned, so that its next write takes the fastest way."""
        first, last = -(-offset // _STEP), (offset + size) // _STEP
        if self._steps and first < last:
            self._steps[first:last] = bytes(last - first)

    def close(self) -> None:
        """Close the mapping; views in use stay valid, and the last of them ends it.

        No other thread may be in `write`.
        """
        self._map = None
        self._bytes = memoryview(b"")
        self._steps = bytearray()
        fd, self._fd = self._fd, -1
        if fd >= 0:
            os.close(fd)

    def _stages(self) -> bytearray:
        if not self._steps:
            self._steps = bytearray(-(-self.size // _STEP))
        return self._steps

    def _bounds(self, offset: int, size: int) -> mmap.mmap:
        held = self._map
        if held is None:
            raise ValueError("the arena's mapping is closed")
        if offset < 0 or size < 0 or offset + size > self.size:
            raise ValueError(f"{size} bytes at {offset} lie outside the arena of {self.size} bytes")
        return held

    def _write_through_file(self, offset: int, views: list[memoryview]) -> None:
        at = 0
        while at < len(views):
            batch = views[at : at + _PARTS]
            at += len(batch)
            while batch:
                # One call writes 2 GiB at most and may be cut short by a signal.
                written = os.pwritev(self._fd, batch, offset)
                offset += written
                while batch and written >= batch[0].nbytes:
                    written -= batch.pop(0).nbytes
                if written:
                    batch[0] = batch[0][written:]

    def _populate(self, offset: int, total: int, first: int, last: int) -> None:
        """Map the unmapped pages of the range, one run at a time, and record it."""
        steps = self._steps
        page = mmap.PAGESIZE
        at = first
        while at < last:
            if steps[at] == _MAPPED:
                at += 1
                continue
            end = steps.find(_MAPPED, at, last)
            if end < 0:
                end = last
            start = max(at * _STEP, offset // page * page)
            stop = min(end * _STEP, offset + total)
            # On older kernels the copy faults page by page, which is slower but correct.
            _madvise(self._address + start, stop - start, _POPULATE_WRITE)
            at = end
        steps[first:last] = b"\2" * (last - first)

    def _copy(self, target: mmap.mmap, offset: int, views: list[memoryview]) -> None:
        for view in views:
            size = view.nbytes
            if size < _UNLOCKED:
                target[offset : offset + size] = view
            else:
                ctypes.memmove(self._address + offset, address_of(view), size)
            offset += size


class _Exporter:
    """The finalizer of a view's ctypes array; mixed into one array class per size."""

    __slots__ = ()
    held: mmap.mmap
    on_release: Callable[[], object]

    def __del__(self) -> None:
        self.on_release()


# Array classes by length; at most eight per power of two, because creating one costs more than a view.
_exporters: dict[int, Any] = {}


def _class_of(size: int) -> int:
    """Return the length of the array behind a view of `size` bytes: the next of eight steps per power of two."""
    shift = max(size.bit_length() - 4, 0)
    return -(-size >> shift) << shift


def _make_exporter(length: int) -> Any:
    fields = {"_type_": ctypes.c_ubyte, "_length_": length, "__slots__": ("held", "on_release")}
    made = type("ArenaBytes", (_Exporter, ctypes.Array), fields)
    return _exporters.setdefault(length, made)


class _PyBuffer(ctypes.Structure):
    """CPython's Py_buffer, part of its stable interface since 3.11 and unchanged since 3.0."""

    _fields_ = [
        ("buf", ctypes.c_void_p),
        ("obj", ctypes.c_void_p),
        ("len", ctypes.c_ssize_t),
        ("itemsize", ctypes.c_ssize_t),
        ("readonly", ctypes.c_int),
        ("ndim", ctypes.c_int),
        ("format", ctypes.c_char_p),
        ("shape", ctypes.c_void_p),
        ("strides", ctypes.c_void_p),
        ("suboffsets", ctypes.c_void_p),
        ("internal", ctypes.c_void_p),
    ]


_get_buffer = ctypes.pythonapi.PyObject_GetBuffer
_get_buffer.argtypes = (ctypes.py_object, ctypes.POINTER(_PyBuffer), ctypes.c_int)
_release_buffer = ctypes.pythonapi.PyBuffer_Release
_release_buffer.argtypes = (ctypes.POINTER(_PyBuffer),)
_release_buffer.restype = None


def address_of(view: memoryview) -> int:
    """Return the address of a contiguous view, also of a read-only one; valid while the view is held."""
    buffer = _PyBuffer()
    _get_buffer(view, ctypes.byref(buffer), 0)
    address = buffer.buf or 0
    _release_buffer(ctypes.byref(buffer))
    return address


def _raw(part: Any) -> memoryview:
    if type(part) is pickle.PickleBuffer:
        return part.raw()
    return pickle.PickleBuffer(part).raw()


def _madvise_function() -> Callable[[int, int, int], int]:
    """Call madvise(2); unlike the method of mmap, this lets other threads run meanwhile."""
    function = getattr(ctypes.CDLL(None), "madvise", None) if sys.platform == "linux" else None
    if function is None:
        return lambda address, size, advice: -1
    function.argtypes = (ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int)
    function.restype = ctypes.c_int
    return function  # type: ignore[no-any-return]


_madvise = _madvise_function()
