"""Rewrites of a plan that give the same rows for less work: fewer columns read, rows dropped where they are read, limits early.

Each rule looks at one step and those below it, and gives another step for it, or None. They are tried on
every step, from the sources up, until none applies. A step moves only if the result is certain to be the
same: users' functions stay in place, and so do conditions that a reader might interpret differently.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from skate.data.expressions.projection import columns_needed, conjuncts
from skate.data.expressions.pushdown import pushable
from skate.data.expressions.tree import ColumnExpr, Expr
from skate.data.plan import operators as logical
from skate.data.plan.names import known_names

Rule = Callable[[logical.Operator], logical.Operator | None]

_ROUNDS = 20


def optimized(plan: logical.Operator) -> logical.Operator:
    """Apply all rules to a plan."""
    for _ in range(_ROUNDS):
        before, plan = plan, _rewritten(plan, {})
        if plan is before:
            break
    return plan


def _rewritten(plan: logical.Operator, done: dict[int, logical.Operator]) -> logical.Operator:
    found = done.get(id(plan))
    if found is None:
        inputs = tuple(_rewritten(each, done) for each in plan.inputs)
        found = plan
        if any(new is not old for new, old in zip(inputs, plan.inputs, strict=True)):
            found = plan.over(*inputs)
        for rule in RULES:
            better = rule(found)
            if better is not None:
                found = better
        done[id(plan)] = found
    return found


def limits_become_one(plan: logical.Operator) -> logical.Operator | None:
    """Merge consecutive limits into the smaller one."""
    if isinstance(plan, logical.Limit) and isinstance(plan.inputs[0], logical.Limit):
        inner = plan.inputs[0]
        return inner.over(*inner.inputs) if inner.rows <= plan.rows else replace(plan, inputs=inner.inputs)
    return None


def limits_move_down(plan: logical.Operator) -> logical.Operator | None:
    """Move a limit before steps that return one row per row, so that fewer rows pass through them."""
    if not isinstance(plan, logical.Limit):
        return None
    below = plan.inputs[0]
    if (
        isinstance(below, logical.Project)
        or (isinstance(below, logical.MapRows) and below.kind == "map")
        or (isinstance(below, logical.MapBatches) and below.keeps_count)
    ):
        return below.over(plan.over(*below.inputs))
    if isinstance(below, logical.Read) and (below.limit is None or below.limit > plan.rows) and plan.rows:
        return plan.over(replace(below, limit=plan.rows))
    if isinstance(below, logical.Union):
        limited = [
            each if isinstance(each, logical.Limit) and each.rows <= plan.rows else plan.over(each)
            for each in below.inputs
        ]
        if any(new is not old for new, old in zip(limited, below.inputs, strict=True)):
            return plan.over(below.over(*limited))
    return None


def filters_move_down(plan: logical.Operator) -> logical.Operator | None:
    """Move a condition before steps that only move rows or columns, and into readers that can apply it."""
    if not isinstance(plan, logical.Filter) or not isinstance(plan.predicate, Expr):
        return None
    below = plan.inputs[0]
    if isinstance(below, logical.Read):
        return _into_reader(plan, below)
    if not pushable(plan.predicate):
        return None
    if isinstance(below, (logical.RandomizeBlockOrder, logical.Union)) or _only_moves_rows(below):
        return below.over(*(plan.over(each) for each in below.inputs))
    if isinstance(below, logical.Project) and _unchanged(below, columns_needed(plan.predicate)):
        return below.over(plan.over(*below.inputs))
    return None


def _into_reader(plan: logical.Filter, read: logical.Read) -> logical.Operator | None:
    if read.limit is not None:
        return None  # the limit was counted before the condition
    left: list[Expr] = []
    source, taken = read.datasource, read.predicate
    for part in conjuncts(plan.predicate):
        reading = source.with_predicate(part) if pushable(part) else None
        if reading is None:
            left.append(part)
        else:
            source, taken = reading, part if taken is None else taken & part
    if source is read.datasource:
        return None
    reader = replace(read, datasource=source, predicate=taken)
    if not left:
        return reader
    rest = left[0]
    for part in left[1:]:
        rest = rest & part
    return replace(plan, inputs=(reader,), predicate=rest)


def _only_moves_rows(plan: logical.Operator) -> bool:
    if not isinstance(plan, logical.Exchange) or len(plan.inputs) != 1:
        return False
    return bool(getattr(plan.kernel, "keeps_count", False) and getattr(plan.kernel, "keeps_columns", False))


def _unchanged(project: logical.Project, needed: Sequence[str] | set[str] | None) -> bool:
    """True if a projection leaves the given columns unchanged."""
    if needed is None:
        return False
    if project.renames:
        named = {name for pair in project.renames for name in pair}
        return not named & set(needed)
    made = dict(project.columns)
    for name in needed:
        expression = made.get(name)
        if expression is not None and not (type(expression) is ColumnExpr and expression.name == name):
            return False
        if expression is None and not project.keep:
            return False
    # Expressions for several columns may yield any names.
    return not any(name.startswith("*") for name in made)


def columns_are_read_as_needed(plan: logical.Operator) -> logical.Operator | None:
    """Restrict a reader to the columns used by a projection and the conditions before it."""
    if not isinstance(plan, logical.Project):
        return None
    between: list[logical.Operator] = []
    below = plan.inputs[0]
    while isinstance(below, (logical.Filter, logical.Sample, logical.RandomizeBlockOrder, logical.Limit)):
        between.append(below)
        below = below.inputs[0]
    if not isinstance(below, logical.Read) or below.columns is not None:
        return None
    present = known_names(below)
    needed = _needed(plan, present)
    for each in between:
        if isinstance(each, logical.Filter):
            of_filter = columns_needed(each.predicate) if isinstance(each.predicate, Expr) else None
            needed = None if needed is None or of_filter is None else needed | set(of_filter)
    if needed is None or present is None or not needed or not needed < set(present):
        return None
    order = tuple(name for name in present if name in needed)
    source = below.datasource.with_columns(order)
    if source is None:
        return None
    found: logical.Operator = replace(below, datasource=source, columns=order)
    for each in reversed(between):
        found = each.over(found)
    if plan.drop:  # dropped columns no longer exist, so the others are named instead
        kept = tuple((name, ColumnExpr(name)) for name in present if name not in plan.drop)
        return replace(plan, inputs=(found,), columns=kept, keep=False, drop=())
    return plan.over(found)


def _needed(project: logical.Project, present: Sequence[str] | None) -> set[str] | None:
    """Return the columns that a projection reads; None for all."""
    if project.renames:
        return None
    if project.drop:
        return None if present is None else set(present) - set(project.drop)
    if project.keep:
        return None
    needed: set[str] = set()
    for _, expression in project.columns:
        names = columns_needed(expression)
        if names is None:
            return None
        needed |= set(names)
    return needed


def for_counting(plan: logical.Operator) -> logical.Operator:
    """Reduce a plan to one with the same number of rows: it reads only the columns that conditions use."""
    needed: set[str] = set()
    below = plan
    while isinstance(below, logical.Filter) and isinstance(below.predicate, Expr):
        names = columns_needed(below.predicate)
        if names is None:
            return plan
        needed |= set(names)
        below = below.inputs[0]
    if not isinstance(below, logical.Read) or below.columns is not None:
        return plan
    present = known_names(below)
    if present is None or not needed or not needed < set(present):
        return plan
    wanted = tuple((name, ColumnExpr(name)) for name in present if name in needed)
    return logical.Project((plan,), columns=wanted)


RULES: tuple[Rule, ...] = (
    limits_become_one,
    limits_move_down,
    filters_move_down,
    columns_are_read_as_needed,
)
