"""Known mistakes, planted into the core one at a time, are each noticed by some seed; without them the same seeds pass.

The table is in `tests/simulation/planted`, and in docs/planted_bugs.md with what notices each. What only many seeds notice is
left to the long run: `python -m tests.simulation.planted`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from skate.core.object.object_table import ObjectTable
from tests.simulation.planted import (
    BUGS,
    RUNS,
    SEEDS,
    SEEDS_OF_BROADCASTS,
    SEEDS_OF_LANES,
    SEEDS_OF_NODES,
    SEEDS_OF_WATCHES,
    Bug,
)
from tests.simulation.planted.bug import FEW, Outdated, found, noticed, planted, source
from tests.simulation.planted.reach import changed, seeds_of

CHECKED = [(bug, kind) for bug in BUGS if not bug.rare for kind in bug.runs]
DOCS = Path(__file__).parents[2] / "docs" / "planted_bugs.md"


@pytest.fixture(scope="module")
def passed() -> Iterator[dict[str, dict[str, list[int]]]]:
    """The seeds that come by the place of each bug; all of them pass while none is planted."""
    often = [bug for bug in BUGS if not bug.rare]
    counts = {
        "node": SEEDS,
        "cluster": SEEDS_OF_NODES,
        "lanes": SEEDS_OF_LANES,
        "watch": SEEDS_OF_WATCHES,
        "broadcast": SEEDS_OF_BROADCASTS,
        **FEW,
    }
    yield {
        kind: seeds_of([bug for bug in often if kind in bug.runs], run, range(counts[kind]))
        for kind, run in RUNS.items()
    }


@pytest.mark.parametrize(("bug", "kind"), CHECKED, ids=lambda each: str(each).replace(" ", "_"))
def test_a_planted_bug_is_noticed(bug: Bug, kind: str, passed: dict[str, dict[str, list[int]]]) -> None:
    seeds = passed[kind].get(bug.name, [])
    assert source(bug)  # or it is out of date, which says what to do
    assert seeds, f"no seed comes by {bug.where}, where {bug} is planted"
    assert noticed(bug, RUNS[kind], seeds) is not None, f"{bug}: nothing has noticed in seeds {seeds}"


@pytest.mark.parametrize("bug", BUGS, ids=str)
def test_what_only_many_seeds_notice_can_still_be_planted(bug: Bug) -> None:
    function = found(bug.where)
    right = function.__code__
    with planted(bug):
        assert function.__code__ is not right
    assert function.__code__ is right


def test_a_bug_whose_code_has_changed_is_out_of_date() -> None:
    where = "skate.core.object.object_table:ObjectTable.free"
    with pytest.raises(Outdated, match="stands 0 times"), planted(Bug("b", where, "no such text", "")):
        pass
    with pytest.raises(Outdated, match="there is no"), planted(Bug("b", where + "ly", "left", "")):
        pass
    assert ObjectTable.free.__code__.co_filename.endswith("object_table.py")


def test_the_place_of_a_bug_is_the_innermost_statement() -> None:
    import ast

    bug = Bug("b", "skate.core.object.object_table:ObjectTable.free", "record.holders[cid] = left", "pass")
    text = source(bug)
    statement = changed(ast.parse(text), text, bug.old)
    assert ast.unparse(statement) == "record.holders[cid] = left"


def test_the_docs_list_what_is_planted() -> None:
    rows = re.findall(r"^\| (.+?) \| `", DOCS.read_text(), re.M)
    kinds = [(bug.name, kind) for bug in BUGS for kind in bug.runs]
    assert sorted(rows) == sorted(name for name, _ in kinds), (
        "write docs/planted_bugs.md anew: python -m tests.simulation.planted --markdown"
    )
