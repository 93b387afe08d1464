"""An exception's state, read and written without running its constructor.

The constructors of user exceptions cannot be called again: they need arguments that were not kept, or they
log or count. Pickle's default (class, args) calls them anyway, so many exceptions cannot be passed between
processes. Skate makes an exception the way ``copy`` makes an object: it takes an empty instance from the
C-level ``__new__``, then sets ``args``, the C-level fields (``errno``, ``start``, ``value``, slots) and
``__dict__``.
"""

from __future__ import annotations

from types import BuiltinFunctionType, GetSetDescriptorType, MemberDescriptorType

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

# The chain and the traceback belong to one raise in one process; args and __dict__ are handled by name.
_NOT_STATE = frozenset(
    {"args", "__dict__", "__weakref__", "__traceback__", "__context__", "__cause__", "__suppress_context__"}
)


def native_base(cls: type) -> type:
    """Return the class whose C-level ``__new__`` is safe to call for `cls`.

    This is the nearest one along ``__base__``, the chain of memory layouts, not along the MRO: Python
    refuses ``MemoryError.__new__`` for a class whose first base is another exception.
    """
    base: type | None = cls
    while base is not None:
        if type(base.__dict__.get("__new__")) is BuiltinFunctionType:
            return base
        base = base.__base__
    return BaseException


def native_fields(cls: type) -> dict[str, Any]:
    """Return the fields outside ``__dict__`` (C members and slots), as name -> descriptor."""
    fields: dict[str, Any] = {}
    for base in cls.__mro__:
        # The only field of `object` is __class__; setting it would change the exception's class.
        if base is object:
            continue
        for name, descriptor in base.__dict__.items():
            if type(descriptor) in (MemberDescriptorType, GetSetDescriptorType) and name not in _NOT_STATE:
                fields.setdefault(name, descriptor)
    return fields


def is_group(exc: BaseException) -> bool:
    """Return True if this is an exception group (Python 3.11 and later)."""
    return hasattr(type(exc), "derive") and isinstance(getattr(exc, "exceptions", None), tuple)


def read_fields(exc: BaseException) -> dict[str, Any]:
    """Return the values of the native fields that are set."""
    values: dict[str, Any] = {}
    for name, descriptor in native_fields(type(exc)).items():
        try:
            value = descriptor.__get__(exc)
        except AttributeError:
            continue
        # An unset C field reads as None, but writing None back is not the same: OSError("x") would then
        # print as "[Errno None] None".
        if value is not None:
            values[name] = value
    return values


def read_dict(exc: BaseException) -> dict[str, Any]:
    """Return a copy of the instance's ``__dict__``, bypassing any ``__getattribute__`` of its class."""
    state: dict[str, Any] = dict(object.__getattribute__(exc, "__dict__"))
    notes = state.get("__notes__")
    if type(notes) is list:
        state["__notes__"] = list(notes)
    return state


def read_args(exc: BaseException) -> tuple[Any, ...]:
    """Return ``args`` as stored by BaseException, bypassing any property of that name."""
    args: tuple[Any, ...] = BaseException.args.__get__(exc)  # type: ignore[attr-defined]
    return args


def make(
    cls: type, new_args: tuple[Any, ...], fields: Mapping[str, Any], state: Mapping[str, Any]
) -> BaseException:
    """Return an instance of `cls` with this state. `new_args` becomes ``args`` and is all that the C-level
    ``__new__`` sees; no constructor written in Python runs."""
    exc: BaseException = native_base(cls).__new__(cls, *new_args)
    BaseException.args.__set__(exc, new_args)  # type: ignore[attr-defined]
    descriptors = native_fields(cls)
    for name, value in fields.items():
        descriptor = descriptors.get(name)
        if descriptor is not None:
            try:
                descriptor.__set__(exc, value)
            except (AttributeError, TypeError):
                # Read-only (the members of an exception group); __new__ has already set it.
                continue
    object.__getattribute__(exc, "__dict__").update(state)
    return exc


def new_args_of(exc: BaseException) -> tuple[Any, ...]:
    """Return the arguments of the C-level ``__new__`` for a copy of this exception."""
    if is_group(exc):
        return (exc.message, list(exc.exceptions))  # type: ignore[attr-defined]
    return read_args(exc)


def parts_of(exc: BaseException) -> tuple[type, tuple[Any, ...], dict[str, Any], dict[str, Any]]:
    """Return the arguments with which `make` copies this exception."""
    return type(exc), new_args_of(exc), read_fields(exc), read_dict(exc)


_PICKLE_HOOKS = ("__reduce__", "__reduce_ex__", "__getstate__", "__setstate__", "__getnewargs__")


def reduces_itself(cls: type) -> bool:
    """Return True if a class defines in Python how to pickle it (BaseException and OSError do so in C, by ``args``)."""
    for base in cls.__mro__:
        if base.__module__ not in ("builtins", "skate.exceptions") and any(
            hook in base.__dict__ for hook in _PICKLE_HOOKS
        ):
            return True
    return False
