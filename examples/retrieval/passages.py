"""The searched texts: Python's reference and the docstrings of well-known modules, cut into passages of a
paragraph or two.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from texts import python_documentation as documentation

#: The characters of a passage; about a hundred tokens, less than half of the embedding model's context.
LONGEST = 480
SHORTEST = 40
#: Commonly used modules, by the first parts of their names.
_MODULES = """
    argparse ast base64 bisect calendar collections concurrent configparser contextlib copy csv ctypes
    dataclasses datetime decimal difflib enum fileinput fnmatch fractions functools getpass glob graphlib
    gzip hashlib heapq html inspect io ipaddress json linecache logging mimetypes os pathlib pickle
    platform pprint queue random re sched secrets shelve shlex shutil signal socket sqlite3 statistics
    string subprocess tarfile tempfile textwrap threading timeit traceback types unittest urllib uuid
    warnings weakref zipfile zoneinfo
"""
MODULES = frozenset(_MODULES.split())


#: An underline that marks the line above it as a heading.
UNDERLINE = re.compile(r"\s*([*=~^-])\1{2,}\s*")
SENTENCE_END = re.compile(r"(?<=[.!?:])\s+(?=[A-Z\"'`*(])")


class Passage(NamedTuple):
    """A piece of text with its topic."""

    title: str
    text: str


def all_passages() -> Iterator[Passage]:
    """Return the passages, always in the same order for one version of Python."""
    # Some topics combine others; text of a short topic is not repeated by a longer one.
    said: set[str] = set()
    for document in sorted(documentation.topic_documents(), key=lambda each: len(each.answer)):
        yield from passages_of(f"reference: {document.name}", _without(said, document.answer))
    for path in documentation.library_files():
        if documentation.module_name(path).split(".")[0] not in MODULES:
            continue
        for document in documentation.docstring_documents(path):
            if not any(part.startswith("_") for part in document.name.split(".")):
                # The beginning of a docstring describes its topic; further parts would only compete with it.
                yield from list(passages_of(document.name, document.answer))[:1]


def passages_of(title: str, text: str) -> Iterator[Passage]:
    """Split a text into passages: whole paragraphs if they fit, else whole sentences. Grammars are dropped."""
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
            # Prose is split at sentence ends, other long text at line ends.
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
