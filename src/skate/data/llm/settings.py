"""Settings: named, typed values, checked when they are passed and when they are set."""

from __future__ import annotations

import copy
import difflib
import inspect
import types
from collections.abc import Mapping
from typing import Any, Literal, TypeVar, Union, get_args, get_origin, get_type_hints

Self = TypeVar("Self", bound="Settings")

_EMPTY = inspect.Parameter.empty


class Settings:
    """Base of configurations: the annotations of a class are its fields, their values the defaults.

    Raises ValueError for a field that is missing, unknown or of a wrong type. The model_* methods are as in
    pydantic, which users may expect here; pydantic itself is not required.
    """

    _fields: dict[str, Any] = {}
    _defaults: dict[str, Any] = {}

    def __init_subclass__(cls) -> None:
        hints = get_type_hints(cls)
        cls._fields = {name: hint for name, hint in hints.items() if not name.startswith("_")}
        cls._defaults = {name: getattr(cls, name) for name in cls._fields if hasattr(cls, name)}
        keyword = inspect.Parameter.KEYWORD_ONLY
        cls.__signature__ = inspect.Signature(  # type: ignore[attr-defined]
            [
                inspect.Parameter(name, keyword, default=cls._defaults.get(name, _EMPTY), annotation=hint)
                for name, hint in cls._fields.items()
            ]
        )

    def __init__(self, **given: Any) -> None:
        kind = type(self).__name__
        for name in given:
            if name not in self._fields:
                near = difflib.get_close_matches(name, self._fields, 1)
                meant = f"; did you mean {near[0]}?" if near else ""
                raise ValueError(f"{kind} has no field {name}{meant} It has {', '.join(self._fields)}")
        missing = [name for name in self._fields if name not in given and name not in self._defaults]
        if missing:
            raise ValueError(f"{kind} is missing {' and '.join(missing)}")
        for name, hint in self._fields.items():
            value = given[name] if name in given else copy.copy(self._defaults[name])
            if name in given:
                value = checked(value, hint, f"{name} of {kind}")
            object.__setattr__(self, name, value)
        self._check()

    def __setattr__(self, name: str, value: Any) -> None:
        kind = type(self).__name__
        if name not in self._fields:
            raise ValueError(f"{kind} has no field {name}; its fields are {', '.join(self._fields)}")
        before = getattr(self, name)
        object.__setattr__(self, name, checked(value, self._fields[name], f"{name} of {kind}"))
        try:
            self._check()
        except ValueError:
            object.__setattr__(self, name, before)
            raise

    def _check(self) -> None:
        """Raise ValueError for inconsistent or out-of-range values."""

    @classmethod
    def model_validate(cls: type[Self], given: Any) -> Self:
        """Build settings from a mapping, or from settings of the same kind."""
        if isinstance(given, cls):
            return given.model_copy()
        if not isinstance(given, Mapping):
            raise ValueError(f"{cls.__name__} must be built from a mapping, got {given!r:.80}")
        return cls(**given)

    @classmethod
    def from_file(cls: type[Self], path: str, **kwargs: Any) -> Self:
        """Load settings from a YAML or JSON file; `kwargs` override its values."""
        with open(path) as file:
            return cls.parse_yaml(file, **kwargs)

    @classmethod
    def parse_yaml(cls: type[Self], file: Any, **kwargs: Any) -> Self:
        """Load settings from YAML, as text or as an open file; `kwargs` override its values."""
        from skate.installed import require  # only settings from files need it

        found = require("yaml", "a YAML file", "pyyaml").safe_load(file)
        return cls.model_validate({**found, **kwargs} if kwargs and isinstance(found, Mapping) else found)

    def model_dump(self, *, exclude_none: bool = False) -> dict[str, Any]:
        """Return the fields and their values."""
        found = {name: _dumped(getattr(self, name)) for name in self._fields}
        return {name: value for name, value in found.items() if not exclude_none or value is not None}

    def model_copy(self: Self, *, update: Mapping[str, Any] | None = None) -> Self:
        """Return a copy with other values for some fields."""
        values = {name: getattr(self, name) for name in self._fields}
        return type(self)(**{**values, **(update or {})})

    def __eq__(self, other: object) -> bool:
        return type(other) is type(self) and vars(other) == vars(self)

    __hash__ = None  # type: ignore[assignment]  # they can be changed

    def __repr__(self) -> str:
        shown = ", ".join(f"{name}={getattr(self, name)!r}" for name in self._fields)
        return f"{type(self).__name__}({shown})"


def _dumped(value: Any) -> Any:
    if isinstance(value, Settings):
        return value.model_dump()
    return dict(value) if isinstance(value, dict) else value


def checked(value: Any, hint: Any, where: str) -> Any:
    """Convert a value to the annotated type; numbers may be text, tuples may be lists. Raises ValueError for other
    values.
    """
    found = _fitted(value, hint)
    if found is _EMPTY:
        raise ValueError(f"{where} must be {_hint_text(hint)}, got {value!r:.100}")
    return found


def _fitted(value: Any, hint: Any) -> Any:
    """Convert a value to a type, or return _EMPTY if it does not fit."""
    origin, arguments = get_origin(hint), get_args(hint)
    if hint is Any:
        return value
    if origin in (Union, types.UnionType):
        return _one_of(value, arguments)
    if origin is Literal:
        return value if value in arguments else _EMPTY
    if origin is tuple:
        if not isinstance(value, (tuple, list)) or len(value) != len(arguments):
            return _EMPTY
        found = tuple(_fitted(each, part) for each, part in zip(value, arguments, strict=True))
        return _EMPTY if _EMPTY in found else found
    if origin is dict:
        if not isinstance(value, Mapping):
            return _EMPTY
        values = {key: _fitted(each, arguments[1]) for key, each in value.items()}
        bad = any(each is _EMPTY for each in values.values()) or not all(
            isinstance(key, str) for key in values
        )
        # The dict itself, not a copy: the caller may still add to it.
        return _EMPTY if bad else value
    if origin is type:
        return value if isinstance(value, type) else _EMPTY
    return _scalar(value, hint)


def _one_of(value: Any, hints: tuple[Any, ...]) -> Any:
    for hint in hints:  # values of the right type stay unchanged
        if isinstance(hint, type) and get_origin(hint) is None and type(value) is hint:
            return value
    for hint in hints:
        found = _fitted(value, hint)
        if found is not _EMPTY:
            return found
    return _EMPTY


def _scalar(value: Any, hint: Any) -> Any:
    if hint in (int, float):
        if isinstance(value, bool) or not (
            isinstance(value, (int, float, str)) or hasattr(value, "__index__")
        ):
            return _EMPTY
        try:
            number = float(value) if hint is float else int(value)
        except (ValueError, OverflowError):
            return _EMPTY
        return number if isinstance(value, str) or number == value else _EMPTY
    return value if isinstance(value, hint) else _EMPTY


def _hint_text(hint: Any) -> str:
    origin, arguments = get_origin(hint), get_args(hint)
    if origin in (Union, types.UnionType):
        return " or ".join(_hint_text(each) for each in arguments)
    if origin is Literal:
        return "one of " + ", ".join(sorted(map(repr, arguments)))
    if origin is tuple:
        return f"({', '.join(map(_hint_text, arguments))})"
    if origin is type:
        return "a class"
    names = {
        int: "an integer",
        float: "a number",
        str: "a string",
        bool: "True or False",
        type(None): "None",
    }
    return names.get(hint, "a dict" if origin is dict else str(getattr(hint, "__name__", hint)))
