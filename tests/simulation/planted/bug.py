"""A planted bug: one known kind of mistake, written into one function of the running code and taken out again.

The mistake is a change of source text. It is compiled in the place of the right code, under the same function
object, so that code that already has the function (a table of handlers, another module) runs the mistake too.
Where the text to be changed is no longer there, exactly once, planting fails: the bug has to be written anew.
"""

from __future__ import annotations

import ast
import importlib
import inspect
import textwrap
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from types import CodeType, FunctionType
from typing import Any

from skate.simulation.nodes import cluster
from skate.simulation.runs import run_cluster, run_node
from tests.fabric import test_directory, test_order
from tests.fabric.adversary import run_lanes
from tests.fabric.watched import run_watch
from tests.simulation.broadcasts import run_broadcast
from tests.simulation.third_party import run_borrowed

# A run without a bug ends after half as many steps; one that never ends with a bug need not take long to be noticed.
STEPS_MAX = 40_000

#: What a run ends with that notices: a check, the observer, the allocator; or the core stumbles.
NOTICED = (AssertionError, ValueError, KeyError)


@dataclass
class Case:
    """A test of the order or the directory, as a run."""

    name: str
    steps: int = 0


CASES = [
    each
    for tests in (test_order, test_directory)
    for name, each in sorted(vars(tests).items())
    if name.startswith("test_") and not each.__code__.co_argcount
]


def run_case(number: int) -> Case:
    """Run one of the tests that have no arguments."""
    test = CASES[number % len(CASES)]
    test()
    return Case(test.__name__)


RUNS: dict[str, Callable[[int], object]] = {
    "node": partial(run_node, check_every=1),
    "cluster": partial(run_cluster, check_every=1),
    "lanes": run_lanes,
    "watch": run_watch,
    "case": run_case,
    "borrowed": run_borrowed,
    "broadcast": run_broadcast,
}
#: Kinds of which only the first runs differ.
FEW = {"case": len(CASES), "borrowed": 4}


class Outdated(Exception):
    """The code has changed so that the planted bug no longer applies."""


@dataclass(frozen=True)
class Bug:
    """`old` in the source of `where` ("module:Class.function") becomes `new`; `runs` name what must notice, one after the other.

    `rare`: only a long run is sure to notice.
    """

    name: str
    where: str
    old: str
    new: str
    runs: tuple[str, ...] = ("node",)
    rare: bool = False

    def __str__(self) -> str:
        return self.name


def found(where: str) -> FunctionType:
    """The function of a name, also behind a property or a staticmethod."""
    module, _, path = where.partition(":")
    thing: Any = importlib.import_module(module)
    for name in path.split("."):
        try:
            thing = inspect.getattr_static(thing, name)
        except AttributeError:
            raise Outdated(f"there is no {where} any more") from None
    thing = getattr(thing, "fget", None) or getattr(thing, "__func__", thing)
    assert isinstance(thing, FunctionType), f"{where} is {thing!r}"
    return thing


def source(bug: Bug) -> str:
    """The source of the function that a bug is planted in."""
    text = textwrap.dedent(inspect.getsource(found(bug.where)))
    count = text.count(bug.old)
    if count != 1:
        raise Outdated(
            f"{bug}: {bug.old!r} stands {count} times in {bug.where}, not once; write the bug anew"
        )
    return text


def applies(bug: Bug) -> bool:
    """True if the code still has the form that the bug needs."""
    try:
        source(bug)
    except Outdated:
        return False
    return True


def compiled(tree: ast.Module, function: FunctionType, name: str) -> CodeType:
    """The code of a function from its changed source."""
    definition = tree.body[0]
    assert isinstance(definition, ast.FunctionDef)
    definition.decorator_list = []
    module = compile(ast.fix_missing_locations(tree), f"<{name}>", "exec", dont_inherit=True)
    code = next(each for each in module.co_consts if isinstance(each, CodeType))
    assert code.co_freevars == function.__code__.co_freevars, f"{function} is a closure"
    return code


@contextmanager
def planted(bug: Bug) -> Iterator[None]:
    """The bug is in the running code."""
    function = found(bug.where)
    right, steps_max = function.__code__, cluster.STEPS_MAX
    function.__code__ = compiled(ast.parse(source(bug).replace(bug.old, bug.new)), function, bug.name)
    cluster.STEPS_MAX = STEPS_MAX
    try:
        yield
    finally:
        function.__code__ = right
        cluster.STEPS_MAX = steps_max


def noticed(bug: Bug, run: Callable[[int], object], seeds: Iterable[int]) -> tuple[int, Exception] | None:
    """The first seed whose run notices the bug, and how; None if it survives all of them."""
    with planted(bug):
        for seed in seeds:
            try:
                run(seed)
            except NOTICED as error:
                return seed, error
    return None
