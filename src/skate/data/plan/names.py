"""The names of the columns of a plan's result, as far as they are known without running it."""

from __future__ import annotations

from skate.data.plan import knowledge
from skate.data.plan import operators as logical


def known_names(plan: logical.Operator) -> list[str] | None:
    """Return the names of the columns in order, None if they are unknown until the plan runs."""
    schema = knowledge.schema_of(plan)
    if schema is not None:
        return list(schema.names) or None
    if isinstance(plan, logical.Read) and plan.columns is not None:
        return list(plan.columns)
    if isinstance(plan, logical.Project) and not (plan.keep or plan.drop or plan.renames):
        names = [name for name, _ in plan.columns]
        return None if any(name.startswith("*") for name in names) else names
    return None
