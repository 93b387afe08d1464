"""The columns that a plan uses of each step: for rows that are read before Polars can restrict them."""

from __future__ import annotations

from skate.data.exchange.aggregate import AggregateKernel
from skate.data.exchange.join import JoinKernel
from skate.data.exchange.sort import SortKernel
from skate.data.expressions.projection import columns_needed
from skate.data.expressions.tree import Expr
from skate.data.plan import operators as logical

#: Some columns by name, or None for all.
Columns = frozenset[str] | None
_SAME_COLUMNS = (logical.Limit, logical.Union)


def columns_used(
    plan: logical.Operator, of_result: Columns, before_joins: bool = False
) -> dict[int, Columns]:
    """Return the columns that a plan uses of each step, by the step's id; `of_result` are those to keep.

    Steps before joins use all columns, unless `before_joins` is true: then some of theirs may not exist, because what a
    suffix stands for is not known without the columns themselves.
    """
    found: dict[int, Columns] = {}

    def visit(node: logical.Operator, wanted: Columns) -> None:
        found[id(node)] = _both(found.get(id(node), frozenset()), wanted)
        for at, each in enumerate(node.inputs):
            if isinstance(node, logical.Exchange) and type(node.kernel) is JoinKernel:
                visit(each, _before_join(node.kernel, at, wanted) if before_joins else None)
            else:
                visit(each, _before(node, wanted))

    visit(plan, of_result)
    return found


def _before_join(kernel: JoinKernel, at: int, wanted: Columns) -> Columns:
    """Return the columns that a join uses of an input, among others that this input may not have."""
    side = kernel.sides[at]
    if kernel.only not in (None, at):
        return frozenset(side.keys)
    if wanted is None:
        return None
    stripped = {name.removesuffix(side.suffix) for name in wanted} if side.suffix else set()
    return frozenset((*wanted, *stripped, *side.keys, *(kernel.sides[1 - at].keys)))


def _before(node: logical.Operator, wanted: Columns) -> Columns:
    """Return the columns that a step uses of its inputs, if the next step uses `wanted`."""
    if isinstance(node, logical.Exchange) and type(node.kernel) is AggregateKernel:
        return frozenset((*node.kernel.keys, *(each.on for each in node.kernel.aggregations if each.on)))
    if isinstance(node, logical.Exchange) and type(node.kernel) is SortKernel:
        return _both(wanted, frozenset(node.kernel.order.keys))
    if isinstance(node, logical.Filter):
        return _both(wanted, _needed(node.predicate))
    if isinstance(node, logical.Project):
        return _before_projection(node, wanted)
    return wanted if isinstance(node, _SAME_COLUMNS) else None


def _before_projection(node: logical.Project, wanted: Columns) -> Columns:
    if node.drop:
        return _both(wanted, frozenset(node.drop))
    if node.renames:
        named = frozenset(name for name, _ in node.renames)
        new = {name for _, name in node.renames}
        return None if wanted is None else named | (wanted - new)
    needed: Columns = frozenset()
    for _, expression in node.columns:
        needed = _both(needed, _needed(expression))
    if not node.keep:
        return needed
    made = {name for name, _ in node.columns}
    return None if wanted is None else _both(needed, wanted - made)


def _needed(expression: object) -> Columns:
    names = columns_needed(expression) if isinstance(expression, Expr) else None
    return None if names is None else frozenset(names)


def _both(one: Columns, other: Columns) -> Columns:
    return None if one is None or other is None else one | other
