"""The house rules that a machine can check; each complaint names the remedy.

What is over a limit today is listed with its size and may only shrink: an entry that stands for less than its
number, or for nothing any more, fails as well. A rule is a function from a source file to complaints, so the
end of this file can show each of them a file that breaks it.
"""

from __future__ import annotations

import ast
import functools
import io
import re
import tokenize
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from tidy_limits import MANY_PARAMETERS, OVER_THE_ARROW, VAGUE_DOCSTRINGS

ROOT = Path(__file__).parents[1]
UNTOUCHED = ROOT / "tests" / "mission" / "blocks"  # as the mission's documents print them

FILE_LINES = 500
FUNCTION_LINES = 60
PARAMETERS = 8

# What is over a limit today: "path" or "path::Class.function" and its size. Lower a number when the thing has
# shrunk, and add none. Parameters may be many only where Ray's public API fixes the signature.
LONG_FILES: dict[str, int] = {}
LONG_FUNCTIONS: dict[str, int] = {}

# What each layer may import of Skate besides itself: libraries -> api -> client -> node -> core -> protocol.
ARROWS: dict[str, set[str]] = {
    "protocol": set(),
    "core": {"protocol"},
    "exceptions": {"core"},
    "wire": {"protocol", "core", "exceptions"},
    "fabric": {"protocol", "core", "wire", "exceptions"},
    "runtime_env": {"core", "exceptions"},
    "node": {"protocol", "core", "wire", "fabric", "runtime_env", "exceptions"},
    "client": {"protocol", "core", "wire", "node", "fabric", "runtime_env", "exceptions"},
    "worker": {"protocol", "core", "wire", "client", "runtime_env", "exceptions"},
    "simulation": {"protocol", "core", "client", "fabric", "wire", "worker"},
}
# Modules that import nothing of Skate; all but the pure layers may import them.
BELOW_ALL = {"lazy_loader", "procfs", "resources", "stack_dumps"}
PURE = {"core", "protocol", "simulation"}
ARROWS.update(dict.fromkeys(BELOW_ALL, set()))
ENGINE = {"protocol", "core", "wire", "fabric", "node", "client", "worker"}
# The public face: its files re-export what the client holds, and nothing of the engine below that.
FACE = {
    "__init__", "__main__", "actor", "autoscaler", "cloudpickle", "cluster_utils", "command", "compat", "experimental",
    "import_paths", "job_config", "job_submission", "launcher", "private_names", "util",
}  # fmt: skip
FACE_MAY_IMPORT = {"client"}

BANNED_NAMES = {"utils", "util", "common", "helpers", "helper", "misc", "stuff", "tools"}
# Ray's own public names, and the tests of them.
ALLOWED_NAMES = {
    "src/skate/experimental/util", "src/skate/rllib/utils", "src/skate/tune/utils", "src/skate/util",
    "src/skate/util/state/common", "tests/util",
}  # fmt: skip


# Imported inside functions: packages that an extra brings, and standard modules too slow for `import skate`.
# fmt: off
OPTIONAL = {
    "ConfigSpace", "IPython", "ax", "bayes_opt", "click", "cloudpickle", "cv2", "dask", "deepspeed", "distributed",
    "fastapi", "fsspec", "grpc", "grpc_reflection", "hpbandster", "httpx", "hyperopt", "jax", "joblib", "msgpack", "nevergrad",
    "numpy", "open_spiel", "opentelemetry", "optuna", "pandas", "polars", "prometheus_client", "psutil", "pyarrow", "pyspiel",
    "rich", "starlette", "tensorflow", "torch", "tqdm", "transformers", "uvicorn", "uvloop", "xgboost", "yaml", "zoopt",
}
SLOW_TO_IMPORT = {
    "ast", "asyncio", "concurrent", "ctypes", "dataclasses", "difflib", "dis", "email", "fcntl", "hashlib",
    "http", "importlib", "inspect", "json", "linecache", "logging", "multiprocessing", "pdb", "pickle",
    "pkgutil", "platform", "random", "resource", "runpy", "select", "selectors", "shutil", "socket", "ssl",
    "subprocess", "tarfile", "tempfile", "textwrap", "traceback", "typing", "unittest", "urllib", "uuid",
    "venv", "zipfile",
}
# fmt: on

# Tests of pure machines: nothing there ever has to pass time.
NO_SLEEP_AT_ALL = ("tests/core/", "tests/model/", "tests/simulation/")


