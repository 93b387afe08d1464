"""Records: tuples with named fields, and dicts with named entries. For mypy they are `typing.NamedTuple` and
`typing.TypedDict`; at run time a class is created without compiling source or evaluating annotations.

A starting process defines about a hundred records. Each NamedTuple would take about 140 us; a record takes a tenth
of that. Records pack, compare, hash, unpack and match like named tuples. A TypedDict would take 200 us, because it
compiles each of its annotations.
"""

from __future__ import annotations

from operator import itemgetter
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from typing import NamedTuple as Record
    from typing import TypedDict as FieldDict
else:

    class Record(tuple):
        """Base of records: `class Kill(Record)`, with an annotation for each field."""

        __slots__ = ()
        _fields = ()

        def __init_subclass__(cls):
            cls._fields = cls.__match_args__ = tuple(cls.__annotations__)
            for index, name in enumerate(cls._fields):
                setattr(cls, name, property(itemgetter(index)))

        def __new__(cls, *values, **named):
            if named:
                values += tuple([named.pop(name) for name in cls._fields[len(values) :] if name in named])
            if named or len(values) != len(cls._fields):
                raise TypeError(f"{cls.__name__} has the fields {cls._fields}, got {values} and {named}")
            return tuple.__new__(cls, values)

        def __getnewargs__(self):
            return tuple(self)

        def __repr__(self):
            fields = ", ".join(f"{name}={value!r}" for name, value in zip(self._fields, self, strict=True))
            return f"{type(self).__name__}({fields})"

    class FieldDict(dict):
        """Base of dicts with named entries: `class Greeting(FieldDict, total=False)`, with an annotation for each entry."""

        def __init_subclass__(cls, total=True):
            """Accept the argument of a TypedDict."""

        def __new__(cls, *given, **named):
            return dict(*given, **named)


def is_field_dict(kind: Any) -> bool:
    """Return True for a class of dicts with named entries."""
    found: Any = FieldDict
    return isinstance(kind, type) and issubclass(kind, found)


__all__ = ["FieldDict", "Record", "is_field_dict"]
