"""Conversion of Python values to bytes and back: pickle protocol 5 with separate large buffers, and
cloudpickle where pickle does not suffice.

A packed value is either a plain pickle, or a table of buffers followed by the pickle and the buffers, each aligned to 64
bytes, so that arrays are read in place out of shared memory or out of the message, read-only. The refs and
actor handles inside a value are collected, so that their owner learns that they are sent.
"""

from __future__ import annotations

import contextlib
import importlib
import io
import pickle
import struct
import sys
import threading
import warnings
from collections.abc import Callable, Iterator
from types import ModuleType
from typing import Any

from skate.wire import function_pickler

TABLE = 1
ALIGNMENT = 64
#: A value up to this size is sent inside messages; a larger one is stored in the arena.
INLINE_BYTES_MAX = 100 * 1024

_HEAD = struct.Struct("<B3xIQ")
_SLOT = struct.Struct("<QQ")
_PLAIN = frozenset({int, float, str, bytes, bool, type(None), complex})
_PADDING = bytes(ALIGNMENT)

_collecting = threading.local()
_serializers: dict[type, tuple[Callable[[Any], Any], Callable[[Any], Any]]] = {}


def register_serializer(
    cls: type, serializer: Callable[[Any], Any], deserializer: Callable[[Any], Any]
) -> None:
    """Pack instances of `cls` with the user's functions from now on, in this process."""
    _serializers[cls] = (serializer, deserializer)


def deregister_serializer(cls: type) -> None:
    """Forget the functions registered for `cls`, if any."""
    _serializers.pop(cls, None)


def has_serializer(cls: type) -> bool:
    """True if functions are registered for `cls`."""
    return cls in _serializers


def collector() -> list[Any] | None:
    """The list that collects refs and handles during packing in this thread; None at other times."""
    return getattr(_collecting, "met", None)


@contextlib.contextmanager
def collecting() -> Iterator[list[Any]]:
    """Collect refs and handles pickled inside the block in the list, instead of keeping them for the whole session."""
    outer = getattr(_collecting, "met", None)
    met: list[Any] = []
    _collecting.met = met
    try:
        yield met
    finally:
        _collecting.met = outer


class Packed:
    """A value as bytes: a head, separate buffers, and the refs and handles that it contains."""

    __slots__ = ("head", "buffers", "met", "size")

    def __init__(self, head: bytes, buffers: list[Any], met: list[Any]) -> None:
        self.head = head
        self.buffers = buffers
        self.met = met
        self.size = len(head)
        if buffers:
            self.size = _end_of(head, buffers)

    def parts(self) -> list[Any]:
        """Return the pieces to write one after another."""
        buffers = self.buffers
        if not buffers:
            return [self.head]
        start = _HEAD.size + _SLOT.size * len(buffers)
        at = start + len(self.head)
        slots = []
        body: list[Any] = [self.head]
        for buffer in buffers:
            gap = -at % ALIGNMENT
            if gap:
                body.append(_PADDING[:gap])
            at += gap
            slots.append(_SLOT.pack(at, buffer.nbytes))
            body.append(buffer)
            at += buffer.nbytes
        return [_HEAD.pack(TABLE, len(buffers), len(self.head)) + b"".join(slots), *body]

    def joined(self) -> bytes:
        """Return everything as one bytes object."""
        return self.head if not self.buffers else b"".join(self.parts())


def _end_of(head: bytes, buffers: list[Any]) -> int:
    at = _HEAD.size + _SLOT.size * len(buffers) + len(head)
    for buffer in buffers:
        at += -at % ALIGNMENT + buffer.nbytes
    return at


def pack(value: Any) -> Packed:
    """Pack a value; raises TypeError if it cannot be pickled."""
    kind = type(value)
    if kind in _PLAIN:
        if kind is bytes and len(value) > INLINE_BYTES_MAX:
            return Packed(b"", [memoryview(value)], [])
        return Packed(pickle.dumps(value, 5), [], [])
    if (kind is list or kind is tuple) and _PLAIN.issuperset(map(type, value)):
        return Packed(pickle.dumps(value, 5), [], [])
    buffers: list[Any] = []
    if kind.__module__ == "numpy" and kind.__name__ == "ndarray" and not value.dtype.hasobject:
        head = pickle.dumps(value, 5, buffer_callback=lambda buffer: buffers.append(_raw(buffer)))
        return Packed(head, buffers, [])
    outer = getattr(_collecting, "met", None)
    met: list[Any] = []
    _collecting.met = met
    try:
        head = _cloudpickled(value, lambda buffer: buffers.append(_raw(buffer)))
    finally:
        _collecting.met = outer
    return Packed(head, buffers, met)


