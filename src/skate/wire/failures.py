"""Exceptions on the wire: packed so that they always arrive, regardless of their contents.

Pickle's way with exceptions (call the class with ``args``) fails for those whose constructor takes other
arguments, and one attribute that cannot be pickled (a lock, a socket) loses everything. Here an exception
travels in parts: its class, its ``args``, its fields, its ``__dict__``, each of its chained exceptions, and a
record in plain text. A part that cannot be packed is replaced by a stand-in with its repr. If the class
itself cannot be sent, or is unknown to the receiver, the receiver creates a class of the same name from its
nearest known base, so that ``except ValueError`` still works.
"""

from __future__ import annotations

import os
import pickle
import sys
from types import new_class

from skate.core.error import exception_state
from skate.core.error.task_error import RayTaskError
from skate.wire import function_pickler, values

TYPE_CHECKING = False
if TYPE_CHECKING:
    import traceback
    from typing import Any

_SKATE_DIR = os.path.dirname(os.path.dirname(os.path.abspath(__file__))) + os.sep

# Longer chains are truncated: a retry loop can chain thousands.
_CHAIN_DEPTH_MAX = 16

_TEXT_BYTES_MAX = 1_000_000

# Errors that a user's exception may raise while it is packed, read or printed. SystemExit would end the
# process that is reporting an error; KeyboardInterrupt is not included, because it cancels the task.
_ANYTHING = (Exception, SystemExit, GeneratorExit)


# ---------------------------------------------------------------- text


def format_remote_traceback(exc: BaseException) -> str:
    """Return the traceback of `exc` as Python prints it, with causes, contexts, notes and groups, without
    Skate's frames."""
    # Takes 6 ms to import, and only failures need it.
    import traceback

    try:
        rendering = traceback.TracebackException.from_exception(exc, compact=True)
        _cut_own_frames(rendering, isinstance(exc, RayTaskError), set())
        return "".join(rendering.format())
    except _ANYTHING as why:
        # The exception's class is user code and its __str__, __cause__ or notes can raise anything; a failure
        # to describe a failure must not replace it.
        return f"{type(exc).__name__}: (its traceback could not be written: {type(why).__name__})\n"


def _cut_own_frames(rendering: traceback.TracebackException, has_own_text: bool, seen: set[int]) -> None:
    if id(rendering) in seen:
        return
    seen.add(id(rendering))
    kept = [frame for frame in rendering.stack if not frame.filename.startswith(_SKATE_DIR)]
    # If no frames are left, Skate's own code raised, so its frames are relevant, unless it passed on the error of
    # a task, whose text has the frames of that.
    if kept or has_own_text:
        rendering.stack[:] = kept
    nested = [rendering.__cause__, rendering.__context__, *(getattr(rendering, "exceptions", None) or ())]
    for inner in nested:
        if inner is not None:
            _cut_own_frames(inner, False, seen)


def _safe(render: Any, value: object) -> str:
    try:
        text: str = render(value)
    except _ANYTHING as why:
        # repr and str of a user's object run user code, which may raise anything.
        return f"<{type(value).__name__}: {render.__name__}() raised {type(why).__name__}>"
    if len(text) > _TEXT_BYTES_MAX:
        return f"{text[:_TEXT_BYTES_MAX]}... ({len(text) - _TEXT_BYTES_MAX} characters more)"
    return text


# ---------------------------------------------------------------- stand-ins


class Unpicklable:
    """Replaces a value that could not be sent with an exception; prints like the value."""

    __slots__ = ("reason", "text")

    def __init__(self, text: str, reason: str) -> None:
        self.text = text
        self.reason = reason

    def __repr__(self) -> str:
        return self.text

    def __reduce__(self) -> tuple[type[Unpicklable], tuple[str, str]]:
        return Unpicklable, (self.text, self.reason)


class RemoteTraceback(Exception):
    """The traceback of an exception in the process that raised it, as text; set as its ``__cause__``."""

    def __str__(self) -> str:
        return f"\n{self.args[0]}" if self.args else ""


# ---------------------------------------------------------------- packing


def pack_exception(exc: BaseException, tb_text: str = "") -> bytes:
    """Pack any `exc` as bytes for `unpack_exception`; never raises.

    `tb_text` is its traceback as text (`format_remote_traceback`), shown on arrival as its cause if the
    exception has none (a RayTaskError does).
    """
    try:
        return _pack(exc, tb_text, (), {})
    except _ANYTHING as why:
        # The class may override basic behaviour (__getattribute__, __class__), and groups may be nested
        # deeper than the stack; the name and the traceback still arrive.
        text = f"{type(exc).__name__} (its state is lost: {type(why).__name__} while packing it)"
        cls = type(exc)
        record = {"kind": "exception", "tb": tb_text, "module": cls.__module__, "name": cls.__qualname__}
        bases = [(b.__module__, b.__qualname__) for b in cls.__mro__[1:-1] if b.__module__ == "builtins"]
        return pickle.dumps(
            {
                **record,
                "bases": bases,
                "str": text,
                "repr": text,
                "args": [],
                "notes": [],
                "body": None,
                "suppress": False,
            },
            5,
        )


