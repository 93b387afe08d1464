"""Rules about the whole: circles of imports, crowded folders, arrows between libraries, reach into the core, names of files.

Each rule has a ratchet in tests/structure_limits.py: the counts of today may only shrink. A count that is too high fails too,
so that it follows the code down.
"""

from __future__ import annotations

import ast
import functools
import re
from collections import Counter, defaultdict
from collections.abc import Iterator
from pathlib import Path

import pytest
import structure_limits as limits

ROOT = Path(__file__).parents[1]
SOURCE = ROOT / "src" / "skate"
ENGINE = ("client", "core", "fabric", "node", "protocol", "wire", "worker")
LIBRARIES = (
    "air",
    "dag",
    "dashboard",
    "data",
    "experimental",
    "llm",
    "rllib",
    "serve",
    "train",
    "tune",
    "util",
)


@functools.cache
def trees() -> dict[str, ast.Module]:
    """Every module of the package by its dotted name."""
    found = {}
    for path in sorted(SOURCE.rglob("*.py")):
        if "generated" in path.parts:
            continue
        parts = path.relative_to(SOURCE.parent).with_suffix("").parts
        found[".".join(parts).removesuffix(".__init__")] = ast.parse(path.read_text())
    return found


def part_of(module: str) -> str:
    """Return the part of the package that a module belongs to."""
    return (module.split(".") + [""])[1]


def targets(node: ast.AST, known: dict[str, ast.Module]) -> Iterator[str]:
    """Yield the modules of the package that an import statement names."""
    if isinstance(node, ast.Import):
        yield from (alias.name for alias in node.names if alias.name in known)
    elif isinstance(node, ast.ImportFrom) and node.level == 0 and node.module:
        for alias in node.names:
            inner = f"{node.module}.{alias.name}"
            if inner in known:
                yield inner
            elif node.module in known:
                yield node.module


@functools.cache
def arrows() -> dict[str, set[str]]:
    """Every import between modules: at the top, in functions, and for types alone."""
    known = trees()
    return {
        name: {to for node in ast.walk(tree) for to in targets(node, known)} - {name}
        for name, tree in known.items()
    }


def circles() -> list[list[str]]:
    """Return the strongly connected components of the imports that have more than one module (Tarjan, 1972)."""
    graph = arrows()
    index: dict[str, int] = {}
    low: dict[str, int] = {}
    stack: list[str] = []
    found: list[list[str]] = []
    for root in graph:
        if root in index:
            continue
        work = [(root, iter(sorted(graph[root])))]
        index[root] = low[root] = len(index)
        stack.append(root)
        while work:
            node, rest = work[-1]
            for to in rest:
                if to not in index:
                    index[to] = low[to] = len(index)
                    stack.append(to)
                    work.append((to, iter(sorted(graph[to]))))
                    break
                if to in stack:
                    low[node] = min(low[node], index[to])
            else:
                work.pop()
                if work:
                    low[work[-1][0]] = min(low[work[-1][0]], low[node])
                if low[node] == index[node]:
                    at = stack.index(node)
                    members = stack[at:]
                    del stack[at:]
                    if len(members) > 1:
                        found.append(sorted(members))
    return found


def test_circles_of_imports_only_shrink() -> None:
    sizes = sorted((len(members) for members in circles()), reverse=True)
    assert sizes == limits.CIRCLES, (
        f"circles of imports (TYPE_CHECKING and functions count) have {sizes} modules, the ratchet says {limits.CIRCLES}; "
        "return an event or take a callable in the place of an import upwards"
    )


def test_no_folder_is_crowded() -> None:
    crowded = {}
    for folder in sorted({path.parent for path in SOURCE.rglob("*.py")}):
        count = sum(1 for path in folder.glob("*.py") if path.name != "__init__.py")
        if count > limits.FILES_IN_A_FOLDER:
            crowded[folder.relative_to(SOURCE).as_posix()] = count
    assert crowded == limits.CROWDED, "make a room by noun: a folder has at most 20 files"


def test_imports_by_string_stand_in_declared_places() -> None:
    found = set()
    for name, tree in trees().items():
        for node in ast.walk(tree):
            if isinstance(node, ast.Call) and ast.unparse(node.func).endswith("import_module") and node.args:
                what = node.args[0]
                other = isinstance(what, ast.Constant) and not str(what.value).startswith("skate")
                if not other:
                    found.add(name)
    assert found == set(limits.IMPORTS_BY_STRING), (
        "an import by string evades every rule: import the module in a function, or list the name in a lazy_loader.attach"
    )


def test_the_engine_names_no_library() -> None:
    """Strings such as "skate.dag.node" are imports as well, by a lazy loader."""
    known = trees()
    found = {
        f"{name}: {node.value}"
        for name, tree in known.items()
        if part_of(name) in ENGINE
        for node in ast.walk(tree)
        if isinstance(node, ast.Constant) and node.value in known and part_of(node.value) in LIBRARIES
    }
    assert found == limits.LIBRARIES_NAMED_BY_THE_ENGINE