def _raw(buffer: pickle.PickleBuffer) -> memoryview:
    try:
        return buffer.raw()
    except BufferError:  # not contiguous
        return memoryview(bytes(buffer))


_pickler_class: Any = None


def pickler() -> Any:
    """Return the class that pickles values, created on first use."""
    global _pickler_class
    if _pickler_class is None:
        _pickler_class = _make_pickler()
    return _pickler_class


def _cloudpickled(value: Any, on_buffer: Callable[[Any], None] | None) -> bytes:
    file = io.BytesIO()
    try:
        pickler()(file, protocol=5, buffer_callback=on_buffer).dump(value)
    except RecursionError:
        raise pickle.PicklingError(
            "the value is nested too deeply to be pickled; flatten it, or raise sys.setrecursionlimit"
        ) from None
    return file.getvalue()


def _make_pickler() -> Any:
    class Pickler(function_pickler.pickler()):  # type: ignore[misc]
        def reducer_override(self, obj: Any) -> Any:
            kind = type(obj)
            custom = _serializers.get(kind)
            if custom is not None:
                return _restore, (custom[1], custom[0](obj))
            if kind is not ModuleType and issubclass(kind, ModuleType):
                # A package whose module is an instance of a subclass: by its name, like any other.
                return importlib.import_module, (obj.__name__,)
            if kind.__module__ == "torch" and kind.__name__ in ("Tensor", "Parameter"):
                reduced = _reduce_tensor(obj)
                if reduced is not None:
                    return reduced
            return super().reducer_override(obj)

    return Pickler


def _restore(deserializer: Callable[[Any], Any], state: Any) -> Any:
    return deserializer(state)


def _reduce_tensor(tensor: Any) -> Any:
    """Return a dense CPU tensor as a numpy array over the same memory; None if torch must pickle it."""
    torch = sys.modules["torch"]
    plain = type(tensor) is torch.Tensor and tensor.device.type == "cpu" and tensor.layout is torch.strided
    if not plain or tensor.requires_grad or tensor.is_quantized or tensor.is_conj() or tensor.is_neg():
        return None
    try:
        array = tensor.detach().numpy()
    except (TypeError, RuntimeError):  # a dtype that numpy lacks, such as bfloat16
        view = tensor.detach().contiguous().view(torch.uint8) if tensor.dim() else None
        if view is None:
            return None
        return _tensor_from, (view.numpy(), str(tensor.dtype).removeprefix("torch."))
    return _tensor_from, (array, None)


def _tensor_from(array: Any, dtype: str | None) -> Any:
    import torch  # the value is a tensor, so its reader has torch

    with warnings.catch_warnings():
        # The tensor shares read-only memory, for which torch warns each time.
        warnings.simplefilter("ignore")
        tensor = torch.from_numpy(array)
    return tensor if dtype is None else tensor.view(getattr(torch, dtype))


def pack_function(function: Any) -> tuple[bytes, list[Any]]:
    """Pack a function or class by value, with the refs and handles in its closure."""
    outer = getattr(_collecting, "met", None)
    met: list[Any] = []
    _collecting.met = met
    try:
        return _cloudpickled(function, None), met
    finally:
        _collecting.met = outer


def unpack(data: Any) -> Any:
    """Unpack a value; arrays in it are read-only views of `data`."""
    first = data[0]
    if first != TABLE:
        return pickle.loads(data)
    view = memoryview(data).toreadonly()
    if type(data) is bytes:  # part of a message, so not aligned
        view = _aligned(view)
    _, count, length = _HEAD.unpack_from(view)
    at = _HEAD.size
    buffers = []
    for _ in range(count):
        start, size = _SLOT.unpack_from(view, at)
        buffers.append(view[start : start + size])
        at += _SLOT.size
    if not length:
        return bytes(buffers[0])
    return pickle.loads(view[at : at + length], buffers=buffers)


def _aligned(view: memoryview) -> memoryview:
    """Copy to an address that is a multiple of 64, as in shared memory: some array libraries require it."""
    import ctypes  # numpy has it already

    size = len(view)
    room = bytearray(size + ALIGNMENT)
    start = -ctypes.addressof(ctypes.c_char.from_buffer(room)) % ALIGNMENT
    copy = memoryview(room)[start : start + size]
    copy[:] = view
    return copy.toreadonly()


def is_plain(args: tuple[Any, ...]) -> bool:
    """True if all arguments are numbers, text or bytes, which contain no refs."""
    return _PLAIN.issuperset(map(type, args))
