"""`expr.dt`: dates and points in time."""

from __future__ import annotations

from typing import TYPE_CHECKING

from skate.data.expressions.namespaces.base import Namespace

if TYPE_CHECKING:
    from skate.data.expressions.tree import Expr


class DatetimeNamespace(Namespace):
    """What can be done with dates and points in time, in the column's own time zone."""

    _title = "dt"

    def year(self) -> Expr:
        """The year."""
        return self._call("year", "year")

    def month(self) -> Expr:
        """The month, from 1."""
        return self._call("month", "month")

    def day(self) -> Expr:
        """The day of the month, from 1."""
        return self._call("day", "day")

    def hour(self) -> Expr:
        """The hour, from 0 to 23."""
        return self._call("hour", "hour")

    def minute(self) -> Expr:
        """The minute."""
        return self._call("minute", "minute")

    def second(self) -> Expr:
        """The second."""
        return self._call("second", "second")

    def strftime(self, fmt: str) -> Expr:
        """As text, by a format such as "%Y-%m-%d"."""
        return self._call("strftime", "strftime", format=fmt)

    def ceil(self, unit: str) -> Expr:
        """Up to the next whole unit: "day", "hour", "month" and so on."""
        return self._call("ceil", "ceil_temporal", unit=unit)

    def floor(self, unit: str) -> Expr:
        """Down to a whole unit."""
        return self._call("floor", "floor_temporal", unit=unit)

    def round(self, unit: str) -> Expr:
        """To the nearest whole unit."""
        return self._call("round", "round_temporal", unit=unit)
