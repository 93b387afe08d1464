"""Records: tuples with named fields. For mypy each is a `typing.NamedTuple`; at run time the class is created
without compiling source.

A starting process defines about a hundred of them. Each NamedTuple would take about 140 us; a record takes a tenth
of that. Records pack, compare, hash, unpack and match like
named tuples.
"""

from __future__ import annotations

from operator import itemgetter
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from typing import NamedTuple as Record
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


__all__ = ["Record"]
