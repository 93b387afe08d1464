"""Settings of the documentation site, which `make site` builds from this folder with Sphinx."""

from __future__ import annotations

import builtins
import functools
import importlib
import inspect
import os
import re
import sys
from pathlib import Path, PurePosixPath
from types import ModuleType
from typing import Any

from docutils import nodes
from sphinx import addnodes

from skate.version import RAY_VERSION, __version__

FOLDER = Path(__file__).parent
ROOT = FOLDER.parent

project = "Skate"
author = "the Skate developers"
copyright = "the Skate developers; Apache-2.0"  # noqa: A001 (Sphinx asks for this name)
version = release = __version__
extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.napoleon"]
exclude_patterns = ["pictures/*.py", "README.md"]

html_theme = "furo"
html_title = f"Skate {__version__} (API of Ray {RAY_VERSION})"
html_theme_options = {"source_directory": "docs/", "navigation_with_keys": True}
html_copy_source = False
pygments_style = "friendly"
pygments_dark_style = "monokai"

myst_heading_anchors = 4
autodoc_member_order = "bysource"
autodoc_typehints = "signature"
autodoc_preserve_defaults = True
python_maximum_signature_line_length = 88
add_module_names = False
toc_object_entries_show_parents = "hide"
napoleon_google_docstring = True
napoleon_numpy_docstring = False
napoleon_use_ivar = True

# Pages of the site whose text lies elsewhere in the repository. On GitHub the stub in this folder links there.
PAGES_ELSEWHERE = {
    "architecture": "ARCHITECTURE.md",
    "benchmarks": "benchmarks/README.md",
    "changelog": "CHANGELOG.md",
    "contributing": "CONTRIBUTING.md",
    "examples": "examples/README.md",
    "examples_train": "examples/train/README.md",
    "security": "SECURITY.md",
}

_LINK = re.compile(r"(\]\()([^)\s#]+)((?:#[^)\s]*)?\))")
_PUBLIC = re.compile(r"^```public\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_CODE = re.compile(r"(?<!`)`([^`\n]+(?:\n[^`\n]+)?)`(?!`)")


def read_source(app: Any, docname: str, source: list[str]) -> None:
    """Fetch a page that lies elsewhere, point its links at pages of the site, and list public names."""
    elsewhere = PAGES_ELSEWHERE.get(docname)
    home = PurePosixPath(elsewhere or f"docs/{docname}.md").parent
    text = (ROOT / elsewhere).read_text() if elsewhere else source[0]
    text = _LINK.sub(lambda link: link[1] + site_path(home, link[2], docname) + link[3], text)
    section = module_heading if app.tags.has("quick") else module_section
    source[0] = _PUBLIC.sub(lambda block: "\n".join(map(section, block[1].split())), text)


def site_path(home: PurePosixPath, target: str, docname: str) -> str:
    """Return where a link of a page in `home` leads, seen from the page `docname` of the site."""
    if "://" in target or target.startswith("mailto:"):
        return target
    path = os.path.normpath(home / target)
    for page, elsewhere in PAGES_ELSEWHERE.items():
        if path == elsewhere:
            path = f"docs/{page}.md"
    if path in ("README.md", "docs"):
        path = "docs/index.md"
    if (ROOT / path).is_dir():
        path = f"{path}/README.md" if (ROOT / path / "README.md").exists() else "docs/examples.md"
    return os.path.relpath(path, PurePosixPath("docs", docname).parent)


def public_names(module: ModuleType) -> list[str]:
    """Return the names of `__all__`, or else the classes and functions that the module defines."""
    listed = getattr(module, "__all__", None)
    if listed is not None:
        return [name for name in listed if not name.startswith("_")]
    return [
        name
        for name, value in vars(module).items()
        if not name.startswith("_")
        and (inspect.isclass(value) or inspect.isfunction(value))
        and value.__module__ == module.__name__
    ]


MISSING_LIBRARY = object()


def public_value(module: ModuleType, name: str) -> Any:
    try:
        return getattr(module, name)
    except ImportError:
        return MISSING_LIBRARY


_documented: dict[int, str] = {}