class Source:
    """One file, read and parsed once."""

    def __init__(self, path: Path, name: str) -> None:
        self.name = name
        self.text = path.read_text()

    @functools.cached_property
    def tree(self) -> ast.Module:
        return ast.parse(self.text, self.name)

    @functools.cached_property
    def comments(self) -> set[int]:
        tokens = tokenize.generate_tokens(io.StringIO(self.text).readline)
        return {token.start[0] for token in tokens if token.type == tokenize.COMMENT}

    def explained(self, line: int) -> bool:
        """True if a comment is on the line, on the one above or on the one below."""
        return bool(self.comments & {line - 1, line, line + 1})

    @property
    def layer(self) -> str:
        """The part of the package that the file belongs to: ``core``, ``util``, ...; empty outside it."""
        parts = Path(self.name).parts
        return parts[2].removesuffix(".py") if parts[:2] == ("src", "skate") else ""

    def functions(self) -> Iterator[tuple[str, ast.FunctionDef | ast.AsyncFunctionDef]]:
        """Every function with its dotted name."""

        def walk(node: ast.AST, prefix: str) -> Iterator[tuple[str, ast.FunctionDef | ast.AsyncFunctionDef]]:
            for child in ast.iter_child_nodes(node):
                if isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef):
                    yield f"{self.name}::{prefix}{child.name}", child
                named = isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef)
                yield from walk(child, f"{prefix}{child.name}." if named else prefix)

        yield from walk(self.tree, "")


def imported(node: ast.AST) -> list[str]:
    """The modules that a statement imports, as dotted names; a name imported from a package is one too."""
    if isinstance(node, ast.Import):
        return [alias.name for alias in node.names]
    if isinstance(node, ast.ImportFrom) and node.level == 0 and node.module:
        return [f"{node.module}.{alias.name}" for alias in node.names]
    return []


# The rules: each yields a complaint that says where, what, and what to do about it.


def file_is_short(source: Source) -> Iterator[str]:
    size = source.text.count("\n")
    yield from over(source.name, size, FILE_LINES, LONG_FILES, "lines", "split it at its second noun")


def functions_are_short(source: Source) -> Iterator[str]:
    for name, node in source.functions():
        size = (node.end_lineno or node.lineno) - node.lineno + 1
        remedy = "give its steps names and functions of their own"
        yield from over(name, size, FUNCTION_LINES, LONG_FUNCTIONS, "lines", remedy)


def functions_take_few_parameters(source: Source) -> Iterator[str]:
    for name, node in source.functions():
        arguments = node.args
        given = [*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs]
        size = len([argument for argument in given if argument.arg not in ("self", "cls")])
        remedy = (
            "pass a record; only a signature that Ray's public API fixes may be listed in MANY_PARAMETERS"
        )
        yield from over(name, size, PARAMETERS, MANY_PARAMETERS, "parameters", remedy)


def over(name: str, size: int, limit: int, listed: dict[str, int], unit: str, remedy: str) -> Iterator[str]:
    allowed = listed.get(name, limit)
    if size > allowed:
        yield f"{name} has {size} {unit}, over {allowed}: {remedy}"


def imports_follow_the_arrows(source: Source) -> Iterator[str]:
    if not source.layer:
        return
    if source.layer in ARROWS:
        allowed = ARROWS[source.layer] | {"version"}
        barred = {"<the api>"} | {part for part in parts_of_skate() if part not in allowed}
        may = ", ".join(sorted(ARROWS[source.layer])) or "nothing else of Skate"
    elif source.layer in FACE:
        barred = ENGINE - FACE_MAY_IMPORT
        may = "the public names and the client"
    else:
        barred = ENGINE
        may = "public names alone; what it needs becomes public API"
    barred -= {source.layer} | OVER_THE_ARROW.get(source.name, set())
    if source.layer not in PURE | BELOW_ALL:
        barred -= BELOW_ALL
    for node in ast.walk(source.tree):
        if isinstance(node, ast.ImportFrom) and node.level:
            yield f"{source.name}:{node.lineno} imports relatively: write the full name, to show the arrow"
        for module in imported(node):
            part = part_of_skate(module)
            if part in barred:
                yield f"{source.name}:{node.lineno} imports {module}: {source.layer} may import {may}"


@functools.cache
def parts_of_skate() -> frozenset[str]:
    return frozenset(path.name.removesuffix(".py") for path in (ROOT / "src" / "skate").iterdir())


def part_of_skate(module: str) -> str | None:
    """``core`` for ``skate.core.ids``; ``<the api>`` for skate itself; None for what is not Skate's."""
    first, *rest = module.split(".")
    if first != "skate":
        return None
    return rest[0] if rest and rest[0] in parts_of_skate() else "<the api>"


