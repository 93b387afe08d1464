"""`expr.dt`: dates and points in time."""

from __future__ import annotations

from typing import TYPE_CHECKING

from skate.data.expressions.namespaces.base import Namespace

if TYPE_CHECKING:
    from skate.data.expressions.tree import Expr


class DatetimeNamespace(Namespace):
    """Functions of dates and timestamps, in the column's time zone."""

    _title = "dt"

    def year(self) -> Expr:
        """Return the year."""
        return self._call("year", "year")

    def month(self) -> Expr:
        """Return the month, from 1 to 12."""
        return self._call("month", "month")

    def day(self) -> Expr:
        """Return the day of the month, from 1."""
        return self._call("day", "day")

    def hour(self) -> Expr:
        """Return the hour, from 0 to 23."""
        return self._call("hour", "hour")

    def minute(self) -> Expr:
        """Return the minute, from 0 to 59."""
        return self._call("minute", "minute")

    def second(self) -> Expr:
        """Return the second, from 0 to 59."""
        return self._call("second", "second")

    def strftime(self, fmt: str) -> Expr:
        """Format as text, with a format such as "%Y-%m-%d"."""
        return self._call("strftime", "strftime", format=fmt)

    def ceil(self, unit: str) -> Expr:
        """Round up to a whole unit, such as "day"."""
        return self._call("ceil", "ceil_temporal", unit=unit)

    def floor(self, unit: str) -> Expr:
        """Round down to a whole unit, such as "day"."""
        return self._call("floor", "floor_temporal", unit=unit)

    def round(self, unit: str) -> Expr:
        """Round to the nearest whole unit, such as "day"."""
        return self._call("round", "round_temporal", unit=unit)
