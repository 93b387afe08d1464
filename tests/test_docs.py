"""The documents: their links lead somewhere, their Python compiles, the README's runs, and their ids match the tests.

`tests/docs` runs the blocks of all other pages.
"""

from __future__ import annotations

import importlib.util
import re
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
DOCUMENTS = sorted(
    path
    for folder in (".", "docs", "docs/how-to", "docs/reference", "examples", "examples/train", "benchmarks")
    for path in (ROOT / folder).glob("*.md")
)

LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)")
FENCE = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
IDENTIFIER = re.compile(r"\bD-[A-Za-z][A-Za-z-]*[A-Za-z]\b")


def name(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


def blocks(language: str) -> Iterator[tuple[str, str]]:
    for path in DOCUMENTS:
        for found, code in FENCE.findall(path.read_text()):
            if found == language:
                yield f"{name(path)}:{code.splitlines()[0]}", code


@pytest.mark.parametrize("document", DOCUMENTS, ids=name)
def test_links_lead_somewhere(document: Path) -> None:
    links = [link.split("#")[0] for link in LINK.findall(document.read_text()) if "://" not in link]
    dead = [link for link in links if link and not (document.parent / link).exists()]
    assert not dead, f"{name(document)} links to {dead}: mend the path or write the page"


@pytest.mark.parametrize("document", DOCUMENTS, ids=name)
def test_nothing_is_left_to_fill_in(document: Path) -> None:
    assert "TODO" not in document.read_text(), (
        f"{name(document)} has a TODO: fill it in with what was measured"
    )


@pytest.mark.parametrize(
    ("where", "code"), list(blocks("python")), ids=lambda value: value.splitlines()[0][:60]
)
def test_python_blocks_compile(where: str, code: str) -> None:
    compile(code, where, "exec")


def test_the_programs_of_the_readme_run(tmp_path: Path) -> None:
    first, of_data, of_train = [code for where, code in blocks("python") if where.startswith("README.md")]
    assert len([line for line in first.splitlines() if line.strip()]) <= 12, (
        "the README promises twelve lines"
    )
    program = tmp_path / "program.py"
    program.write_text(first)
    done = run(program)
    assert done.returncode == 0, done.stderr
    assert sorted(line.split()[0] for line in done.stdout.splitlines()) == sorted(
        ["/etc/passwd", "/etc/hosts", str(program)]
    )
    program.write_text(of_data)
    assert run(program).stdout == f"{sum(i / 2 for i in range(0, 1000, 3))}\n"
    program.write_text(of_train.replace("/tmp/runs", str(tmp_path)))
    done = run(program)
    assert "'epoch': 2" in done.stdout, done.stderr


def run(program: Path) -> subprocess.CompletedProcess[str]:
    environment = {"PYTHONPATH": str(ROOT / "src"), "PATH": "/usr/bin:/bin"}
    return subprocess.run(
        [sys.executable, str(program)],
        capture_output=True,
        text=True,
        timeout=60,
        env=environment,
        check=False,
    )


def test_every_chosen_difference_has_its_reason_on_the_page() -> None:
    explained = {
        found.lower() for found in IDENTIFIER.findall((ROOT / "docs" / "differences.md").read_text())
    }
    marked = {
        found.lower()
        for path in (ROOT / "tests").rglob("test_*.py")
        if path != Path(__file__)
        for found in re.findall(r"""\bid=["'](D-[\w-]+)["']""", path.read_text())
    }
    missing = sorted(marked - explained)
    assert not missing, f"docs/differences.md gives no reason for {missing}, which tests are marked with"


def test_every_difference_is_listed_once() -> None:
    page = (ROOT / "docs" / "differences.md").read_text()
    listed = Counter(re.findall(r"^\| `(D-[\w-]+)`", page, re.MULTILINE))
    twice = sorted(each for each, count in listed.items() if count > 1)
    assert not twice, f"docs/differences.md lists {twice} more than once: keep one row for each"


def test_every_make_target_is_explained() -> None:
    makefile = (ROOT / "Makefile").read_text()
    phony = re.search(r"^\.PHONY: (.*)$", makefile, re.MULTILINE)
    assert phony is not None
    unexplained = [
        target for target in phony[1].split() if not re.search(rf"^{target}:.*## \w", makefile, re.MULTILINE)
    ]
    assert not unexplained, f"say after ## what these targets do: {unexplained}"


def test_the_modules_of_the_reference_exist() -> None:
    pages = [path.read_text() for path in (ROOT / "docs" / "reference").glob("*.md")]
    modules = [
        module
        for page in pages
        for block in re.findall(r"^```public\n(.*?)^```$", page, re.MULTILINE | re.DOTALL)
        for module in block.split()
    ]
    assert {"skate", "skate.data", "skate.train", "skate.tune", "skate.serve", "skate.util", "skate.llm"} <= {
        *modules
    }
    missing = [module for module in modules if importlib.util.find_spec(module) is None]
    assert not missing, f"docs/reference lists {missing}, which do not exist"
