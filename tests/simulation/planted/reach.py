"""Which seeds come by the place of a bug, so that the others need not be tried with it.

A run without bugs tells: before the statement that a bug changes, a probe is put that notes when it is passed.
"""

from __future__ import annotations

import ast
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator
from contextlib import contextmanager
from typing import Any

from tests.simulation.planted.bug import FEW, RUNS, STEPS_MAX, Bug, applies, compiled, found, source

PROBE = "__planted_probe__"


class Probe(ast.NodeTransformer):
    """Puts a probe in front of one statement."""

    def __init__(self, statement: ast.stmt, name: str) -> None:
        self.statement = statement
        self.probe = ast.parse(f"{PROBE}({name!r})").body[0]

    def visit(self, node: ast.AST) -> Any:
        """The statement, or it behind the probe."""
        self.generic_visit(node)
        return [self.probe, node] if node is self.statement else node


def changed(tree: ast.Module, text: str, old: str) -> ast.stmt:
    """The innermost statement in which a piece of the source begins."""
    before = text[: text.index(old) + len(old) - len(old.lstrip())]
    place = (before.count("\n") + 1, len(before) - before.rfind("\n") - 1)
    around = [
        node
        for node in ast.walk(tree.body[0])
        if isinstance(node, ast.stmt)
        and (node.lineno, node.col_offset) <= place < (node.end_lineno or 0, node.end_col_offset or 0)
    ]
    inside = [node for node in around if node is not tree.body[0]]
    return max(inside, key=lambda node: (node.lineno, node.col_offset))


@contextmanager
def probed(bugs: Iterable[Bug], reached: Callable[[str], None]) -> Iterator[None]:
    """While this lasts, `reached` is told the name of each bug whose place is passed."""
    by_function: dict[str, list[Bug]] = defaultdict(list)
    for bug in bugs:
        if applies(bug):
            by_function[bug.where].append(bug)
    right = []
    for where, here in by_function.items():
        function = found(where)
        text = source(here[0])
        tree = ast.parse(text)
        for statement, bug in [(changed(tree, text, bug.old), bug) for bug in here]:
            tree = Probe(statement, bug.name).visit(tree)
        right.append((function, function.__code__))
        function.__globals__[PROBE] = reached
        function.__code__ = compiled(tree, function, where)
    try:
        yield
    finally:
        for function, code in right:
            function.__code__ = code
            function.__globals__.pop(PROBE, None)


def seeds_of(bugs: Iterable[Bug], run: Callable[[int], object], seeds: Iterable[int]) -> dict[str, list[int]]:
    """For each bug the seeds that come by its place, by its name. A seed that fails raises: there is no bug planted yet."""
    passed: dict[str, list[int]] = defaultdict(list)
    now: set[str] = set()
    with probed(bugs, now.add):
        for seed in seeds:
            now.clear()
            steps: int = run(seed).steps  # type: ignore[attr-defined]
            assert 2 * steps < STEPS_MAX, f"seed {seed} takes {steps} steps"
            for name in now:
                passed[name].append(seed)
    return passed


def passing(bugs: Collection[Bug], seeds: range) -> dict[str, dict[str, list[int]]]:
    """The same for each kind of run."""
    of_kind = {kind: [bug for bug in bugs if kind in bug.runs] for kind in RUNS}
    return {
        kind: seeds_of(some, RUNS[kind], seeds[: FEW.get(kind)]) for kind, some in of_kind.items() if some
    }