def imports_stand_at_the_top(source: Source) -> Iterator[str]:
    if not source.layer:
        return
    for group in grouped_imports(source.tree):
        first, last = group[0].lineno, group[-1].end_lineno or group[-1].lineno
        where = f"{source.name}:{first} imports inside a function"
        # The comment may also stand above a `try` that the imports are in.
        if not source.comments & set(range(first - 2, last + 1)):
            yield f"{where} without a comment: move it to the top, or say which cost it saves"
        for module in [module for node in group for module in imported(node)]:
            top = module.split(".")[0]
            if top == "skate":
                if module_of(source.name) in reached_from(module, module_of(source.name)):
                    yield f"{where}: {module} imports this module in turn; cut the cycle, do not dodge it"
            elif top not in OPTIONAL | SLOW_TO_IMPORT:
                yield f"{where}: {top} is neither optional nor slow; move it to the top"


def grouped_imports(tree: ast.Module) -> list[list[ast.stmt]]:
    """The import statements inside functions, neighbours together: one comment speaks for a group."""
    groups: list[list[ast.stmt]] = []
    for function in ast.walk(tree):
        if not isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef):
            continue
        for node in ast.walk(function):
            for body in (getattr(node, part, None) for part in ("body", "orelse", "handlers", "finalbody")):
                together: list[ast.stmt] = []
                for statement in body if isinstance(body, list) else []:
                    if isinstance(statement, ast.Import | ast.ImportFrom):
                        together.append(statement)
                    elif together:
                        groups.append(together)
                        together = []
                if together:
                    groups.append(together)
    return list({group[0].lineno: group for group in groups}.values())


def module_of(name: str) -> str:
    """``skate.core.ids`` for ``src/skate/core/ids.py``."""
    return name.removeprefix("src/").removesuffix(".py").removesuffix("/__init__").replace("/", ".")


@functools.cache
def imports_at_the_top() -> dict[str, set[str]]:
    """The modules of Skate and which others each imports when it is itself imported."""
    modules = {module_of(source.name): source for source in everything() if source.layer}
    graph = {}
    for name, source in modules.items():
        inside = {node.lineno for group in grouped_imports(source.tree) for node in group}
        inside |= for_type_checkers(source.tree)
        found = [
            m for n in ast.walk(source.tree) if getattr(n, "lineno", 0) not in inside for m in imported(n)
        ]
        graph[name] = {
            module for long in found for module in (long, long.rpartition(".")[0]) if module in modules
        }
    return graph


def for_type_checkers(tree: ast.Module) -> set[int]:
    """The lines of what stands under ``if TYPE_CHECKING``, which never runs and so closes no cycle."""
    blocks = [
        n for n in ast.walk(tree) if isinstance(n, ast.If) and ast.unparse(n.test).endswith("TYPE_CHECKING")
    ]
    return {
        n.lineno for block in blocks for each in block.body for n in ast.walk(each) if hasattr(n, "lineno")
    }


def reached_from(module: str, importer: str = "") -> set[str]:
    """All modules of Skate that importing one brings in, the face excepted: it imports lazily.

    The packages that the importer lies in are loaded before it, so they bring in nothing.
    """
    graph = imports_at_the_top()
    loaded = {"skate", *(name for name in graph if importer.startswith(name + "."))}
    reached: set[str] = set()
    pending = {module, module.rpartition(".")[0]} & graph.keys() - loaded
    while pending:
        reached |= pending
        pending = {target for name in pending for target in graph[name]} - reached - loaded
    return reached


def broad_handlers_give_reasons(source: Source) -> Iterator[str]:
    for node in ast.walk(source.tree):
        if not isinstance(node, ast.ExceptHandler):
            continue
        last = node.body[-1]
        if isinstance(last, ast.Raise) and last.exc is None:  # it cleans up and lets the error propagate
            continue
        caught = node.type.elts if isinstance(node.type, ast.Tuple) else [node.type]
        names = {getattr(kind, "id", None) for kind in caught if kind is not None}
        if (node.type is None or names & {"Exception", "BaseException"}) and not source.explained(
            node.lineno
        ):
            yield (
                f"{source.name}:{node.lineno} catches everything: name the errors that are meant, or "
                "say in a comment on this line or the one above why all are"
            )


