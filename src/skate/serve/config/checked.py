"""The base class of settings. It validates values and suggests the nearest name for a misspelt one."""

from __future__ import annotations

import dataclasses
import enum
import types
import typing
from collections.abc import Collection
from typing import Any, TypeVar, get_args, get_origin

from skate.serve.config.wrong_field import WrongField

R = TypeVar("R", bound="Checked")


def nearest(name: str, known: typing.Iterable[str]) -> str:
    """Return `; did you mean ...?`, or a full stop if no known name is near."""
    import difflib  # takes 4 ms and is needed only for errors

    listed = list(known)
    near = difflib.get_close_matches(name, listed, n=1, cutoff=0.55) or [
        each for each in listed if each.startswith(name)
    ]
    return f"; did you mean {near[0]!r}?" if near else "."


class _Made(type):
    """A metaclass that raises ValueError for unknown and missing fields, with the nearest name."""

    @property
    def model_fields(cls) -> dict[str, Any]:
        """The fields of the class by name."""
        return dict(cls.__dict__.get("__dataclass_fields__", {}))

    def __call__(cls, *args: Any, **kwargs: Any) -> Any:
        if not args:
            fields = cls.__dict__.get("__dataclass_fields__", {})
            for name in kwargs:
                if name not in fields:
                    raise WrongField(
                        f"{cls.__name__} has no field {name!r}{nearest(name, fields)} Extra inputs are not permitted. "
                        f"The fields are: {', '.join(fields)}",
                        (name,),
                    )
            missing = [
                each.name
                for each in fields.values()
                if each.default is dataclasses.MISSING
                and each.default_factory is dataclasses.MISSING
                and each.name not in kwargs
            ]
            if missing:
                raise WrongField(f"{cls.__name__} requires {', '.join(missing)}. Field required")
        made = super().__call__(*args, **kwargs)
        made.__dict__["_given"] = frozenset(kwargs)
        return made


class Checked(metaclass=_Made):
    """The base class of records: created by keyword, compared by value, converted to plain data by `model_dump()`.

    Subclasses are dataclasses with `kw_only=True`. Raises ValueError, naming the field, for invalid values.
    """

    #: Reject unknown fields; the schemas of files do.
    _strict = True

    def __post_init__(self) -> None:
        hints = _hints(type(self))
        for field in dataclasses.fields(self):  # type: ignore[arg-type]
            value = getattr(self, field.name)
            try:
                fitted = _fitted(value, hints[field.name], type(self), field.name)
            except WrongField as error:
                raise error.inside(field.name) from None
            object.__setattr__(self, field.name, fitted)
        try:
            self.check()
        except WrongField:
            raise
        except ValueError as error:
            raise WrongField(str(error)) from None

    def check(self) -> None:
        """Validate the fields together; subclasses override this and raise ValueError."""

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()

    @classmethod
    def model_validate(cls: type[R], value: Any) -> R:
        """Build a record from a record or a dict."""
        if isinstance(value, cls):
            return value
        if isinstance(value, Checked):
            value = value.model_dump()
        if not isinstance(value, dict):
            raise WrongField(f"{cls.__name__} must be a dict, got a {type(value).__name__}: {value!r:.80}")
        for name in value:
            if not isinstance(name, str):
                raise WrongField(f"{cls.__name__} has no field {name!r:.80}: field names must be strings")
        made: R = cls(**value)
        return made

    parse_obj = model_validate

    @classmethod
    def model_validate_json(cls: type[R], json_data: str | bytes, **_: Any) -> R:
        """Build a record from JSON."""
        import json  # imported here because it is rarely needed

        try:
            return cls.model_validate(json.loads(json_data))
        except json.JSONDecodeError as error:
            raise WrongField(f"{cls.__name__}: Invalid JSON: {error}") from None

    @property
    def model_fields_set(self) -> set[str]:
        """The fields that were set explicitly."""
        return set(self.__dict__.get("_given", ()))

    def model_dump(
        self,
        *,
        exclude_unset: bool = False,
        include: Collection[str] | None = None,
        exclude: Collection[str] | None = None,
        mode: str = "python",
        **_: Any,
    ) -> dict[str, Any]:
        """Return the fields as a dict of plain data; with `exclude_unset`, without unset fields at their defaults.

        `include` and `exclude` name fields.
        """
        given = self.model_fields_set
        if len(given) == len(dataclasses.fields(self)):  # type: ignore[arg-type]  # merged records set all fields
            given = set()
        return {
            field.name: _plain(getattr(self, field.name), exclude_unset)
            for field in dataclasses.fields(self)  # type: ignore[arg-type]
            if (not exclude_unset or field.name in given or not _is_default(self, field))
            and (include is None or field.name in include)
            and field.name not in (exclude or ())
        }

    def model_dump_json(self, **options: Any) -> str:
        """Return the fields as JSON."""
        import json  # imported here because it is rarely needed

        return json.dumps(self.model_dump(**options), default=str)

    json = model_dump_json

    def model_copy(self: R, *, update: dict[str, Any] | None = None, **_: Any) -> R:
        """Return a copy with some fields changed."""
        made: R = dataclasses.replace(self, **(update or {}))  # type: ignore[type-var]
        made.__dict__["_given"] = frozenset(self.model_fields_set | set(update or {}))
        return made

    copy = model_copy
    dict = model_dump


