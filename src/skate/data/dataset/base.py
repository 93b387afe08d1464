"""Base of all parts of a dataset: its plan, its settings, and execution."""

from __future__ import annotations

import contextlib
import uuid
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, ClassVar

import pyarrow as pa

from skate.data.context import DataContext
from skate.data.execution.bundle import Bundle
from skate.data.execution.executor import Executor
from skate.data.execution.physical import Physical
from skate.data.plan.operators import FromBlocks, Operator
from skate.data.plan.rules import optimized
from skate.data.relational.refusals import StageRefused
from skate.data.relational.stages import counted, with_stages

if TYPE_CHECKING:
    from skate.data.dataset import Dataset, MaterializedDataset


class DatasetBase:
    """A plan with its settings. Nothing runs until a result is requested."""

    #: The classes that operations return; set where those are assembled from their parts.
    _lazy: ClassVar[Any]
    _materialized: ClassVar[Any]

    def __init__(self, plan: Operator, context: DataContext | None = None, name: str | None = None) -> None:
        self._plan = plan
        self._context = context or DataContext.get_current().copy()
        self._name = name
        self._id = uuid.uuid4().hex
        self._last_run: Executor | None = None
        #: The columns that a run has shown, if the plan alone does not determine them.
        self._found_schema: pa.Schema | None = None

    def _with(self, operator: Operator) -> Dataset:
        """Return a dataset whose plan ends with an operator, under the settings of this one."""
        found: Dataset = self._lazy(operator, self._context, self._name)
        return found

    def _held(self, bundles: list[Bundle], label: str = "Materialized") -> MaterializedDataset:
        """Return a dataset of existing blocks."""
        found: MaterializedDataset = self._materialized(
            FromBlocks((), tuple(bundles), label), self._context, self._name
        )
        found._last_run = self._last_run
        return found

    def _run(self) -> Iterator[Bundle]:
        """Run the plan and yield its blocks, in order."""
        plan = optimized(self._plan)
        staged = with_stages(plan, self._context)
        flow = self._executed(staged)
        return flow if staged is plan else self._secured(flow, plan)

    def _count(self) -> int:
        """Run the plan and return the number of its rows; Polars counts them itself."""
        plan = optimized(self._plan)
        staged = with_stages(plan, self._context)
        counting = counted(staged)
        if counting is not None:
            with contextlib.suppress(StageRefused):
                return sum(int(bundle.table().column(0)[0].as_py()) for bundle in self._executed(counting))
            staged = plan
        flow = self._executed(staged)
        return sum(bundle.rows for bundle in (flow if staged is plan else self._secured(flow, plan)))

    def _executed(self, plan: Operator) -> Iterator[Bundle]:
        topology = Physical(self._context).build(plan)
        executor = self._last_run = Executor(topology, self._context, self._name)
        return executor.run()

    def _secured(self, flow: Iterator[Bundle], plan: Operator) -> Iterator[Bundle]:
        """Yield the blocks of a run with stages; run the plan without them if one fails before the first block."""
        count = 0
        try:
            for bundle in flow:
                count += 1
                yield bundle
            return
        except StageRefused as error:
            if count:
                raise pa.ArrowInvalid(str(error)) from error
        yield from self._executed(plan)

    def _tables(self) -> Iterator[Any]:
        """Run the plan and yield its blocks as tables."""
        return (bundle.table() for bundle in self._run())

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_last_run": None}