def test_arrows_between_libraries_are_declared() -> None:
    found = defaultdict(set)
    known = trees()
    for name, tree in known.items():
        if part_of(name) not in LIBRARIES:
            continue
        for node in tree.body:
            for to in targets(node, known):
                if part_of(to) in LIBRARIES and part_of(to) != part_of(name):
                    found[part_of(name)].add(part_of(to))
    assert dict(found) == limits.LIBRARY_ARROWS


def names_of_cores(tree: ast.Module) -> set[str]:
    """The names that stand for a core in a module: `core`, what is assigned from `x.core`, and parameters of that type."""
    names = {"core", "_core"}
    for node in ast.walk(tree):
        if (
            isinstance(node, ast.arg)
            and node.annotation is not None
            and "NodeCore" in ast.unparse(node.annotation)
        ):
            names.add(node.arg)
    imported = {
        alias.asname or alias.name.split(".")[0]
        for node in ast.walk(tree)
        if isinstance(node, ast.Import | ast.ImportFrom)
        for alias in node.names
    }
    known = -1
    while len(names) != known:
        known = len(names)
        for node in ast.walk(tree):
            if not isinstance(node, ast.Assign | ast.AnnAssign | ast.NamedExpr) or node.value is None:
                continue
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            for target in targets:
                pairs = [(target, node.value)]
                if isinstance(target, ast.Tuple) and isinstance(node.value, ast.Tuple):
                    pairs = list(zip(target.elts, node.value.elts, strict=False))
                for to, value in pairs:
                    if isinstance(to, ast.Name) and is_core(value, names):
                        names.add(to.id)
    return names - imported


def is_core(node: ast.expr, names: set[str]) -> bool:
    """True for an expression that is a core: one of the names, or `.core` of anything that is not a library."""
    if isinstance(node, ast.Name):
        return node.id in names
    if isinstance(node, ast.Attribute) and node.attr in ("core", "_core"):
        return ast.unparse(node.value) not in limits.LIBRARIES_WITH_A_CORE
    return False


def reaches(tree: ast.Module) -> Iterator[str]:
    """Yield what a module uses of a core besides its door: attributes, also by `getattr`, and cores that it passes on."""
    names = names_of_cores(tree)
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and is_core(node.value, names) and node.attr not in limits.DOOR:
            yield f"{node.lineno} {ast.unparse(node)}"
        elif isinstance(node, ast.Call):
            given = [*node.args, *(keyword.value for keyword in node.keywords)]
            function = ast.unparse(node.func)
            if function not in limits.MAY_BE_GIVEN_A_CORE and any(is_core(each, names) for each in given):
                yield f"{node.lineno} passes a core to {function}"
        elif isinstance(node, ast.Assign | ast.AugAssign | ast.Delete):
            targets = [node.target] if isinstance(node, ast.AugAssign) else node.targets
            for target in targets:
                if re.search(r"\bsnapshot\b[.\[]", ast.unparse(target)):
                    yield f"{node.lineno} writes {ast.unparse(target)}"


def test_the_shell_uses_nothing_of_the_core_but_its_door() -> None:
    found = {
        name: lines
        for name, tree in trees().items()
        if part_of(name) in ("node", "client", "worker", "fabric", "wire", "cluster_utils")
        if (lines := list(reaches(tree)))
    }
    total = sum(map(len, found.values()))
    assert total == limits.REACHES_INTO_THE_CORE, (
        f"{total} {found}; what the shell writes is an event (protocol/shell_events.py), what it reads a property of the "
        "snapshot (core/state/snapshot.py)"
    )


def test_the_simulator_looks_inside_of_a_core_only_where_it_checks_one() -> None:
    """The simulator gives its cores what a shell gives them; its checks may read anything."""
    found = {
        name.rpartition(".")[2]
        for name, tree in trees().items()
        if part_of(name) == "simulation" and any(reaches(tree))
    }
    assert found <= limits.CHECKS_OF_THE_SIMULATOR, found - limits.CHECKS_OF_THE_SIMULATOR


@pytest.mark.parametrize(
    "text",
    [
        "host.core.next_cid += 1",
        "self._host.core.scheduler.workers",
        "known = host.core.scheduler.workers.get(1)\nknown.pid = 3",
        "inner = self.core\ninner.tasks.clear()",
        "a, inner = 1, host.core\ninner.tasks",
        "def f(node: NodeCore):\n    node.tasks",
        "getattr(host.core, 'tasks')",
        "reach(self.core)",
        "host.core.snapshot.worker(1).pid = 3",
        "host.snapshot.total['CPU'] = 3",
    ],
)
def test_a_reach_into_the_core_is_seen(text: str) -> None:
    assert len(list(reaches(ast.parse(text)))) == 1


