"""The parts of a plan that Polars runs: the largest whose results are certain to be the same."""

from __future__ import annotations

import os
from typing import Any

from skate.data.context import DataContext, ExecutionResources
from skate.data.plan import operators as logical
from skate.data.relational import polars_run
from skate.data.relational.csv_scans import FirstRows
from skate.data.relational.distinct_frame import DistinctFrame, of_texts
from skate.data.relational.frames import Frame, Frames, check_result, count_of
from skate.data.relational.held_bytes import fits, source_bytes
from skate.data.relational.held_rows import RowBudget
from skate.data.relational.join_filters import PlannedInputs
from skate.data.relational.late_frame import LateFrame
from skate.data.relational.passes import Passes, in_passes
from skate.data.relational.used_columns import columns_used

#: The least bytes to read for which Polars is used; more where it has to be imported first, which takes 0.1 s.
_BYTES = 4 << 20
_BYTES_TO_IMPORT = 24 << 20
#: A sort holds its input, its result and the pieces in between.
_COPIES = 3
#: The share of the memory to use if there is no session.
_SHARE_OF_MEMORY = 0.25


def with_stages(plan: logical.Operator, context: DataContext) -> logical.Operator:
    """Return a plan whose relational parts are stages of Polars, if it is installed and pays."""
    if not context.use_relational_engine or not context.run_small_work_in_driver:
        return plan
    budget = _pays(plan, context)
    if not budget:
        return plan
    polars = polars_run.load()
    if polars is None:
        return plan
    return _Stages(polars, budget // _COPIES, {}).of(plan, True)


def counted(plan: logical.Operator) -> logical.Relational | None:
    """Return a stage whose only value is the number of rows of a stage; None for other plans."""
    if not isinstance(plan, logical.Relational):
        return None
    polars = polars_run.load()
    assert polars is not None
    frame = plan.frame
    if isinstance(frame, Passes):
        return None
    rows = count_of(polars, frame) if isinstance(frame, Frame) else frame.counted()
    return logical.Relational((), rows, f"{plan.label[:-1]}, Count)")


def _pays(plan: logical.Operator, context: DataContext) -> int:
    """Return the bytes of memory to use, if there is enough data for the start of Polars; otherwise 0."""
    size = sum(source_bytes(each) for each in plan.walk() if not each.inputs)
    if size < (_BYTES if polars_run.loaded() else _BYTES_TO_IMPORT) or not polars_run.installed():
        return 0
    options = context.execution_options
    if (
        not options.is_resource_limits_default()
        or options.exclude_resources != ExecutionResources.zero()
        or options._unavailable_cpus
    ):
        return 0  # the ordinary way keeps to limits
    return _budget(context)


def _budget(context: DataContext) -> int:
    import skate  # a plan that runs only in this process needs no session

    if skate.is_initialized():
        return context.limits().budget_bytes
    return int(os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") * _SHARE_OF_MEMORY)


class _Stages:
    """Replaces parts of a plan by stages, the largest first."""

    def __init__(self, polars: Any, most: int, done: dict[int, logical.Operator]) -> None:
        self.polars = polars
        #: The most bytes of rows that a stage may hold.
        self.most = most
        self.done = done

    def of(self, plan: logical.Operator, is_last: bool) -> logical.Operator:
        """Return a plan with stages; `is_last` if its result goes to the consumer, and not to workers."""
        found = self.done.get(id(plan))
        if found is None:
            frame = self._frame(plan, is_last)
            if frame is not None:
                found = logical.Relational((), frame, _label(plan))
            else:
                inputs = tuple(self.of(each, False) for each in plan.inputs)
                changed = any(new is not old for new, old in zip(inputs, plan.inputs, strict=True))
                found = plan.over(*inputs) if changed else plan
            self.done[id(plan)] = found
        return found

    def _frame(
        self, plan: logical.Operator, is_last: bool
    ) -> Frame | LateFrame | DistinctFrame | Passes | None:
        steps = list(plan.walk())
        # A scan whose rows go to users' functions stays with them in the workers.
        gains = any(isinstance(each, logical.Exchange) for each in steps) or (
            is_last and any(_filters(each) for each in steps)
        )
        if not gains or isinstance(plan, (logical.Read, logical.FromBlocks)) and not _filters(plan):
            return None
        try:
            if not fits(plan, self.most):
                return in_passes(self.polars, plan, self.most)
            used = columns_used(plan, None, True)
            first = FirstRows(columns_used(plan, None))
            inputs = PlannedInputs()
            frames = Frames(self.polars, RowBudget(self.most), first, inputs, used)
            frame = frames.of(plan)
            check_result(frame)
            if first.scans or inputs.worthy:
                return LateFrame(self.polars, plan, self.most)
            return of_texts(frames, frame, plan) or frame
        except Exception:  # whatever is wrong with the plan, the ordinary way says it
            return None


def _filters(step: logical.Operator) -> bool:
    return isinstance(step, logical.Filter) or (isinstance(step, logical.Read) and step.predicate is not None)


def _label(plan: logical.Operator) -> str:
    return f"Polars({', '.join(each.name for each in plan.walk())})"
