"""The map of the source files, docs/files.md, made of the first line of each file's docstring.

`python -m tests.file_map` writes it; tests/test_file_map.py fails when it is out of date.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[1]
SOURCE = ROOT / "src" / "skate"
MAP = ROOT / "docs" / "files.md"
#: The parts of the engine in the order in which a call passes them; all other folders follow by name.
ENGINE = ("client", "protocol", "node", "core", "worker", "wire", "fabric")
HEAD = """# The files

One line for each file of `src/skate`, taken from its docstring: first the engine in the order in which a call passes it, then the
libraries and tools by name. [How Skate works](architecture.md) is the story that goes with it. `python -m tests.file_map` writes
this page.
"""


def first_line(path: Path) -> str:
    """Return the first line of a file's docstring, without what Markdown would take for markup; empty if it has none."""
    docstring = ast.get_docstring(ast.parse(path.read_text())) or ""
    return (
        docstring.split("\n\n")[0]
        .replace("\n", " ")
        .replace("|", "\\|")
        .replace("<", "&lt;")
        .replace("*", "\\*")
    )


def folders() -> Iterator[Path]:
    """Yield the folders that hold Python files, in the order of the map."""
    found = sorted({path.parent for path in SOURCE.rglob("*.py")})

    def place(folder: Path) -> tuple[int, str]:
        part = folder.relative_to(SOURCE).parts[:1]
        at = ENGINE.index(part[0]) if part and part[0] in ENGINE else len(ENGINE)
        return at, folder.relative_to(SOURCE).as_posix()

    return iter(sorted(found, key=place))


def build() -> str:
    """Return the text of the map."""
    lines = [HEAD]
    for folder in folders():
        files = sorted(path for path in folder.glob("*.py") if path.name != "__init__.py")
        name = folder.relative_to(SOURCE).as_posix()
        package = folder / "__init__.py"
        docstring = first_line(package) if package.exists() else ""
        lines.append(f"## {'skate' if name == '.' else name}/\n")
        if docstring:
            lines.append(f"{docstring}\n")
        if files:
            lines += ["| file | holds |", "|---|---|"]
            lines += [f"| `{path.name}` | {first_line(path)} |" for path in files]
            lines.append("")
    return "\n".join(lines).rstrip() + "\n"


if __name__ == "__main__":
    MAP.write_text(build())
