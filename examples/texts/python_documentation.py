"""English text about Python, available on every machine: the reference topics of ``pydoc_data`` and the
docstrings of the library.

A document is a question and its answer, so that a model trained on it can chat.
"""

from __future__ import annotations

import ast
import inspect
import sysconfig
from collections.abc import Iterator
from pathlib import Path
from pydoc_data import topics
from typing import NamedTuple

#: Shorter docstrings rarely say more than the name; in characters.
SHORTEST = 60
#: Folders of the library whose docstrings are about tests and old tools, not about Python.
SKIPPED = {"test", "tests", "idlelib", "lib2to3", "site-packages", "turtledemo", "__pycache__"}


class Document(NamedTuple):
    """A question with its answer from Python's own documentation; ``name`` is the subject."""

    name: str
    question: str
    answer: str


def library_files() -> list[str]:
    """Return the source files of the standard library, in order; the input of tasks and blocks."""
    root = Path(sysconfig.get_path("stdlib"))
    found = [path for path in root.rglob("*.py") if not SKIPPED & set(path.relative_to(root).parts)]
    return [str(path) for path in sorted(found)]


def topic_documents() -> Iterator[Document]:
    """Yield the reference topics of Python's help() about statements, types and methods."""
    for name, text in sorted(topics.topics.items()):
        yield Document(name, f"What does Python's reference say about {name}?", cleaned(text))


def docstring_documents(path: str) -> Iterator[Document]:
    """Yield the docstrings of one source file; none if it does not parse."""
    try:
        tree = ast.parse(Path(path).read_text(encoding="utf-8"))
    except (SyntaxError, UnicodeDecodeError):
        return
    module = module_name(path)
    for name, node in _documented(tree, module):
        text = ast.get_docstring(node)
        if text and len(text) >= SHORTEST:
            yield Document(name, f"What is {name}?", cleaned(text))


def module_name(path: str) -> str:
    """Return the module name of a library file, such as ``json.decoder``."""
    root = Path(sysconfig.get_path("stdlib"))
    relative = Path(path).relative_to(root).with_suffix("")
    parts = [part for part in relative.parts if part != "__init__"]
    return ".".join(parts)


def cleaned(text: str) -> str:
    """Remove indentation, trailing blanks and repeated empty lines."""
    lines: list[str] = []
    for line in inspect.cleandoc(text).splitlines():
        line = line.rstrip()
        if line or (lines and lines[-1]):
            lines.append(line)
    return "\n".join(lines).strip()


Documented = ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef


def _documented(tree: ast.Module, module: str) -> Iterator[tuple[str, Documented]]:
    pending: list[tuple[str, Documented]] = [(module, tree)]
    while pending:
        name, node = pending.pop()
        yield name, node
        for child in node.body:
            if isinstance(child, (ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)):
                pending.append((f"{name}.{child.name}", child))