@functools.cache
def public_classes() -> frozenset[type]:
    """Return the classes that some page of the reference lists."""
    pages = "\n".join(page.read_text() for page in (FOLDER / "reference").glob("*.md"))
    modules = [importlib.import_module(name) for block in _PUBLIC.findall(pages) for name in block.split()]
    found = [public_value(module, name) for module in modules for name in public_names(module)]
    return frozenset(value for value in found if inspect.isclass(value))


def module_heading(module_name: str) -> str:
    """Stand in for a section where docstrings are left out, as in the quick build of the tests."""
    return f"## `{module_name}`\n"


def module_section(module_name: str) -> str:
    """Return the section of one module: a heading, and a directive for each public name."""
    module = importlib.import_module(module_name)
    lines = [f"## `{module_name}`", "", "```{eval-rst}", f".. py:module:: {module_name}", ""]
    for name in sorted(public_names(module), key=lambda name: kind_order(public_value(module, name))):
        lines += name_entry(module, name)
    return "\n".join([*lines, "```", ""])


def kind_order(value: Any) -> int:
    """Functions first, then classes, then constants; each in the order of `__all__`."""
    return 0 if inspect.isroutine(value) else 1 if inspect.isclass(value) else 2


def name_entry(module: ModuleType, name: str) -> list[str]:
    value = public_value(module, name)
    if value is MISSING_LIBRARY:
        return [f"* ``{module.__name__}.{name}`` needs a library that is not part of this build.", ""]
    place = f"{module.__name__}.{name}"
    index = ["   :no-index:"] if place in sys.modules else []  # a function of the same name as its module
    if inspect.ismodule(value):
        return []
    if not (inspect.isclass(value) or inspect.isroutine(value)):
        return [f".. py:data:: {name}", ""]
    if id(value) in _documented:
        return [
            f".. py:attribute:: {name}",
            "   :no-index:",
            "",
            f"   The same as ``{_documented[id(value)]}``.",
            "",
        ]
    _documented[id(value)] = place
    if not inspect.isclass(value):
        return [f".. autofunction:: {place}", *index, ""]
    return [f".. autoclass:: {place}", *member_options(value), ""]


def member_options(value: type) -> list[str]:
    """Document what a class has from private bases; what it has from public ones stands there."""
    if issubclass(value, BaseException):
        return []
    ours = [base for base in value.__mro__[1:] if base.__module__.startswith("skate")]
    if all(base in public_classes() for base in ours):
        return ["   :members:"]
    others = sorted(
        base.__name__ for base in value.__mro__[1:] if base not in ours or base in public_classes()
    )
    return ["   :members:", f"   :inherited-members: {', '.join(others)}"]


def plain_docstring(app: Any, what: str, name: str, obj: Any, options: Any, lines: list[str]) -> None:
    """Turn a docstring, where backticks mean code and nothing else is markup, into reStructuredText."""
    kept: list[str] = []

    def keep(code: re.Match[str]) -> str:
        kept.append(f"``{' '.join(code[1].split())}``")
        return f"\0{len(kept) - 1}\0"

    text = _CODE.sub(keep, "\n".join(lines))
    text = re.sub(r"([*|\\])|(?<=\w)(_)(?!\w)", lambda mark: "\\" + mark[0], text)
    text = re.sub(r"(?<=\w)(?=\0\d+\0)|(?<=\d\0)(?=\w)", r"\\ ", text)
    text = re.sub(r"\0(\d+)\0", lambda mark: kept[int(mark[1])], text)
    lines[:] = text.split("\n")


def unlink_builtins(app: Any, doctree: nodes.document) -> None:
    """Keep `str` and `list` in signatures from leading to methods of ours that have these names."""
    for reference in list(doctree.findall(addnodes.pending_xref)):
        if reference.get("refdomain") == "py" and hasattr(builtins, reference["reftarget"]):
            reference.replace_self(reference.children)


def setup(app: Any) -> None:
    app.connect("source-read", read_source)
    app.connect("autodoc-process-docstring", plain_docstring, priority=100)
    app.connect("doctree-read", unlink_builtins)
