"""Properties of a plan's result that are known before it runs: rows, columns, files, blocks."""

from __future__ import annotations

from typing import Any

from skate.data.block.table import unified
from skate.data.plan import operators as logical
from skate.data.steps.columns import ProjectStep

#: Steps that leave the columns as they are.
_SAME_COLUMNS = (
    logical.Filter,
    logical.Sample,
    logical.Limit,
    logical.Rebatch,
    logical.RandomizeBlockOrder,
    logical.Union,
)
#: Steps that leave the number of rows as it is.
_SAME_COUNT = (logical.Project, logical.Rebatch, logical.RandomizeBlockOrder)
#: Steps after which DataFrames are still DataFrames.
_SAME_FRAMES = (logical.Limit, logical.Rebatch, logical.Filter, logical.Project, logical.RandomizeBlockOrder)


def rows_of(plan: logical.Operator) -> int | None:
    """Return the number of rows, or None if it is unknown until the plan runs."""
    if isinstance(plan, logical.FromBlocks):
        return sum(int(bundle.rows) for bundle in plan.bundles)
    if isinstance(plan, logical.Read):
        if plan.predicate is not None:
            return None
        rows: int | None = plan.datasource.known_rows()
        return rows if plan.limit is None or rows is None else min(rows, plan.limit)
    counts = [rows_of(each) for each in plan.inputs]
    if any(count is None for count in counts):
        return None
    known: list[int] = [count for count in counts if count is not None]
    if isinstance(plan, logical.Limit):
        return min(known[0], max(0, plan.rows))
    if isinstance(plan, logical.Union):
        return sum(known)
    same = (
        isinstance(plan, _SAME_COUNT)
        or (isinstance(plan, logical.MapRows) and plan.kind == "map")
        or (isinstance(plan, logical.MapBatches) and plan.keeps_count)
        or (isinstance(plan, logical.Exchange) and getattr(plan.kernel, "keeps_count", False))
        or (isinstance(plan, logical.Zip) and len(set(known)) == 1)
    )
    return known[0] if same else None


def is_bare(plan: logical.Operator) -> bool:
    """Return True if a plan is known to start without rows."""
    begins = [each for each in plan.walk() if not each.inputs]
    return all(
        isinstance(each, logical.Read)
        and each.datasource.known_rows() == 0
        or isinstance(each, logical.FromBlocks)
        and not each.bundles
        for each in begins
    )


def native_format(plan: logical.Operator) -> str | None:
    """Return the batch format that the blocks count as: DataFrames if the data came as DataFrames and neither a function
    nor a step that always returns Arrow tables (such as a sort) has replaced them.
    """
    while isinstance(plan, _SAME_FRAMES) or (
        isinstance(plan, logical.Exchange) and getattr(plan.kernel, "keeps_frames", False)
    ):
        plan = plan.inputs[0]
    if isinstance(plan, (logical.Union, logical.Zip)):
        formats = [native_format(each) for each in plan.inputs]
        return "pandas" if (any if isinstance(plan, logical.Zip) else all)(formats) else None
    return "pandas" if isinstance(plan, logical.FromBlocks) and plan.label == "FromPandas" else None


def schema_of(plan: logical.Operator) -> Any:
    """Return the Arrow schema, or None if it is unknown until the plan runs."""
    if isinstance(plan, logical.FromBlocks):
        schemas = [bundle.schema for bundle in plan.bundles if bundle.schema is not None]
        filled = [schema for schema in schemas if len(schema)]
        # As in Ray, the blocks of a run and data frames have the schema of the first one, other blocks all columns.
        if filled and plan.label not in ("Materialized", "FromPandas"):
            return unified(filled)
        return next(iter(filled), schemas[0] if schemas else None)
    if isinstance(plan, logical.Read):
        schema = plan.datasource.known_schema()
        return None if schema is None or plan.columns is not None else schema
    if isinstance(plan, logical.Union):
        found = [schema_of(each) for each in plan.inputs]
        return None if any(schema is None for schema in found) else unified(found)
    if isinstance(plan, _SAME_COLUMNS) or (isinstance(plan, logical.MapRows) and plan.kind == "filter"):
        return schema_of(plan.inputs[0])
    if isinstance(plan, logical.Project):
        before = schema_of(plan.inputs[0])
        return None if before is None else ProjectStep(plan).schema(before)
    if isinstance(plan, logical.Exchange) and getattr(plan.kernel, "keeps_columns", False):
        return schema_of(plan.inputs[0])
    return None


def before_columns_change(plan: logical.Operator) -> logical.Operator:
    """Return the nearest step with the same columns as the plan: it is run to learn them, without sorting all rows."""
    while (isinstance(plan, _SAME_COLUMNS) and not isinstance(plan, logical.Limit)) or (
        isinstance(plan, logical.Exchange) and getattr(plan.kernel, "keeps_columns", False)
    ):
        plan = plan.inputs[0]
    return plan


def files_of(plan: logical.Operator) -> list[str]:
    """Return the input files, each once, in order."""
    found: dict[str, None] = {}
    for operator in plan.walk():
        if isinstance(operator, logical.Read):
            found.update(dict.fromkeys(operator.datasource.input_files()))
        elif isinstance(operator, logical.FromBlocks):
            for bundle in operator.bundles:
                found.update(dict.fromkeys(bundle.files))
    return list(found)