def _is_default(record: Any, field: Any) -> bool:
    value = getattr(record, field.name)
    if field.default is not dataclasses.MISSING:
        return bool(field.default == value)
    return field.default_factory is not dataclasses.MISSING and bool(field.default_factory() == value)


def _plain(value: Any, exclude_unset: bool) -> Any:
    if isinstance(value, Checked):
        return value.model_dump(exclude_unset=exclude_unset)
    if isinstance(value, enum.Enum):
        return value.value
    if isinstance(value, dict):
        return {key: _plain(each, exclude_unset) for key, each in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(each, exclude_unset) for each in value]
    return value


_known_hints: dict[type, dict[str, Any]] = {}


def _hints(cls: type) -> dict[str, Any]:
    found = _known_hints.get(cls)
    if found is None:
        found = _known_hints[cls] = typing.get_type_hints(cls)
    return found


def _fitted(value: Any, hint: Any, cls: type, name: str) -> Any:
    """Convert a value to the annotated type. Raises ValueError if that is impossible."""
    origin = get_origin(hint)
    if hint is Any or hint is object:
        return value
    if origin in (typing.Union, types.UnionType):
        options = get_args(hint)
        if value is None and type(None) in options:
            return None
        last: Exception | None = None
        for option in options:
            if option is type(None):
                continue
            try:
                return _fitted(value, option, cls, name)
            except ValueError as error:
                last = error
        assert last is not None
        raise last
    wrong = WrongField(
        f"{cls.__name__}.{name} must be {_words(hint)}, got {value!r:.80}. "
        f"Input should be {_input(hint)}{_no_member(value, hint)}"
    )
    if origin is typing.Literal:
        if value in get_args(hint):
            return value
        raise wrong
    if origin in (list, dict) or hint in (list, dict):
        return _fitted_many(value, hint, cls, name, wrong)
    if not isinstance(hint, type):
        return value
    return _fitted_one(value, hint, wrong)


def _fitted_many(value: Any, hint: Any, cls: type, name: str, wrong: WrongField) -> Any:
    kind = get_origin(hint) or hint
    if kind is list:
        if not isinstance(value, (list, tuple)):
            raise wrong
        inner = get_args(hint)
        return (
            [_each(at, each, inner[0], cls, name) for at, each in enumerate(value)] if inner else list(value)
        )
    if not isinstance(value, dict):
        raise wrong
    inner = get_args(hint)
    if inner and isinstance(inner[1], type) and issubclass(inner[1], Checked):
        return {key: _each(key, each, inner[1], cls, name) for key, each in value.items()}
    return value


def _each(at: Any, value: Any, hint: Any, cls: type, name: str) -> Any:
    try:
        return _fitted(value, hint, cls, f"{name}[{at!r}]")
    except WrongField as error:
        raise error.inside(at) from None


