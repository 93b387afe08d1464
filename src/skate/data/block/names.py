"""Lookup of column names; an unknown name is reported with the closest matches."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence

from skate.exceptions import UserCodeException


class UnknownColumn(KeyError, ValueError, UserCodeException):
    """A requested column does not exist. In Ray, a task raises UserCodeException if an expression names it."""

    @classmethod
    def of(cls, name: str, known: Iterable[str]) -> UnknownColumn:
        """Build the error for `name`, with the known columns and the closest matches."""
        import difflib  # needed only for errors

        names = list(known)
        near = difflib.get_close_matches(str(name), names, 3, 0.5)
        hint = f"; did you mean {' or '.join(map(repr, near))}?" if near else ""
        return cls(
            f"You specified the column {name!r}, but there's no such column in the dataset. The dataset has columns: "
            f"{names}{hint}"
        )

    def __str__(self) -> str:
        return str(self.args[0]) if self.args else ""


def free_name(name: str, taken: Collection[str]) -> str:
    """Return the name, with a number appended if it is taken."""
    found, number = name, 1
    while found in taken:
        found, number = f"{name}_{number}", number + 1
    return found


def known(names: Sequence[str], name: str) -> str:
    """Return the name if it is one of `names`. Raises UnknownColumn with the closest ones otherwise."""
    if name in names:
        return name
    raise UnknownColumn.of(name, names)
