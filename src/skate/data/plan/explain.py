"""A plan as text."""

from __future__ import annotations

from typing import Any

from skate.data.block.tensors import type_name
from skate.data.plan import knowledge
from skate.data.plan import operators as logical


def tree(plan: logical.Operator) -> str:
    """Describe a plan, one line per step, the last step first, each below the one it feeds."""
    return "\n".join(_lines(plan, lambda each: each.name))


def shown(plan: logical.Operator, name: str | None, kind: str) -> str:
    """Describe a dataset: its known properties and the remaining steps. Runs nothing."""
    head = "" if name is None else f"name={name!r}, "
    if not plan.inputs:
        return _source(plan, kind, head)
    lines = _lines(plan, lambda each: each.name if each.inputs else _source(each, "Dataset", ""))
    return "\n".join([*([f"Dataset(name={name!r})"] if name is not None else []), *lines])


def _source(plan: logical.Operator, kind: str, head: str) -> str:
    rows = knowledge.rows_of(plan)
    schema = knowledge.schema_of(plan)
    columns = (
        "?"
        if schema is None
        else "{" + ", ".join(f"{field.name}: {type_name(field.type)}" for field in schema) + "}"
    )
    blocks = f"num_blocks={len(plan.bundles)}, " if isinstance(plan, logical.FromBlocks) else ""
    return f"{kind}({head}{blocks}num_rows={'?' if rows is None else rows}, schema={columns})"


def _lines(plan: logical.Operator, describe: Any) -> list[str]:
    found = [describe(plan)]
    for number, each in enumerate(plan.inputs):
        inner = _lines(each, describe)
        bar = "   " if number == len(plan.inputs) - 1 else "|  "
        found.append("+- " + inner[0])
        found += [bar + line for line in inner[1:]]
    return found