def _fitted_one(value: Any, hint: type, wrong: WrongField) -> Any:
    if isinstance(value, hint) and not (hint is int and isinstance(value, bool)):
        return value
    if issubclass(hint, Checked):
        if isinstance(value, (dict, Checked)):
            return hint.model_validate(value)
        raise wrong
    if issubclass(hint, enum.Enum):
        for member in hint:
            if value == member.value or value == member.name:
                return member
        raise wrong
    if hint in (int, float, bool):
        try:
            return _number(value, hint)
        except (ValueError, TypeError, KeyError, OverflowError):
            raise wrong from None
    if hint is str and isinstance(value, str):
        return value
    raise wrong


def _number(value: Any, kind: type) -> Any:
    """Convert a number in another notation, as in YAML: '3' and 3.0 for 3. Raises ValueError for other values."""
    if kind is bool:
        return _BOOLEANS[value.lower() if isinstance(value, str) else value]
    if not isinstance(value, (int, float, str)):
        raise TypeError
    number = float(value)
    if kind is float:
        return number
    if not number.is_integer():
        raise ValueError
    return int(value) if isinstance(value, (int, str)) and not isinstance(value, bool) else int(number)


_BOOLEANS: dict[Any, bool] = {
    **dict.fromkeys((1, "1", "true", "t", "yes", "y", "on"), True),
    **dict.fromkeys((0, "0", "false", "f", "no", "n", "off"), False),
}


def _words(hint: Any) -> str:
    if get_origin(hint) is typing.Literal:
        return "one of " + ", ".join(repr(each) for each in get_args(hint))
    if isinstance(hint, type) and issubclass(hint, enum.Enum):
        return "one of " + ", ".join(repr(each.value) for each in hint)
    names = {
        int: "a whole number",
        float: "a number",
        str: "a text",
        bool: "True or False",
        dict: "a dict",
        list: "a list",
    }
    return names.get(get_origin(hint) or hint, getattr(hint, "__name__", str(hint)))


def _no_member(value: Any, hint: Any) -> str:
    """Describe an invalid enum value in the words of Python's enums; empty for other types."""
    if isinstance(hint, type) and issubclass(hint, enum.Enum):
        return f"; {value!r:.80} is not a valid {hint.__name__}"
    return ""


def _input(hint: Any) -> str:
    """Describe a type in pydantic's words, which programs for Ray look for."""
    if get_origin(hint) is typing.Literal:
        return " or ".join(repr(each) for each in get_args(hint))
    if isinstance(hint, type) and issubclass(hint, enum.Enum):
        *most, last = [repr(each.value) for each in hint]
        return f"{', '.join(most)} or {last}" if most else last
    if isinstance(hint, type) and issubclass(hint, Checked):
        return f"a valid dictionary or instance of {hint.__name__}"
    names = {
        int: "integer",
        float: "number",
        str: "string",
        bool: "boolean",
        dict: "dictionary",
        list: "list",
    }
    return "a valid " + names.get(get_origin(hint) or hint, "value")


def as_json(what: str, value: Any) -> None:
    """Raise ValueError for a value that is not JSON-serializable. Bytes are allowed."""
    import json  # imported here because it is rarely needed

    if isinstance(value, bytes):
        return
    try:
        json.dumps(value)
    except (TypeError, ValueError) as error:
        raise WrongField(f"{what} is not JSON-serializable: {error}.", (what,)) from None


def positive(cls: str, **values: float | None) -> None:
    """Raise ValueError for each value that is not above zero; None is allowed."""
    for name, value in values.items():
        if value is not None and not value > 0:
            raise WrongField(
                f"{cls}.{name} must be above 0, got {value!r}. Input should be greater than 0", (name,)
            )


def not_negative(cls: str, **values: float | None) -> None:
    """Raise ValueError for each value below zero; None is allowed."""
    for name, value in values.items():
        if value is not None and value < 0:
            raise WrongField(
                f"{cls}.{name} must not be negative, got {value!r}. Input should be greater than or equal to 0",
                (name,),
            )
