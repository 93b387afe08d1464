"""Search for the part of a value that cannot be serialized, and for the path to it.

A failing `dumps` names the type of the culprit at best, not its position. So the value is taken apart as
pickle would do it, every part is tried separately, and the search continues in the parts that fail. A part
that fails although all of its own parts pass is a culprit. Wide containers are tried in halves, so that one
bad element among a million costs about twenty attempts. Attempts and time are limited, because an error is
waiting to be reported.
"""

from __future__ import annotations

import copyreg
import functools
import io
import pickle
import time
import types
from collections.abc import Callable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from typing import Any, NamedTuple

from skate.wire import function_pickler

Probe = Callable[[Any], object]

_DEPTH_MAX = 24
_PROBES_MAX = 3000
_WALK_S_MAX = 5.0
_TEXT_MAX = 200


class Part(NamedTuple):
    """One part of a value: its text in a path, its own name, and the part itself."""

    label: str
    name: str
    value: Any


class _Elements(Sequence[Part]):
    """The elements of a long sequence as parts, each created on access."""

    def __init__(self, values: Sequence[Any], start: int = 0) -> None:
        self.values = values
        self._start = start

    def __len__(self) -> int:
        return len(self.values)

    def __getitem__(self, index: Any) -> Any:
        if isinstance(index, slice):
            first, _, _ = index.indices(len(self.values))
            return _Elements(self.values[index], self._start + first)
        return _item(self._start + range(len(self.values))[index], self.values[index])


class Culprit(NamedTuple):
    """A value that cannot be serialized.

    `path` holds one readable step per level ("closure of f", "global cfg", ".sock"), `names` the plain names
    of the same steps, `parent` is the value that contains it (None at the top), `reason` is the error's text.
    """

    path: tuple[str, ...]
    obj: Any
    reason: str
    names: tuple[str, ...] = ()
    parent: Any = None

    def __str__(self) -> str:
        return f"{' -> '.join(self.path)}: {_type_name(self.obj)}"


def find_culprits(
    obj: Any,
    name: str | None = None,
    *,
    probe: Probe | None = None,
    depth: int = _DEPTH_MAX,
    limit: int = 5,
) -> list[Culprit]:
    """List the parts of `obj` that cannot be serialized; empty if there are none.

    Args:
        obj: the value to look into.
        name: its name in the caller's code; by default its own name, or its type's.
        probe: tries to serialize a value, and raises if that fails; cloudpickle by default.
        depth: the most levels to descend; a part that fails there is reported unchanged.
        limit: the most culprits to find.
    """
    walk = _Walk(probe or check_serializable, depth, limit)
    shown = name or own_name(obj)
    walk.visit(obj, (_root_label(obj, shown),), (shown,), None)
    return walk.culprits


def explain(obj: Any, name: str | None = None, *, probe: Probe | None = None) -> str:
    """Explain in a few lines why `obj` cannot be serialized, where the cause is, and what to do.

    Args:
        obj: the value that could not be serialized.
        name: its name in the caller's code.
        probe: as for `find_culprits`.
    """
    shown = name or own_name(obj)
    return describe(find_culprits(obj, shown, probe=probe), shown)


def describe(culprits: Sequence[Culprit], shown: str) -> str:
    """Describe the results of `find_culprits` for the value called `shown`, and the remedy."""
    if not culprits:
        return f"{shown} can be serialized"
    lines = [f"{shown} cannot be serialized, because of"]
    lines += [f"  {culprit} ({culprit.reason})" for culprit in culprits]
    lines.append(
        "Create it inside the task or the actor, or do not send it (for an instance: leave it out in "
        "__getstate__)."
    )
    return "\n".join(lines)


def own_name(obj: Any) -> str:
    """Return the name with which a function or a class was defined, or the type's name of any other value."""
    return getattr(obj, "__name__", None) or _type_name(obj)


class _NullWriter(io.RawIOBase):
    def writable(self) -> bool:
        return True

    def write(self, data: Any) -> int:
        return len(data)


def check_serializable(obj: Any) -> None:
    """Serialize a value and discard the bytes, without copying large buffers; raises cloudpickle's errors."""
    function_pickler.pickler()(_NullWriter(), protocol=5, buffer_callback=lambda buffer: None).dump(obj)