def test_the_door_of_the_core_is_no_reach() -> None:
    text = "core.step(1, message, now)\ndue = core.effects.copy()\ncore.effects.clear()\ncore.snapshot.busy\nGuard(core)"
    assert not list(reaches(ast.parse(text)))


def test_reach_throughs_in_the_core_only_shrink() -> None:
    """`node.x.y` in a machine of the core: it knows the whole node, where it should take the few functions that it needs."""
    count = 0
    for name, tree in trees().items():
        if part_of(name) != "core":
            continue
        for node in ast.walk(tree):
            if isinstance(node, ast.Attribute) and ast.unparse(node.value) in (
                "node",
                "self.node",
                "self._node",
            ):
                count += 1
    assert count == limits.REACH_THROUGHS


def test_the_share_of_any_only_shrinks() -> None:
    typed: Counter[str] = Counter()
    untyped: Counter[str] = Counter()
    for name, tree in trees().items():
        for node in ast.walk(tree):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                for each in [*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs]:
                    if each.arg in ("self", "cls"):
                        continue
                    typed[part_of(name)] += 1
                    untyped[part_of(name)] += (
                        each.annotation is not None and ast.unparse(each.annotation) == "Any"
                    )
    shares = {part: round(100 * untyped[part] / typed[part]) for part in sorted(typed) if typed[part] >= 100}
    assert shares == limits.SHARE_OF_ANY, "percent of parameters typed Any; give the seam a Protocol"


def test_no_file_is_named_by_a_gerund() -> None:
    gerunds = {
        path.relative_to(SOURCE).as_posix()
        for path in SOURCE.rglob("*ing.py")
        if path.stem not in limits.NOUNS_IN_ING
    }
    assert gerunds == set(), "name a file by the noun that a user of Ray, Dask or etcd would search for"


def uses(tree: ast.Module) -> Iterator[str]:
    """Yield the names that a module reads: also those in strings such as "skate.util:name", but not those in docstrings."""
    documented = ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef
    prose = {
        node.body[0].value.value  # type: ignore[attr-defined]
        for node in ast.walk(tree)
        if isinstance(node, documented) and ast.get_docstring(node)
    }
    for node in ast.walk(tree):
        if isinstance(node, ast.Name) and not isinstance(node.ctx, ast.Store):
            yield node.id
        elif isinstance(node, ast.Attribute):
            yield node.attr
        elif isinstance(node, ast.Import | ast.ImportFrom):
            yield from (alias.name.rpartition(".")[2] for alias in node.names)
        elif isinstance(node, ast.keyword) and node.arg:
            yield node.arg
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and node.value not in prose:
            if re.fullmatch(r"[A-Za-z_]\w*([.:][A-Za-z_]\w*)*", node.value):
                yield from re.split("[.:]", node.value)


def defined(tree: ast.Module) -> Iterator[str]:
    """Yield the names of functions, classes and constants."""
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            yield node.name
    for node in tree.body:
        if isinstance(node, ast.Assign):
            yield from (target.id for target in node.targets if isinstance(target, ast.Name))
        elif isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
            yield node.target.id


def test_every_definition_of_the_engine_is_used() -> None:
    """A definition that only tests use is one more thing to keep, and proves nothing."""
    used = {name for tree in trees().values() for name in uses(tree)}
    unused = {
        f"{module}.{name}"
        for module, tree in trees().items()
        if part_of(module) in ENGINE
        for name in defined(tree)
        if not name.startswith("__") and name not in used
    }
    assert unused == limits.USED_BY_PROGRAMS_OR_TESTS, (
        "delete it, or name it there if programs written for Ray use it"
    )


def test_every_extra_is_imported_somewhere() -> None:
    text = (ROOT / "pyproject.toml").read_text()
    try:
        import tomllib
    except ImportError:
        import tomli as tomllib  # type: ignore[import-not-found,no-redef]
    project = tomllib.loads(text)["project"]
    optional = {
        re.split(r"[\[<>=; ]", one)[0]
        for extra, packages in project["optional-dependencies"].items()
        if extra not in limits.EXTRAS_OF_TOOLS
        for one in packages
    } - {"skate"}
    named = "\n".join(path.read_text() for path in SOURCE.rglob("*.py"))

    def is_imported(package: str) -> bool:
        module = limits.MODULE_OF.get(package, package.replace("-", "_"))
        return bool(re.search(rf"(import|from) {module}\b|[\"']{module}[.\"']", named))

    assert {package for package in optional if not is_imported(package)} == set(limits.ASKED_FOR_BY_OTHERS)
    engine = "\n".join(path.read_text() for part in ENGINE for path in (SOURCE / part).rglob("*.py"))
    required = {re.split(r"[\[<>=; ]", one)[0] for one in project["dependencies"]}
    assert {package for package in required if not re.search(rf"\bimport {package}\b", engine)} == set()
