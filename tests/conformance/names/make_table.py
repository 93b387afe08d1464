"""Write down the public names of a package as `ray`, with their signatures: modules, classes, methods, functions, values.

    python make_table.py ray > table.json          what real Ray has; it makes the table that the test compares with
    python make_table.py skate table.json          what Skate has of the names in a table

A name is public if no part of its path starts with an underscore and the module says it in `__all__`, or defines it. The
table has names, parameters and the `repr` of defaults only; it holds no code and no text of Ray's.
"""

from __future__ import annotations

import ast
import enum
import importlib
import inspect
import json
import logging
import os
import pkgutil
import re
import sys
import textwrap
import types
import typing
import warnings
from typing import Any

#: No Python API of these libraries: RLlib and the dashboard, what other languages need, Ray's own tests and programs.
OTHER = r"ray\.(rllib|dashboard|scripts|cpp|java|jars|core|streaming|setup-dev|llm|autoscaler\.(?!sdk)|autoscaler$)"
OWN = (
    r".*\.(tests?|conftest|generated|benchmarks?|examples?|example_job|thirdparty|stubs)(\.|$)"
    r"|.*(^|[._])test_|.*_pb2|.*__main__$"
)
#: Machinery behind a public module: reached through it, and named by no documentation.
BEHIND = (
    r"ray\.(cloudpickle|util\.client|util\.spark|util\.collective|experimental\.(channel|rdt|sandbox|collective)|data\.checkpoint"
    r"|data\.(util|namespace_expressions)|tune\.(impl|execution|cli)|air\.(execution|util)|widgets|train\.v2\.(?!api|torch|jax))\."
    r"|ray\.(serve\.utils|tune\.utils\.(resource_updater|callback|file_transfer)|util\.state\.state_\w+"
    r"|dag\.(base|dag_operation_future|format_utils|vis_utils))$"
)
LEFT_OUT = re.compile(f"{OTHER}|{OWN}|{BEHIND}")
NO_NAMES = (logging.Logger, types.ModuleType, typing.TypeVar, type(typing.Any))
NO_MEMBERS = re.compile(r"model_\w+|redis_shard_hash|humanify|schema_dict")
ELSEWHERE = "="


def main(target: str, table_path: str | None) -> None:
    """Print the table of `target`; of the names in the table at `table_path`, if there is one."""
    warnings.simplefilter("ignore")
    logging.disable(logging.CRITICAL)
    if target == "skate":
        importlib.import_module("skate.compat").install()
    out = os.dup(1)
    os.dup2(2, 1)  # what modules print when they are imported is no part of the table
    if table_path is None:
        table = {module: names for module in all_modules() if (names := public_names(module))}
        merge_duplicates(table)
    else:
        with open(table_path) as file:
            wanted = json.load(file)
        table = {module: of_module(module, names) for module, names in wanted.items()}
    lines = [f"{json.dumps(name)}: {json.dumps(table[name], sort_keys=True)}" for name in sorted(table)]
    with os.fdopen(out, "w") as file:
        file.write("{\n" + ",\n".join(lines) + "\n}\n")
    os._exit(0)  # threads of imported libraries are not waited for


def all_modules() -> list[str]:
    """The modules of Ray that can be looked at, public by their path."""
    root = importlib.import_module("ray")
    found = ["ray"]
    pending = [(root.__path__, "ray.")]
    while pending:
        path, prefix = pending.pop()
        for info in pkgutil.iter_modules(path, prefix):
            if info.name.rpartition(".")[2].startswith("_") or LEFT_OUT.match(info.name):
                continue
            found.append(info.name)
            if info.ispkg:
                folder = [os.path.join(each, info.name.rpartition(".")[2]) for each in path]
                pending.append((folder, info.name + "."))
    return sorted(found)


def merge_duplicates(table: dict[str, dict[str, Any]]) -> None:
    """Have a class that several modules name described in one of them, the one that is reached by the fewest steps."""
    homes: dict[int, tuple[str, str]] = {}
    for module in sorted(table, key=lambda name: (name.count("."), name)):
        for name, what in table[module].items():
            value = getattr(sys.modules[module], name)
            if isinstance(what, dict) and homes.setdefault(id(value), (module, name)) != (module, name):
                table[module][name] = ELSEWHERE


def load(name: str) -> Any:
    """A module, or the reason why it cannot be imported."""
    try:
        return importlib.import_module(name)
    except BaseException as error:  # whatever a module does when it is imported, the others are looked at
        return f"{type(error).__name__}: {error}"


def public_names(name: str) -> dict[str, Any]:
    """The public names of a module of Ray and what each is."""
    module = load(name)
    if isinstance(module, str):
        return {}
    listed = getattr(module, "__all__", None)
    names = set(listed or ()) | (defined(module) if listed is None else set())
    found = {}
    for each in sorted(names):
        try:
            value = getattr(module, each)
        except BaseException:  # a name whose part is not installed, or is gone, is no name
            continue
        if each.startswith("_") or isinstance(value, NO_NAMES):
            continue
        if name.count(".") > 0 and each.endswith("_API_GROUP"):
            continue
        if getattr(value, "__module__", "ray").split(".")[0] in ("ray", "builtins") or each in (listed or ()):
            found[each] = described(value)
    return found


