"""The frame of a plan whose CSV files or small inputs of joins are read first: made when its stage runs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from skate.data.plan import operators as logical
from skate.data.relational.csv_scans import AllRows, TasksOf
from skate.data.relational.frames import Frame, Frames, check_result, count_of
from skate.data.relational.held_rows import RowBudget
from skate.data.relational.join_filters import FilteredInputs
from skate.data.relational.used_columns import Columns, columns_used


class LateFrame:
    """The frame of a plan, to be made when its stage runs."""

    def __init__(self, polars: Any, plan: logical.Operator, most: int, only_count: bool = False) -> None:
        self._polars = polars
        self._plan = plan
        self._most = most
        self._only_count = only_count

    def counted(self) -> LateFrame:
        """Return the frame of the number of rows."""
        return LateFrame(self._polars, self._plan, self._most, True)

    def now(self, tasks_of: TasksOf, is_wanted: Callable[[], bool]) -> Frame:
        """Read what is read first, and return the frame. Raises Unproven if Polars cannot run it after all."""
        of_result: Columns = frozenset() if self._only_count else None
        rows = AllRows(self._plan, columns_used(self._plan, of_result), tasks_of, self._most, is_wanted)
        used = columns_used(self._plan, of_result, True)
        inputs = FilteredInputs(used, is_wanted)
        frame = Frames(self._polars, RowBudget(self._most), rows, inputs, used).of(self._plan)
        check_result(frame)
        return count_of(self._polars, frame) if self._only_count else frame