def _pack(exc: BaseException, tb_text: str, path: tuple[int, ...], done: dict[int, bytes]) -> bytes:
    origin = exc.__dict__.get("_origin") if isinstance(exc, RayTaskError) else None
    if isinstance(origin, RayTaskError):
        packed = {"kind": "twin", "parts": [_pack(origin, "", (*path, id(exc)), done)]}
        packed["notes"] = _notes(exc)
        return pickle.dumps(packed, 5)
    inner = (*path, id(exc))
    record: dict[str, Any] = {"kind": "exception", "tb": tb_text, **_describe(exc)}
    record["body"] = _pack_body(exc, inner, done)
    for name in ("__cause__", "__context__"):
        linked = getattr(exc, name, None)
        if isinstance(linked, BaseException) and id(linked) not in inner and len(inner) < _CHAIN_DEPTH_MAX:
            # A cause is nearly always also the context; it is then packed once for both.
            if id(linked) not in done:
                done[id(linked)] = _pack(linked, "", inner, done)
            record[name] = done[id(linked)]
    record["suppress"] = exc.__suppress_context__
    return pickle.dumps(record, 5)


def _describe(exc: BaseException) -> dict[str, Any]:
    cls = type(exc)
    bases = []
    for base in cls.__mro__[1:]:
        if issubclass(base, BaseException) and _travels_by_name(base):
            bases.append((base.__module__, base.__qualname__))
    return {
        "module": cls.__module__,
        "name": cls.__qualname__,
        "bases": bases,
        "str": _safe(str, exc),
        "repr": _safe(repr, exc),
        "args": _pack_values(exception_state.read_args(exc)),
        "notes": _notes(exc),
    }


def _notes(exc: BaseException) -> list[str]:
    notes = exception_state.read_dict(exc).get("__notes__", ())
    return [note if type(note) is str else _safe(str, note) for note in notes] if type(notes) is list else []


def _travels_by_name(cls: type) -> bool:
    module = sys.modules.get(cls.__module__)
    return cls.__module__ != "__main__" and getattr(module, cls.__qualname__, None) is cls


def _pack_body(exc: BaseException, path: tuple[int, ...], done: dict[int, bytes]) -> bytes | None:
    """Return the exception in parts, or None if its class cannot be sent."""
    cls = type(exc)
    try:
        whole = _dumps(exc) if exception_state.reduces_itself(cls) else None
        if values.has_serializer(cls):
            whole = values.pack_function(exc)[0]
        if whole is not None:
            pickle.loads(whole)
    except _ANYTHING:
        # A user's __reduce__ may fail in any way, here or on arrival; the parts are the alternative.
        whole = None
    try:
        packed_class = _dumps(cls)
    except _ANYTHING:
        # A class defined in a function includes the function's closure, which can contain anything.
        return None
    state = exception_state.read_dict(exc)
    cause: bytes | None = None
    if isinstance(exc, RayTaskError):
        cause = _pack(exc.cause, "", path, done)
        state.pop("cause", None)
        new_args: list[bytes | None] = [
            _pack_value(a) if a is not exc.cause else None for a in exception_state.read_args(exc)
        ]
    else:
        new_args = [*_pack_values(exception_state.read_args(exc))]
    fields = exception_state.read_fields(exc)
    # The object of an AttributeError can be of any size; Python's own pickling drops it too.
    if isinstance(exc, AttributeError):
        fields.pop("obj", None)
    group = None
    if exception_state.is_group(exc):
        group = [_pack(e, "", path, done) for e in exc.exceptions]  # type: ignore[attr-defined]
        new_args = [_pack_value(exc.message)]  # type: ignore[attr-defined]
        fields.pop("exceptions", None)
    return pickle.dumps(
        {
            "whole": whole,
            "class": packed_class,
            "args": new_args,
            "fields": {name: _pack_value(value) for name, value in fields.items()},
            "state": {name: _pack_value(value) for name, value in state.items()},
            "group": group,
            "cause": cause,
        },
        5,
    )


def _dumps(value: object) -> bytes:
    return function_pickler.dumps(value, 5)


def _pack_values(values: tuple[Any, ...]) -> list[bytes]:
    return [_pack_value(value) for value in values]


def _pack_value(value: object) -> bytes:
    try:
        packed = _dumps(value)
        # Any process can read plain values; others are tested here, where they fail for the same reasons as
        # in the receiver (a constructor that takes more than args).
        if not isinstance(value, (str, bytes, int, float, bool, type(None))):
            pickle.loads(packed)
        return packed
    except _ANYTHING as why:
        # Attributes of a user's exception may refuse to be pickled in any way.
        return pickle.dumps(Unpicklable(_safe(repr, value), f"{type(why).__name__}: {_safe(str, why)}"), 5)


