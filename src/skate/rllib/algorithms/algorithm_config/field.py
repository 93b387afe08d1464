"""A field of a configuration: its default, its meaning, and the fluent methods that a table of fields makes."""

from __future__ import annotations

import copy
import difflib
import inspect
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

Method = TypeVar("Method", bound=Callable[..., Any])


class NotProvidedType:
    """Type of `NotProvided`: the default of every argument of a fluent method, which leaves its field alone."""

    def __repr__(self) -> str:
        return "NotProvided"


NotProvided = NotProvidedType()


@dataclass(frozen=True, slots=True)
class Field:
    """One field.

    Args:
        default: the value in a new configuration, copied for each.
        meaning: one line for the documentation, with the unit.
        attribute: the name of the attribute, if it differs from that of the argument.
    """

    default: Any
    meaning: str
    attribute: str = ""


Fields = Mapping[str, Field]


def attribute_of(name: str, fields: Fields) -> str:
    """Return the name of the attribute that an argument sets."""
    return fields[name].attribute or name


def defaults_of(fields: Fields) -> dict[str, Any]:
    """Return a new copy of the default of every field, by the name of its attribute."""
    return {attribute_of(name, fields): copy.deepcopy(field.default) for name, field in fields.items()}


def takes(*tables: Fields, first: str = "") -> Callable[[Method], Method]:
    """Decorate a fluent method that takes `**settings`: add the arguments' names and meanings.

    Args:
        tables: the tables of the fields that it sets.
        first: the argument that may also be given by position.
    """
    fields = {name: field for table in tables for name, field in table.items()}
    positional, named = inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY

    def decorate(method: Method) -> Method:
        parameters = [inspect.Parameter("self", positional)]
        for name in fields:
            kind = positional if name == first else named
            parameters.append(inspect.Parameter(name, kind, default=NotProvided))
        vars(method)["__signature__"] = inspect.Signature(parameters)
        lines = [f"    {name}: {field.meaning}" for name, field in fields.items()]
        method.__doc__ = "\n".join([inspect.cleandoc(method.__doc__ or ""), "", "Args:", *lines])
        return method

    return decorate


def nearest(name: str, known: Iterable[str]) -> str:
    """Return a hint that names the known names most like an unknown one, or nothing."""
    found = difflib.get_close_matches(name, [each for each in known if each[:1] != "_"], n=3)
    return f"; did you mean {' or '.join(repr(each) for each in found)}?" if found else ""