def no_sleeps_in_tests(source: Source) -> Iterator[str]:
    if not source.name.startswith("tests/"):
        return
    pure = source.name.startswith(NO_SLEEP_AT_ALL)
    work = (
        []
        if pure
        else [range(n.lineno, (n.end_lineno or n.lineno) + 1) for n in remote_definitions(source.tree)]
    )
    for node in ast.walk(source.tree):
        if not isinstance(node, ast.Call) or ast.unparse(node.func) not in (
            "time.sleep",
            "asyncio.sleep",
            "sleep",
        ):
            continue
        if ast.unparse(node) == "asyncio.sleep(0)" or any(node.lineno in lines for lines in work):
            continue
        if pure or not source.explained(node.lineno):
            yield (
                f"{source.name}:{node.lineno} sleeps: wait for the condition with waiting.wait_for(); a "
                "sleep that is the work under test stands in a remote function, or a comment says so"
            )


def remote_definitions(tree: ast.Module) -> list[ast.stmt]:
    """The functions and classes that run elsewhere: what they sleep is the work that a test watches."""
    return [
        node
        for node in ast.walk(tree)
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef)
        and any("remote" in ast.unparse(decorator) for decorator in node.decorator_list)
    ]


def file_has_a_label(source: Source) -> Iterator[str]:
    path = Path(source.name)
    for part in (path.with_suffix(""), *path.parents):
        if part.name in BANNED_NAMES and part.as_posix() not in ALLOWED_NAMES:
            yield f"{source.name}: {part.name!r} says nothing of what is inside; name the file after its noun"


def module_says_what_it_is(source: Source) -> Iterator[str]:
    if not source.layer or not source.tree.body:
        return
    if not ast.get_docstring(source.tree):
        yield f"{source.name} has no docstring: open it with one sentence on what it holds, and why"
    if any(source.functions()) and "from __future__ import annotations" not in source.text:
        yield f"{source.name} lacks `from __future__ import annotations`: hints then cost nothing"


def arguments_have_their_own_lines(source: Source) -> Iterator[str]:
    for node in ast.walk(source.tree):
        if isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            section = (ast.get_docstring(node) or "").partition("Args:\n")[2].partition("\n\n")[0]
            if joined := re.search(r"\S[.)\]] ((?:[a-z_]\w*, )*[a-z_]\w*): ", section):
                yield f"{source.name}:{node.lineno} describes {joined[1]} on the line of another argument"


RULES: list[Callable[[Source], Iterator[str]]] = [
    file_is_short,
    functions_are_short,
    functions_take_few_parameters,
    imports_follow_the_arrows,
    imports_stand_at_the_top,
    broad_handlers_give_reasons,
    no_sleeps_in_tests,
    file_has_a_label,
    module_says_what_it_is,
    arguments_have_their_own_lines,
]


@functools.cache
def everything() -> tuple[Source, ...]:
    folders = ("src", "tests", "examples", "benchmarks")
    paths = [path for folder in folders for path in sorted((ROOT / folder).rglob("*.py"))]
    return tuple(
        Source(path, path.relative_to(ROOT).as_posix()) for path in paths if UNTOUCHED not in path.parents
    )


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.__name__)
def test_every_file_keeps_the_rule(rule: Callable[[Source], Iterator[str]]) -> None:
    complaints = [complaint for source in everything() for complaint in rule(source)]
    assert not complaints, f"{len(complaints)} to mend:\n" + "\n".join(complaints)


def test_the_lists_of_what_is_too_large_only_shrink() -> None:
    sizes = {source.name: source.text.count("\n") for source in everything()}
    for source in everything():
        for name, node in source.functions():
            sizes[name] = (node.end_lineno or node.lineno) - node.lineno + 1
    stale = [
        f"{name} is listed with {listed} lines, has {sizes.get(name, 0)}: lower the number or drop it"
        for listed_sizes, limit in ((LONG_FILES, FILE_LINES), (LONG_FUNCTIONS, FUNCTION_LINES))
        for name, listed in listed_sizes.items()
        if sizes.get(name) != listed or listed <= limit
    ]
    assert not stale, "\n".join(stale)


def vague_docstrings(source: Source) -> Iterator[str]:
    kinds = ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef
    for node in [each for each in ast.walk(source.tree) if isinstance(each, kinds)]:
        word = (ast.get_docstring(node) or "").partition(" ")[0].rstrip(",")
        if word in ("What", "Whether", "Those", "It"):
            place = f"{source.name}:{node.body[0].lineno}"
            remedy = "begin with a verb ('Return the ...'), a noun phrase ('The ids of ...') or 'True if ...'"
            yield f"{place} opens a docstring with {word!r}: {remedy}"


