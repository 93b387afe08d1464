"""Rules for the engine's source: messages are unpacked, states are named."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import skate

ENGINE = ("protocol", "core", "wire", "fabric", "node", "client", "worker")
FILES = [path for part in ENGINE for path in sorted((Path(skate.__file__).parent / part).rglob("*.py"))]


def states_have_names(tree: ast.Module) -> Iterator[str]:
    for node in ast.walk(tree):
        if not isinstance(node, ast.Compare):
            continue
        parts = (node.left, *node.comparators)
        named = {part.attr for part in parts if isinstance(part, ast.Attribute)}
        literal = [p.value for p in parts if isinstance(p, ast.Constant) and type(p.value) in (int, str)]
        if named & {"state", "kind"} and literal:
            yield f"{node.lineno} compares a state with {literal[0]!r}: take its name from protocol/states.py or values.py"


def messages_are_unpacked(tree: ast.Module) -> Iterator[str]:
    """A message from a socket has no names, and a field that is read by its number alone says nothing to a reader."""
    for node in ast.walk(tree):
        if not isinstance(node, ast.Attribute | ast.Subscript):
            continue
        if not isinstance(node.value, ast.Name) or node.value.id != "message":
            continue
        # Its number, and all of it in an error.
        if isinstance(node, ast.Subscript) and ast.unparse(node.slice) in ("0", "1:"):
            continue
        yield f"{node.lineno} reads {ast.unparse(node)}: unpack the message, `_, oid = message`"


RULES: list[Callable[[ast.Module], Iterator[str]]] = [states_have_names, messages_are_unpacked]


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.__name__)
def test_every_file_of_the_engine_keeps_the_rule(rule: Callable[[ast.Module], Iterator[str]]) -> None:
    complaints = [f"{path}:{each}" for path in FILES for each in rule(ast.parse(path.read_text()))]
    assert not complaints, f"{len(complaints)} to mend:\n" + "\n".join(complaints)


@pytest.mark.parametrize(
    ("rule", "text"),
    [
        (states_have_names, "assert task.state != 3"),
        (states_have_names, "if 'CREATED' == group.state: pass"),
        (messages_are_unpacked, "number = message[1]"),
        (messages_are_unpacked, "number = message.number"),
    ],
)
def test_the_rule_sees_a_line_that_breaks_it(rule: Callable[[ast.Module], Iterator[str]], text: str) -> None:
    assert list(rule(ast.parse(text)))
