"""The searched texts: a page for each documented module, class, function and method of well-known modules, and Python's
reference, cut into passages of a paragraph or two.
"""

from __future__ import annotations

import importlib
import inspect
import re
import warnings
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import documentation

#: The characters of a passage; about a hundred tokens, less than half of the embedding model's context.
LONGEST = 480
SHORTEST = 40
#: Docstrings are short and complete, such as "Return the square root of x."
SHORTEST_OF_NAME = 15
#: Commonly used modules; their names are looked up in the running Python, so builtins and extension modules are included.
_MODULES = """
    builtins argparse array ast asyncio base64 bisect calendar cmath collections collections.abc
    concurrent.futures configparser contextlib copy csv ctypes dataclasses datetime decimal difflib
    email.message enum fileinput fnmatch fractions functools getpass glob graphlib gzip hashlib heapq hmac
    html html.parser http.client http.server inspect io ipaddress itertools json keyword linecache locale
    logging math mimetypes multiprocessing operator os os.path pathlib pdb pickle platform pprint queue
    random re sched secrets select shelve shlex shutil signal smtplib socket sqlite3 statistics string
    struct subprocess sys tarfile tempfile textwrap threading time timeit tokenize traceback types typing
    unicodedata unittest urllib.parse urllib.request uuid warnings weakref webbrowser xml.etree.ElementTree
    zipfile zlib zoneinfo
"""
MODULES = tuple(_MODULES.split())
#: Topics of the reference that repeat pages (methods of strings, pdb) or that beginners do not need.
LEFT_OUT = {"debugger", "specialnames", "string-methods"}
#: The reference counts as much as a function that so many files call.
REFERENCE_USES = 30
#: A name that is called, with its module or a dot before it.
CALLED = re.compile(r"(?<!def )(?<!class )(\.?\b[A-Za-z_][A-Za-z0-9_.]*)\(")
#: A line such as "int(x, base=10) -> integer".
SIGNATURE = re.compile(r"[\w.]+\(.*")

#: An underline that marks the line above it as a heading.
UNDERLINE = re.compile(r"\s*([*=~^-])\1{2,}\s*")
SENTENCE_END = re.compile(r"(?<=[.!?:])\s+(?=[A-Z\"'`*(])")


class Passage(NamedTuple):
    """A piece of text with its topic, the sentence that summarizes it, and the number of files that use its name."""

    title: str
    summary: str
    text: str
    uses: int


def all_passages() -> Iterator[Passage]:
    """Return the passages, always in the same order for one version of Python: the reference, then the library."""
    # Some topics combine others; text of a short topic is not repeated by a longer one.
    known: set[str] = set()
    for document in sorted(documentation.topic_documents(), key=lambda each: len(each.answer)):
        if document.name not in LEFT_OUT:
            yield from passages_of(f"reference: {document.name}", _without(known, document.answer))
    yield from library_passages()


def library_passages() -> Iterator[Passage]:
    """Yield the beginning of the docstring of each public name; of names with equal docstrings, the best known."""
    uses = Uses()
    pages: dict[tuple[str, str], tuple[str, Any]] = {}
    for name, documented in public_names():
        same = (name.rpartition(".")[2], documentation.cleaned(documented.__doc__))
        if same not in pages or uses.rank(name) > uses.rank(pages[same][0]):
            pages[same] = (name, documented)
    for (_, text), (name, documented) in pages.items():
        lines = text.splitlines()
        # Compiled code may have its signatures, one for each way to call it, at the beginning of the docstring.
        first = next((which for which, line in enumerate(lines) if not SIGNATURE.fullmatch(line)), 0)
        signature = "\n".join(lines[:first]) or _signature(name, documented)
        prose = "\n".join(lines[first:]).strip()
        beginning = next(_packed(_parts(prose), "\n\n"))
        yield Passage(name, summary_of(prose), f"{signature}\n\n{beginning}".strip(), uses.of(name))


def public_names() -> Iterator[tuple[str, Any]]:
    """Yield the documented modules, functions and classes, and the methods of the classes, by name."""
    seen: set[int] = set()
    for module in MODULES:
        try:
            imported = importlib.import_module(module)
        except ImportError:  # a Python may lack extension modules such as sqlite3
            continue
        before = "" if module == "builtins" else f"{module}."
        found = [(module, imported)] if before else []
        for name in getattr(imported, "__all__", None) or dir(imported):
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # some names are deprecated
                value = getattr(imported, name, None)
            if name.startswith("_") or id(value) in seen or not _belongs(value, imported):
                continue
            seen.add(id(value))
            found.append((before + name, value))
            if inspect.isclass(value) and not issubclass(value, BaseException):
                found += [
                    (f"{before}{name}.{member}", each)
                    for member, each in vars(value).items()
                    if not member.startswith("_")
                ]
        yield from (each for each in found if _documented(each[1]))


def _documented(value: Any) -> bool:
    text = getattr(value, "__doc__", None)
    return isinstance(text, str) and len(text.strip()) >= SHORTEST_OF_NAME


def _belongs(value: Any, module: Any) -> bool:
    """True for functions and classes of a module; what it has only imported is left out."""
    if not (inspect.isroutine(value) or inspect.isclass(value)):
        return False
    home = getattr(value, "__module__", None)
    name = module.__name__
    return name == "builtins" or hasattr(module, "__all__") or home in (name, f"_{name}", None)


class Uses:
    """Counts the files of the standard library that call a name: what it uses often, beginners look for as well."""

    def __init__(self) -> None:
        self._names: Counter[str] = Counter()
        for path in documentation.library_files():
            self._names.update(set(CALLED.findall(Path(path).read_text(encoding="utf-8", errors="replace"))))
        self._methods: Counter[str] = Counter()
        for name, count in self._names.items():
            self._methods[name.rpartition(".")[2]] += count

    def of(self, name: str) -> int:
        """Return the count for a function, or a class, or a method, which gets a part of its class's."""
        holder, _, last = name.rpartition(".")
        if holder in ("dict", "list", "set", "str"):  # variables with such values have any name
            return self._methods[last]
        if holder.count(".") == 0 or holder == "os.path":
            return self._names[name]
        return self._names[name] + (self._names[holder] + self._names[holder.rpartition(".")[2]]) // 4

    def rank(self, name: str) -> tuple[int, int]:
        """Return the order of names: of equal docstrings the one is kept that is short and much used."""
        return -name.count("."), self.of(name)


def _signature(name: str, documented: Any) -> str:
    try:
        return f"{name}{inspect.signature(documented)}"
    except (TypeError, ValueError):  # a module, a property, or compiled code
        return ""


def summary_of(text: str) -> str:
    """Return the first sentence of a text, or its first paragraph if that is shorter, on one line."""
    return " ".join(SENTENCE_END.split(text.partition("\n\n")[0])[0].split())


def passages_of(title: str, text: str) -> Iterator[Passage]:
    """Split a topic of the reference into passages: whole paragraphs if they fit, else whole sentences. Grammars are dropped."""
    for packed in _packed(_parts(text), "\n\n"):
        letters = sum(each.isalpha() or each.isspace() for each in packed)
        if len(packed) >= SHORTEST and letters > 0.75 * len(packed):
            yield Passage(title, summary_of(packed), packed, REFERENCE_USES)


def _without(known: set[str], text: str) -> str:
    paragraphs = [each for each in text.split("\n\n") if each not in known]
    known.update(paragraphs)
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