def test_docstrings_open_with_a_verb_or_a_noun() -> None:
    found: dict[str, list[str]] = {package: [] for package in VAGUE_DOCSTRINGS}
    for source in everything():
        package = f"src/skate/{source.layer}" if source.layer else Path(source.name).parts[0]
        found.setdefault(package, []).extend(vague_docstrings(source))
    for package, complaints in found.items():
        allowed = VAGUE_DOCSTRINGS.get(package, 0)
        assert len(complaints) <= allowed, f"{package} may have {allowed}:\n" + "\n".join(complaints)
        assert len(complaints) == allowed, f"{package} has {len(complaints)}: lower VAGUE_DOCSTRINGS to that"


def test_the_lists_of_exceptions_name_what_exists() -> None:
    names = {source.name for source in everything()}
    functions = {name for source in everything() for name, _ in source.functions()}
    gone = sorted((set(OVER_THE_ARROW) - names) | (set(MANY_PARAMETERS) - functions))
    assert not gone, f"drop these entries, what they name is gone: {gone}"


BROKEN = {
    "file_is_short": ("src/skate/core/long.py", "x = 1\n" * 501),
    "functions_are_short": ("src/skate/core/x.py", "def f():\n" + "    x = 1\n" * 60),
    "functions_take_few_parameters": ("src/skate/core/x.py", "def f(a, b, c, d, e, *, g, h, i, j): ...\n"),
    "imports_follow_the_arrows": ("src/skate/core/x.py", "from skate.wire import channel\n"),
    "imports_stand_at_the_top": ("src/skate/node/x.py", "def f():\n    import os\n"),
    "broad_handlers_give_reasons": ("src/skate/core/x.py", "try:\n    pass\nexcept Exception:\n    pass\n"),
    "no_sleeps_in_tests": ("tests/process/test_x.py", "import time\n\ndef test():\n    time.sleep(1)\n"),
    "file_has_a_label": ("src/skate/data/utils.py", "x = 1\n"),
    "arguments_have_their_own_lines": (
        "src/skate/core/x.py",
        'def f(a, b):\n    """Do it.\n\n    Args:\n        a: one. b: two.\n    """\n',
    ),
    "module_says_what_it_is": ("src/skate/core/x.py", "def f(): ...\n"),
}


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.__name__)
def test_the_rule_sees_a_file_that_breaks_it(rule: Callable[[Source], Iterator[str]], tmp_path: Path) -> None:
    name, text = BROKEN[rule.__name__]
    path = tmp_path / "broken.py"
    path.write_text(text)
    assert [complaint for complaint in rule(Source(path, name)) if complaint.startswith(name)]


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("src/skate/data/x.py", "from skate.client.object import object_ref as refs\n"),
        ("src/skate/util/x.py", "from skate.core.ids import ObjectId\n"),
        ("src/skate/core/x.py", "import skate\n"),
        ("src/skate/core/x.py", "from skate import get\n"),
        ("src/skate/core/x.py", "from skate.exceptions import RayError\n"),
        ("src/skate/node/x.py", "import skate.client.object.object_ref\n"),
        ("src/skate/client/x.py", "from . import refs\n"),
    ],
)
def test_arrows_that_point_the_wrong_way_are_seen(name: str, text: str, tmp_path: Path) -> None:
    path = tmp_path / "x.py"
    path.write_text(text)
    assert list(imports_follow_the_arrows(Source(path, name)))


def test_a_cycle_dodged_by_a_late_import_is_seen(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    graph = {"skate.node.a": {"skate.node.b"}, "skate.node.b": {"skate.node.c"}, "skate.node.c": set()}
    monkeypatch.setitem(globals(), "imports_at_the_top", lambda: graph)
    path = tmp_path / "x.py"
    path.write_text("def f():\n    from skate.node import a  # heavy\n")
    assert list(imports_stand_at_the_top(Source(path, "src/skate/node/c.py")))
    assert not list(imports_stand_at_the_top(Source(path, "src/skate/node/d.py")))


def test_a_handler_that_lets_the_error_go_on_is_let_pass(tmp_path: Path) -> None:
    path = tmp_path / "x.py"
    path.write_text("try:\n    work()\nexcept BaseException:\n    undo()\n    raise\n")
    assert not list(broad_handlers_give_reasons(Source(path, "src/skate/node/x.py")))


def test_a_sleep_inside_remote_work_is_let_pass(tmp_path: Path) -> None:
    path = tmp_path / "x.py"
    path.write_text("@ray.remote\nclass Slow:\n    def work(self):\n        time.sleep(60)\n")
    assert not list(no_sleeps_in_tests(Source(path, "tests/process/test_x.py")))
    assert list(no_sleeps_in_tests(Source(path, "tests/core/test_x.py"))), "pure machines have no use for it"
