"""English text about Python, available on every machine: the reference topics of ``pydoc_data``, and the source of the
library.
"""

from __future__ import annotations

import inspect
import sysconfig
from collections.abc import Iterator
from pathlib import Path
from pydoc_data import topics
from typing import NamedTuple

#: Folders of the library that are about tests and old tools, not about Python.
SKIPPED = {"test", "tests", "idlelib", "lib2to3", "site-packages", "turtledemo", "__pycache__"}


class Document(NamedTuple):
    """A text of Python's own documentation; ``name`` is the subject."""

    name: str
    answer: str


def library_files() -> list[str]:
    """Return the source files of the standard library, in order; the input of tasks and blocks."""
    root = Path(sysconfig.get_path("stdlib"))
    found = [path for path in root.rglob("*.py") if not SKIPPED & set(path.relative_to(root).parts)]
    return [str(path) for path in sorted(found)]


def topic_documents() -> Iterator[Document]:
    """Yield the reference topics of Python's help() about statements, types and methods."""
    for name, text in sorted(topics.topics.items()):
        yield Document(name, cleaned(text))


def cleaned(text: str) -> str:
    """Remove indentation, trailing blanks and repeated empty lines."""
    lines: list[str] = []
    for line in inspect.cleandoc(text).splitlines():
        line = line.rstrip()
        if line or (lines and lines[-1]):
            lines.append(line)
    return "\n".join(lines).strip()