# ---------------------------------------------------------------- unpacking


def unpack_exception(packed: bytes) -> BaseException:
    """Return the exception that `pack_exception` packed, or a faithful stand-in; raises only for bytes from
    another source."""
    record: dict[str, Any] = pickle.loads(packed)
    if record["kind"] == "twin":
        origin = unpack_exception(record["parts"][0])
        if not isinstance(origin, RayTaskError):
            return origin
        twin = origin.as_instanceof_cause()
        _set_notes(twin, record["notes"])
        return twin
    exc = _unpack_body(record["body"]) or _stand_in(record)
    _set_notes(exc, record["notes"])
    links: dict[int, BaseException] = {}
    # Setting a cause also suppresses the context, so the flag comes last.
    for name in ("__context__", "__cause__"):
        if name in record:
            # A cause is nearly always also the context, as the same bytes; unpacking both at every link of a
            # chain would take time exponential in its length.
            key = id(record[name])
            if key not in links:
                links[key] = unpack_exception(record[name])
            _set_link(exc, name, links[key])
    if record["tb"] and "__cause__" not in record and not isinstance(exc, RayTaskError):
        _set_link(exc, "__cause__", RemoteTraceback(record["tb"]))
    else:
        _set_link(exc, "__suppress_context__", record["suppress"])
    return exc


def _set_link(exc: BaseException, name: str, value: object) -> None:
    # Bypasses the class's own __setattr__, which raises for frozen dataclasses.
    getattr(BaseException, name).__set__(exc, value)


def _set_notes(exc: BaseException, notes: list[str]) -> None:
    if notes:
        object.__getattribute__(exc, "__dict__")["__notes__"] = list(notes)


def _unpack_body(packed: bytes | None) -> BaseException | None:
    """Return the exception itself, or None if this process cannot create one of its class."""
    if packed is None:
        return None
    body: dict[str, Any] = pickle.loads(packed)
    if body["whole"] is not None:
        try:
            whole = pickle.loads(body["whole"])
            if isinstance(whole, BaseException):
                return whole
        except _ANYTHING:
            # The user's own pickling failed here but not in the sender; use the parts.
            pass
    try:
        cls = pickle.loads(body["class"])
        args = tuple(None if value is None else _load(value) for value in body["args"])
        state = {name: _load(value) for name, value in body["state"].items()}
        if body["group"] is not None:
            args = (*args, [unpack_exception(member) for member in body["group"]])
        if body["cause"] is not None:
            state["cause"] = cause = unpack_exception(body["cause"])
            args = tuple(cause if i == 2 else value for i, value in enumerate(args))
        fields = {name: _load(value) for name, value in body["fields"].items()}
        return exception_state.make(cls, args, fields, state)
    except _ANYTHING:
        # The class's module is not installed here, or its metaclass or __new__ refuses: use the stand-in.
        return None


def _load(packed: bytes) -> Any:
    try:
        return pickle.loads(packed)
    except _ANYTHING as why:
        # A class that this process lacks or cannot instantiate; the rest still arrives.
        return Unpicklable("<value unknown here>", f"{type(why).__name__}: {why}")


def _stand_in(record: dict[str, Any]) -> BaseException:
    bases = _known_bases(record["bases"])
    name = record["name"].rpartition(".")[2]

    def fill(namespace: dict[str, Any]) -> None:
        namespace.update(
            __module__=record["module"],
            __qualname__=record["name"],
            __doc__=f"Stands for {record['module']}.{record['name']}, which is unknown in this process.",
            __str__=lambda self: self._stand_in_for["str"],
            __repr__=lambda self: self._stand_in_for["repr"],
            __reduce__=lambda self: (_stand_in, (self._stand_in_for,)),
        )

    args = tuple(_load(value) for value in record["args"])
    for some in (bases, bases[:1], (Exception,)):
        try:
            cls = new_class(name, some, {}, fill)
            return exception_state.make(cls, args, {}, {"_stand_in_for": record})
        except _ANYTHING:
            # Bases that were compatible in the sender may conflict here (layouts, metaclasses, __new__).
            continue
    raise AssertionError("a subclass of Exception can always be created")


def _known_bases(names: list[tuple[str, str]]) -> tuple[type, ...]:
    """Return the nearest of these classes that this process has, without bases of listed ones."""
    known: list[type] = []
    for module_name, name in names:
        module = sys.modules.get(module_name)
        cls = getattr(module, name, None)
        if not isinstance(cls, type) or not issubclass(cls, BaseException):
            continue
        if not any(issubclass(nearer, cls) for nearer in known):
            known.append(cls)
    return tuple(known) or (Exception,)
