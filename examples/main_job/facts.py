"""Facts: what each function of Python's library does, in one sentence of its docstring."""

from __future__ import annotations

import ast
import importlib
import inspect
import re
import sysconfig
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

#: The modules that the model learns about. A module of another file or language is known by the name that programs use.
_SUBJECTS = """
    builtins bisect collections csv glob gzip heapq itertools json math os os.path pathlib queue random re shutil statistics
    string subprocess tempfile textwrap threading time urllib.parse zipfile
"""
SUBJECTS = _SUBJECTS.split()
#: What few programs use.
SKIPPED = re.compile(
    r"(bytearray|bytes|frozenset|memoryview|collections\.User\w+|statistics\.NormalDist)\b|os\.(f|W|\w*(id|attr|sched|tty|fd|p?grp|login|"
    r"prio|wait|spawn|fork|log|dev|exec|conf|barrier|pipe|pty|errno|affin|stdout|inherit|range|node|block|major|minor|time|lock|trunc)\w*)|threading\.\w*[a-z][A-Z]|threading\.\w+\.\w+[A-Z]"
)
LONGEST = 16  # words of a sentence

#: The verbs with which a sentence may begin.
_VERBS = """
    accept add allow append apply attach bind build calculate call change check choose close compare compile compress
    compute concatenate connect construct convert copy count create decode decompress decrement delay delete deserialize
    determine display divide emit empty encode execute extend extract find flush force format generate get increment insert
    invert join listen load look make merge move normalize open parse perform pop print push put query raise read receive
    release remove rename repeat replace replicate reverse return rotate round run schedule search seek send serialize set
    show shuffle signal sleep sort split start stop store strip substitute swap test transform truncate try unpack update
    wait wake walk wrap write yield
"""
VERBS = _VERBS.split()


class Fact(NamedTuple):
    """A function, such as ``str.upper``; the verb of its sentence, ``return``, and the rest of it."""

    name: str
    verb: str
    rest: str


def third(verb: str) -> str:
    """Return the third person of a verb: creates, copies, pushes."""
    if re.search(r"[^aeiou]y$", verb):
        return verb[:-1] + "ies"
    return verb + ("es" if re.search(r"(s|x|z|sh|ch)$", verb) else "s")


_SIGNATURE = re.compile(r"[\w.]+\(")
_BASE = {form: verb for verb in VERBS for form in (verb, third(verb))}


def sources() -> list[str]:
    """Return where facts are: source files of the subjects, and the names of subjects for their compiled functions."""
    root = Path(sysconfig.get_path("stdlib"))
    candidates = [root / "posixpath.py"]
    for subject in SUBJECTS:
        place = root.joinpath(*subject.split("."))
        candidates += [place.with_suffix(".py"), *place.glob("*.py")]
    return [
        *SUBJECTS,
        *sorted({str(path) for path in candidates if path.exists() and _module(path) in SUBJECTS}),
    ]


def facts_of(source: str) -> list[Fact]:
    """Return the facts of a source file, or those of a module's compiled functions."""
    found = _of_file(Path(source)) if source.endswith(".py") else _of_compiled(source)
    return [fact for name, text in found if (fact := as_fact(name, text)) is not None]


def as_fact(name: str, docstring: str) -> Fact | None:
    """Return the first sentence of a docstring as a fact; None if it does not say in few words what a function does."""
    paragraphs = re.split(r"\n\s*\n", inspect.cleandoc(docstring))
    text = paragraphs[-1 if len(paragraphs) == 1 else int(bool(_SIGNATURE.match(paragraphs[0])))]
    text = re.sub(r"[`*]+|\B'|'\B|\s*\((?:[^()]|\([^()]*\))*\)", "", " ".join(text.split()))
    sentence = re.split(r"[.;:](?:\s|$)|,? such that ", text.removeprefix("Recursively "), maxsplit=1)[0]
    first, _, rest = sentence.partition(" ")
    plain = re.fullmatch(r"[\w ,'./-]+", rest) is not None
    if (
        SKIPPED.match(name)
        or not plain
        or rest.isupper()
        or first.lower() not in _BASE
        or not 2 <= len(rest.split()) < LONGEST
    ):
        return None
    # Verbs that follow: "and return the item".
    rest = re.sub(
        r"(?<=and )(return|read|close|add|write|remove|wait)(?= )", lambda found: third(found[0]), rest
    )
    return Fact(name, _BASE[first.lower()], rest.strip(" ,"))


def _module(path: Path) -> str:
    """Return the module that programs import for a file; its private parts are left out."""
    parts = path.relative_to(sysconfig.get_path("stdlib")).with_suffix("").parts
    name = ".".join(part for part in parts if not part.startswith("_"))
    return "os.path" if name == "posixpath" else name


def _of_file(path: Path) -> Iterator[tuple[str, str]]:
    pending: list[tuple[str, ast.AST]] = [(_module(path), ast.parse(path.read_text(encoding="utf-8")))]
    while pending:
        within, node = pending.pop()
        for child in ast.iter_child_nodes(node):
            if not isinstance(child, ast.ClassDef | ast.FunctionDef) or child.name.startswith("_"):
                continue
            name = f"{within}.{child.name}".replace("random.Random.", "random.")
            if isinstance(child, ast.ClassDef):
                pending.append((name, child))
            elif text := ast.get_docstring(child):
                yield name, text


def _of_compiled(module: str) -> Iterator[tuple[str, str]]:
    before = "" if module == "builtins" else f"{module}."
    homes = (None, module, f"_{module}", *{"os": ["posix"], "builtins": ["io", "_io"]}.get(module, []))
    pending = [(before + name, member) for name, member in _public(importlib.import_module(module))]
    while pending:
        name, member = pending.pop()
        if getattr(member, "__module__", None) not in homes:
            continue  # it comes from another module, which has it under a better name
        if inspect.isclass(member) and name.count(".") == before.count("."):
            pending.extend((f"{name}.{each}", within) for each, within in _public(member))
        if (inspect.isbuiltin(member) or inspect.ismethoddescriptor(member)) and member.__doc__:
            yield name, member.__doc__


def _public(owner: Any) -> list[tuple[str, Any]]:
    return [(name, getattr(owner, name)) for name in vars(owner) if not name.startswith("_")]