class _Walk:
    def __init__(self, probe: Probe, depth: int, limit: int) -> None:
        self._probe = probe
        self._depth = depth
        self._limit = limit
        self._probes = 0
        self._deadline_s = time.monotonic() + _WALK_S_MAX
        # id -> (value, True if everything below it has been reported). The value is kept alive, so that the
        # id of a temporary part is not reused.
        self._failed: dict[int, tuple[Any, bool]] = {}
        self.culprits: list[Culprit] = []

    def visit(self, obj: Any, path: tuple[str, ...], names: tuple[str, ...], parent: Any) -> bool:
        """Search one value; return True if its failure has been reported."""
        if id(obj) in self._failed:
            return self._failed[id(obj)][1]
        error = self._error(obj)
        if error is None:
            return False
        self._failed[id(obj)] = obj, False
        found = False
        for part in self._failing(self._parts_to_try(obj, error, len(path))):
            if len(self.culprits) >= self._limit:
                return True
            found = self.visit(part.value, (*path, part.label), (*names, part.name), obj) or found
        if not found:
            self.culprits.append(Culprit(path, obj, _reason(error), names, parent))
        self._failed[id(obj)] = obj, True
        return True

    def _parts_to_try(self, obj: Any, error: BaseException, level: int) -> Sequence[Part]:
        if level > self._depth:
            return ()
        listed = parts(obj)
        # If values are nested without end, the nest as a whole is the culprit.
        return () if len(listed) == 1 and _is_recursion(error) else listed

    def _failing(self, listed: Sequence[Part]) -> Iterator[Part]:
        if len(listed) <= 4:
            yield from listed
        elif self._error(_values(listed)) is not None:
            middle = len(listed) // 2
            yield from self._failing(listed[:middle])
            yield from self._failing(listed[middle:])

    def _error(self, obj: Any) -> BaseException | None:
        over_time = time.monotonic() > self._deadline_s
        if self._probes and (self._probes >= _PROBES_MAX or over_time):
            return None  # out of attempts: the current part is reported as the culprit
        self._probes += 1
        try:
            self._probe(obj)
        except Exception as error:  # pickling the user's classes may raise anything
            return error
        return None


def _values(listed: Sequence[Part]) -> list[Any]:
    return list(listed.values) if isinstance(listed, _Elements) else [part.value for part in listed]


def parts(obj: Any) -> Sequence[Part]:
    """Return the values that pickling `obj` would visit, named as its author would."""
    if type(obj) in (list, tuple):
        return _Elements(obj)
    for kind, take_apart in _BY_KIND:
        if isinstance(obj, kind):
            return list(take_apart(obj))
    if getattr(getattr(obj, "dtype", None), "hasobject", False) and hasattr(obj, "ravel"):
        return _Elements(obj.ravel().tolist())
    if type(obj).__module__.partition(".")[0] == "pandas" and hasattr(obj, "columns"):
        return [_item(column, obj[column].to_numpy()) for column in obj.columns]
    return list(_reduced_parts(obj))


def _function_parts(function: types.FunctionType) -> Iterator[Part]:
    for name, cell in zip(function.__code__.co_freevars, function.__closure__ or (), strict=True):
        try:
            yield Part(f"variable {name}", name, cell.cell_contents)
        except ValueError:
            continue  # the cell is not filled yet
    for name in sorted(_global_names(function.__code__)):
        if name in function.__globals__:
            yield Part(f"global {name}", name, function.__globals__[name])
    positional = function.__code__.co_varnames[: function.__code__.co_argcount]
    defaults = function.__defaults__ or ()
    for name, value in zip(positional[len(positional) - len(defaults) :], defaults, strict=True):
        yield Part(f"default of {name}", name, value)
    for name, value in (function.__kwdefaults__ or {}).items():
        yield Part(f"default of {name}", name, value)
    try:
        annotations = function.__annotations__
    except Exception:  # evaluating them runs the user's code, and they are rarely the cause
        annotations = {}
    for name, value in annotations.items():
        yield Part(f"annotation of {name}", name, value)
    yield from _attributes(vars(function))


def _global_names(code: types.CodeType) -> set[str]:
    # Imported here because only errors need it, and it costs start-up time.
    import dis

    names = {
        str(instruction.argval)
        for instruction in dis.get_instructions(code)
        if instruction.opname in ("LOAD_GLOBAL", "STORE_GLOBAL", "DELETE_GLOBAL")
    }
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            names |= _global_names(constant)
    return names


def _method_parts(method: types.MethodType) -> Iterator[Part]:
    yield Part(".__self__", "__self__", method.__self__)
    yield Part(_root_label(method.__func__, own_name(method)), own_name(method), method.__func__)


def _partial_parts(call: functools.partial[Any]) -> Iterator[Part]:
    yield Part(_root_label(call.func, own_name(call.func)), own_name(call.func), call.func)
    for index, value in enumerate(call.args):
        yield Part(f"argument {index}", str(index), value)
    for name, value in call.keywords.items():
        yield Part(f"argument {name}", name, value)
    yield from _attributes(vars(call))


# Attributes that every class has, and those that are rebuilt rather than pickled.
_CLASS_OWN = {"__dict__", "__weakref__", "__module__", "__doc__", "__qualname__"}
_CLASS_OWN |= {"__abstractmethods__", "_abc_impl"}


def _class_parts(cls: type) -> Iterator[Part]:
    for name, value in vars(cls).items():
        if name in _CLASS_OWN or isinstance(value, (types.MemberDescriptorType, types.GetSetDescriptorType)):
            continue
        if isinstance(value, property):
            for function in filter(None, (value.fget, value.fset, value.fdel)):
                yield Part(f".{name}", name, function)
        else:
            yield Part(f".{name}", name, getattr(value, "__func__", value))
    for base in cls.__bases__:
        yield Part(f"base class {base.__name__}", base.__name__, base)


