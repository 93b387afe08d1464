"""The searched texts: Python's reference and the docstrings of well-known modules, cut into passages of a
paragraph or two.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from texts import python_documentation as documentation

#: Characters of a passage; about a hundred tokens, less than half of what the embedding model reads at once.
LONGEST = 480
SHORTEST = 40
#: Modules that people ask about; the first parts of their names.
_MODULES = """
    argparse ast base64 bisect calendar collections concurrent configparser contextlib copy csv ctypes
    dataclasses datetime decimal difflib enum fileinput fnmatch fractions functools getpass glob graphlib
    gzip hashlib heapq html inspect io ipaddress json linecache logging mimetypes os pathlib pickle
    platform pprint queue random re sched secrets shelve shlex shutil signal socket sqlite3 statistics
    string subprocess tarfile tempfile textwrap threading timeit traceback types unittest urllib uuid
    warnings weakref zipfile zoneinfo
"""
MODULES = frozenset(_MODULES.split())


#: What makes the line above it a heading.
UNDERLINE = re.compile(r"\s*([*=~^-])\1{2,}\s*")
SENTENCE_END = re.compile(r"(?<=[.!?:])\s+(?=[A-Z\"'`*(])")


class Passage(NamedTuple):
    """A piece of text, and what it is about."""

    title: str
    text: str


def all_passages() -> Iterator[Passage]:
    """The passages, always in the same order on one version of Python."""
    # Some topics are others put together; what is said by a short one is not said again by a long one.
    said: set[str] = set()
    for document in sorted(documentation.topic_documents(), key=lambda each: len(each.answer)):
        yield from passages_of(f"reference: {document.name}", _without(said, document.answer))
    for path in documentation.library_files():
        if documentation.module_name(path).split(".")[0] not in MODULES:
            continue
        for document in documentation.docstring_documents(path):
            if not any(part.startswith("_") for part in document.name.split(".")):
                # What a docstring is about stands at its beginning; more of one would only be found in its stead.
                yield from list(passages_of(document.name, document.answer))[:1]


def passages_of(title: str, text: str) -> Iterator[Passage]:
    """A text in passages: whole paragraphs as long as they fit, whole sentences of those that do not. Grammars are left out."""
    for packed in _packed(_parts(text), "\n\n"):
        letters = sum(each.isalpha() or each.isspace() for each in packed)
        if len(packed) >= SHORTEST and letters > 0.75 * len(packed):
            yield Passage(title, packed)


def _without(said: set[str], text: str) -> str:
    paragraphs = [each for each in text.split("\n\n") if each not in said]
    said.update(paragraphs)
    return "\n\n".join(paragraphs)


def _parts(text: str) -> Iterator[str]:
    for paragraph in text.split("\n\n"):
        lines = [line for line in paragraph.splitlines() if not UNDERLINE.fullmatch(line)]
        whole = "\n".join(lines)
        if len(whole) <= LONGEST:
            yield whole
        else:
            # Prose has ends of sentences, what else is so long has ends of lines.
            units = SENTENCE_END.split(whole)
            yield from _packed(units, " ") if len(units) > 1 else _packed(lines, "\n")


def _packed(units: Iterable[str], between: str) -> Iterator[str]:
    pending = ""
    for unit in units:
        if pending and len(pending) + len(unit) > LONGEST:
            yield pending
            pending = ""
        pending = f"{pending}{between}{unit}" if pending else unit
    yield pending
