"""What every part of a dataset builds on: its plan, its settings, and running the plan."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from skate.data.context import DataContext
from skate.data.execution.bundle import Bundle
from skate.data.execution.executor import Executor
from skate.data.execution.physical import Physical
from skate.data.plan.operators import Operator

if TYPE_CHECKING:
    from skate.data.dataset import Dataset


class DatasetBase:
    """A plan with the settings it runs under. Nothing runs before something is asked for."""

    def __init__(self, plan: Operator, context: DataContext | None = None, name: str | None = None) -> None:
        self._plan = plan
        self._context = context or DataContext.get_current().copy()
        self._name = name
        self._last_run: Executor | None = None

    def _with(self, operator: Operator) -> Dataset:
        """A dataset whose plan ends with an operator, under the settings of this one."""
        made: Any = type(self)
        found: Dataset = made(operator, self._context, self._name)
        return found

    def _run(self) -> Iterator[Bundle]:
        """The blocks of the plan, in order, as they come."""
        executor = self._last_run = Executor(Physical(self._context).build(self._plan), self._context)
        return executor.run()

    def _tables(self) -> Iterator[Any]:
        """The blocks of the plan as tables."""
        return (bundle.table() for bundle in self._run())