def _mapping_parts(mapping: Mapping[Any, Any]) -> Iterator[Part]:
    for key, value in mapping.items():
        yield Part(f"key {_short(key)}", _short(key), key)
        yield _item(key, value)
    yield from _attributes(getattr(mapping, "__dict__", {}))


def _sequence_parts(sequence: Sequence[Any]) -> Iterator[Part]:
    fields = getattr(type(sequence), "_fields", ())
    for index, value in enumerate(sequence):
        if index < len(fields):
            yield Part(f".{fields[index]}", str(fields[index]), value)
        else:
            yield _item(index, value)
    yield from _attributes(getattr(sequence, "__dict__", {}))


def _set_parts(members: AbstractSet[Any]) -> Iterator[Part]:
    for value in members:
        yield Part(f"element {_short(value)}", _short(value), value)


def _cell_parts(cell: types.CellType) -> Iterator[Part]:
    try:
        yield Part("contents", "contents", cell.cell_contents)
    except ValueError:
        return


def _no_parts(obj: Any) -> Iterator[Part]:
    return iter(())


# Types with their own pickling rules, for which `__reduce_ex__` does not help; the first match counts.
_BY_KIND: tuple[tuple[Any, Callable[[Any], Iterator[Part]]], ...] = (
    (types.FunctionType, _function_parts),
    (types.MethodType, _method_parts),
    (functools.partial, _partial_parts),
    (type, _class_parts),
    (types.CellType, _cell_parts),
    ((types.ModuleType, types.CodeType, str, bytes, bytearray, memoryview), _no_parts),
    ((dict, types.MappingProxyType), _mapping_parts),
    ((list, tuple), _sequence_parts),
    ((set, frozenset), _set_parts),
)


def _reduced_parts(obj: Any) -> Iterator[Part]:
    """Return the parts of an instance, by the protocol that pickle uses."""
    reduce = copyreg.dispatch_table.get(type(obj))
    try:
        reduced = reduce(obj) if reduce is not None else obj.__reduce_ex__(5)
    except Exception:  # the instance refuses: then it is the culprit itself, and its error is already known
        return
    if not isinstance(reduced, tuple):
        return
    padded: list[Any] = [*reduced, None, None, None]
    function, args, state, items, pairs = padded[:5]
    named = getattr(function, "__name__", "")
    if named not in ("__newobj__", "__newobj_ex__", "_reconstructor"):
        yield Part(f"constructor {named or _type_name(function)}", named, function)
    classes = [value for value in args or () if isinstance(value, type)]
    for index, value in enumerate(args or ()):
        if not isinstance(value, type):
            yield Part(f"constructor argument {index}", str(index), value)
    yield from _state_parts(state)
    yield from (_item(index, value) for index, value in enumerate(items or ()))
    for key, value in pairs or ():
        yield Part(f"key {_short(key)}", _short(key), key)
        yield _item(key, value)
    # Last, because an instance's contents are more likely the cause than its class.
    for cls in classes:
        yield Part(f"class {cls.__name__}", cls.__name__, cls)


def _state_parts(state: Any) -> Iterator[Part]:
    if isinstance(state, dict):
        yield from _attributes(state)
    elif (
        isinstance(state, tuple)
        and len(state) == 2
        and all(isinstance(half, (dict, type(None))) for half in state)
    ):
        # The form of an instance with __slots__: its __dict__, then its slots.
        yield from _attributes(state[0] or {})
        yield from _attributes(state[1] or {})
    elif state is not None:
        yield Part("state", "state", state)


def _attributes(named: Mapping[Any, Any]) -> Iterator[Part]:
    for name, value in named.items():
        yield Part(f".{name}", str(name), value)


def _item(key: Any, value: Any) -> Part:
    return Part(f"[{_short(key)}]", _short(key), value)


def _root_label(obj: Any, name: str) -> str:
    return f"closure of {name}" if isinstance(obj, types.FunctionType) else name


def _type_name(obj: Any) -> str:
    return type(obj).__qualname__


def _short(value: Any) -> str:
    try:
        text = repr(value)
    except Exception:  # a user's __repr__ must not hide the error that is being explained
        text = f"<{_type_name(value)}>"
    return text if len(text) <= 40 else f"{text[:37]}..."


def _is_recursion(error: BaseException) -> bool:
    # cloudpickle wraps it in an error of its own.
    return isinstance(error, RecursionError) or isinstance(error.__cause__, RecursionError)


def _reason(error: BaseException) -> str:
    if _is_recursion(error):
        return "it is nested too deeply"
    if isinstance(error, pickle.PicklingError) and error.__cause__ is not None:
        error = error.__cause__
    text = " ".join(str(error).split()) or type(error).__name__
    return text if len(text) <= _TEXT_MAX else f"{text[: _TEXT_MAX - 3]}..."