def defined(module: Any) -> set[str]:
    """The names that a module defines, or that a package takes from its own modules."""
    path = getattr(module, "__file__", None)
    if not path or not path.endswith(".py"):
        return {
            each
            for each in dir(module)
            if getattr(getattr(module, each), "__module__", "") == module.__name__
        }
    with open(path) as file:
        tree = ast.parse(file.read())
    names: set[str] = set()
    for node in tree.body:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            names.add(node.name)
        elif isinstance(node, ast.Assign | ast.AnnAssign):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            names |= {each.id for each in targets if isinstance(each, ast.Name)}
        elif (
            isinstance(node, ast.ImportFrom)
            and path.endswith("__init__.py")
            and (node.module or "ray").startswith("ray")
        ):
            names |= {each.asname or each.name for each in node.names}
    return names


def of_module(name: str, wanted: dict[str, Any]) -> Any:
    """The wanted names of a module; a text with the reason if it cannot be imported."""
    module = load(name)
    if isinstance(module, str):
        return module
    found = {}
    for each, was in wanted.items():
        try:
            value = getattr(module, each)
        # Also ImportError and the like, of names that are loaded when they are first used.
        except BaseException as error:
            if type(error) is not AttributeError:
                found[each] = {"error": f"{type(error).__name__}: {error}"}
            continue
        found[each] = described(value, was if isinstance(was, dict) else None)
    return found


def described(value: Any, wanted: dict[str, Any] | None = None) -> Any:
    """A class as its methods' signatures, a function as its signature, a value as None."""
    if isinstance(value, type):
        return of_class(value, wanted)
    if callable(value) and not isinstance(value, types.GenericAlias) and type(value).__module__ != "typing":
        return signature(value)
    return None


def of_class(cls: type, wanted: dict[str, Any] | None) -> dict[str, Any]:
    """The constructor (under "") and the public members of a class."""
    found: dict[str, Any] = {"": None if issubclass(cls, enum.Enum) else signature(cls)}
    decorators = getattr(cls, "__pydantic_decorators__", None)
    checks = {name for group in ("validators", "field_validators", "root_validators", "model_validators")
              for name in getattr(decorators, group, ())}  # fmt: skip
    for name in dir(cls):
        if name.startswith("_") or (wanted is not None and name not in wanted):
            continue
        if wanted is None and (NO_MEMBERS.fullmatch(name) or name in checks):
            continue
        member = inspect.getattr_static(cls, name)
        if wanted is None and not of_ray(cls, name):
            continue
        if isinstance(member, staticmethod | classmethod):
            found[name] = signature(getattr(cls, name))
        elif inspect.isroutine(member):
            found[name] = signature(member, skip_self=True)
        else:
            found[name] = None
    for name in {*getattr(cls, "__dataclass_fields__", ()), *getattr(cls, "model_fields", ())}:
        if not name.startswith("_") and (wanted is None or name in wanted):
            found.setdefault(name, None)
    if wanted is not None and not wanted.keys() <= found.keys():
        found.update(dict.fromkeys(attributes(cls) & wanted.keys() - found.keys()))
    return found


def attributes(cls: type) -> set[str]:
    """The names that the methods of a class, and of those that it inherits from, give to `self`."""
    found: set[str] = set()
    for base in cls.__mro__[:-1]:
        found |= getattr(base, "__annotations__", {}).keys()
        try:
            tree = ast.parse(textwrap.dedent(inspect.getsource(base)))
        except (OSError, TypeError, SyntaxError):
            continue
        for node in ast.walk(tree):
            if (
                isinstance(node, ast.Attribute)
                and isinstance(node.ctx, ast.Store)
                and ast.unparse(node.value) == "self"
            ):
                found.add(node.attr)
    return found


def of_ray(cls: type, name: str) -> bool:
    """True if a member comes from a class of Ray's and not from one of Python's or of a library's."""
    for base in cls.__mro__:
        if name in vars(base):
            return base.__module__.split(".")[0] == "ray"
    return False


def signature(value: Any, skip_self: bool = False) -> str | None:
    """Parameters and defaults as text; None if there is no telling."""
    try:
        parameters = list(inspect.signature(value).parameters.values())
    except (ValueError, TypeError):
        return None
    if skip_self:
        parameters = parameters[1:]
    return ", ".join(filter(None, parts(parameters)))


def parts(parameters: list[inspect.Parameter]) -> list[str]:
    """Each parameter as it would be written, without its type."""
    found = []
    starred = False
    for index, each in enumerate(parameters):
        if each.kind is each.KEYWORD_ONLY and not starred:
            found.append("*")
            starred = True
        starred = starred or each.kind is each.VAR_POSITIONAL
        mark = {each.VAR_POSITIONAL: "*", each.VAR_KEYWORD: "**"}.get(each.kind, "")
        found.append(mark + each.name + ("" if each.default is each.empty else f"={default(each.default)}"))
        following = parameters[index + 1 : index + 2]
        if each.kind is each.POSITIONAL_ONLY and not (
            following and following[0].kind is each.POSITIONAL_ONLY
        ):
            found.append("/")
    return found


def default(value: Any) -> str:
    """The `repr` of a default, if it is a plain value; "..." for objects."""
    text = repr(value)
    plain = value is None or isinstance(
        value, bool | int | float | str | bytes | tuple | list | dict | set | frozenset
    )
    if not plain or " at 0x" in text or "<" in text or "/" in text or len(text) > 60:
        return "..."
    return text


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2] if len(sys.argv) > 2 else None)
