"""Comparison of two tables of names, name by name and signature by signature."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import Any

Arguments = ast.arguments


def differences(module: str, wanted: dict[str, Any], found: Any) -> Iterator[tuple[str, str]]:
    """Dotted names of what is missing or has another signature, with a sentence each."""
    if isinstance(found, str):
        yield module, f"the module cannot be imported: {found[:200]}"
        return
    for name, what in wanted.items():
        full = f"{module}.{name}"
        if name not in found:
            yield full, "there is no such name"
        elif isinstance(what, dict):
            yield from of_class(full, what, found[name])
        elif isinstance(what, str) and what != "=":
            yield from of_signature(full, what, found[name])


def of_class(full: str, wanted: dict[str, Any], found: Any) -> Iterator[tuple[str, str]]:
    """The names that a class lacks."""
    if not isinstance(found, dict):
        if found is None:
            yield full, "is no class"
        return
    if "error" in found and "" not in found:
        yield full, found["error"][:200]
        return
    for member, what in wanted.items():
        if member and member not in found:
            yield f"{full}.{member}", "there is no such member"
        else:
            yield from of_signature(f"{full}.{member}" if member else f"{full}()", what, found[member])


def of_signature(full: str, wanted: str | None, found: Any) -> Iterator[tuple[str, str]]:
    """Why calls that fit one signature may not fit the other."""
    if isinstance(found, dict):
        found = found.get("")
    if wanted is None or found is None:
        return
    why = mismatch(parsed(wanted), parsed(found))
    if why:
        yield full, f"{why}: ({wanted}) is wanted, ({found}) is there"


def parsed(text: str) -> Arguments:
    """A signature's parameters; of those that start with an underscore none."""
    function = ast.parse(f"def f({text}): pass").body[0]
    assert isinstance(function, ast.FunctionDef)
    return function.args


def defaults(arguments: Arguments) -> dict[str, str | None]:
    """The default of each parameter; None where there is none."""
    positional = [*arguments.posonlyargs, *arguments.args]
    missing: list[ast.expr | None] = [None] * (len(positional) - len(arguments.defaults))
    pairs = [
        *zip(positional, missing + arguments.defaults, strict=True),
        *zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True),
    ]
    return {each.arg: None if value is None else ast.unparse(value) for each, value in pairs}


def mismatch(wanted: Arguments, found: Arguments) -> str:
    """The first reason why a call that fits `wanted` may not fit `there`; empty if there is none."""
    if found.vararg and found.kwarg and not (found.args or found.kwonlyargs):
        return ""
    have, want = defaults(found), defaults(wanted)
    order = [each.arg for each in (*found.posonlyargs, *found.args)]
    at = 0
    for each in (*wanted.posonlyargs, *wanted.args):
        if each.arg.startswith("_"):
            continue
        named = [name for name in order if not name.startswith("_")]
        if each in wanted.posonlyargs:
            if len(named) <= at and not found.vararg:
                return f"{each.arg} is not taken by position"
        elif each.arg not in named[at : at + 1] and not found.vararg:
            return f"{each.arg} is not parameter {at + 1}"
        at += 1
    for each in wanted.kwonlyargs:
        if each.arg not in have and not each.arg.startswith("_") and not found.kwarg:
            return f"there is no parameter {each.arg}"
    for name, default in want.items():
        if default is None or name not in have or name.startswith("_"):
            continue  # who asks for less takes the same calls
        if have[name] is None:
            return f"{name} has no default"
        if have[name] != default and "..." not in (default, have[name]) and " " not in default:
            return f"the default of {name} is another"
    more = [
        name for name, default in have.items() if name not in want and default is None and not wanted.vararg
    ]
    if more and not wanted.posonlyargs:
        return f"{more[0]} is asked for"
    if not wanted.args and not wanted.kwonlyargs and wanted.vararg and wanted.kwarg:
        return ""  # a wrapper, which does not say what it takes
    if (wanted.vararg and not found.vararg) or (wanted.kwarg and not found.kwarg):
        return "it takes other numbers of arguments"
    return ""
