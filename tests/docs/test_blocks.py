"""Every Python block of the documents runs, and prints the output on the page; commands in console blocks exist."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from collections.abc import Callable
from functools import cache
from pathlib import Path

import pytest

from tests.test_main_job import a_free_port

ROOT = Path(__file__).parents[2]
PROGRAM = Path(__file__).with_name("page_program.py")
# These have tests of their own, which look at what the blocks leave behind.
ELSEWHERE = {"README.md", "docs/train.md", "docs/tune.md", "docs/how-to/test-with-pytest.md"}
PAGES = [
    path
    for folder in (".", "docs", "docs/how-to", "benchmarks")
    for path in sorted((ROOT / folder).glob("*.md"))
    if path.relative_to(ROOT).as_posix() not in ELSEWHERE and "```python\n" in path.read_text()
]
COMMANDS = {
    "cd",
    "curl",
    "kill",
    "pip",
    "pipx",
    "py-spy",
    "python",
    "ray",
    "docker",
    "git",
    "export",
    "source",
    "podman",
}


def page_name(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


@pytest.mark.parametrize("page", PAGES, ids=page_name)
def test_the_blocks_of_a_page_are_a_program_that_runs(page: Path, tmp_path: Path) -> None:
    replaced = [f"8000={a_free_port()}", f"/tmp/runs={tmp_path / 'runs'}"]
    done = subprocess.run(
        [sys.executable, str(PROGRAM), str(page), *replaced],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=110,
        env={**os.environ, "PYTHONPATH": str(ROOT / "src"), "SKATE_WAIT_NOTE_SECONDS": "60"},
        check=False,
    )
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-6000:]
    assert done.stdout.startswith("ran ")


def test_the_page_on_pytest_is_a_suite_that_passes(tmp_path: Path) -> None:
    page = (ROOT / "docs" / "how-to" / "test-with-pytest.md").read_text()
    shared, first, inline, alias = re.findall(r"^```python\n(.*?)^```$", page, re.MULTILINE | re.DOTALL)
    (tmp_path / "conftest.py").write_text(f"{alias}\n{shared}\n{inline}")
    (tmp_path / "test_shared.py").write_text(f"import skate as ray\n\n{first}")
    (tmp_path / "test_inline.py").write_text(f"import skate as ray\n\n{first.replace('session', 'inline')}")
    done = subprocess.run(
        [
            sys.executable,
            "-m",
            "pytest",
            "-q",
            "-p",
            "no:cacheprovider",
            "--rootdir",
            str(tmp_path),
            str(tmp_path),
        ],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=100,
        env={**os.environ, "PYTHONPATH": str(ROOT / "src")},
        check=False,
    )
    assert "2 passed" in done.stdout, done.stdout + done.stderr


def commands() -> list[tuple[str, str]]:
    found = []
    for path in sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")]):
        for block in re.findall(r"^```console\n(.*?)^```$", path.read_text(), re.MULTILINE | re.DOTALL):
            lines = [line[2:].split("  #")[0].strip() for line in block.splitlines() if line.startswith("$ ")]
            found += [(page_name(path), line) for line in lines]
    return found


@pytest.fixture(scope="module")
def help_of() -> Callable[[tuple[str, ...]], str]:
    @cache
    def ask(words: tuple[str, ...]) -> str:
        command = [sys.executable, "-m", "skate", *words, "--help"]
        environment = {**os.environ, "PYTHONPATH": str(ROOT / "src"), "COLUMNS": "200"}
        done = subprocess.run(
            command, capture_output=True, text=True, timeout=60, env=environment, check=False
        )
        assert done.returncode == 0, f"{words}: {done.stderr}"
        return done.stdout

    return ask


def test_the_commands_of_console_blocks_exist(help_of: Callable[[tuple[str, ...]], str]) -> None:
    makefile = (ROOT / "Makefile").read_text()
    wrong = []
    for page, line in commands():
        words = shlex.split(line)
        while "=" in words[0]:  # variables in front
            words.pop(0)
        program, *rest = words
        program = Path(program).name
        if program in ("serve", "tune"):
            program, rest = "skate", [program, *rest]
        if program == "make":
            targets = [word for word in rest if "=" not in word and not word.startswith("-")]
            wrong += [
                f"{page}: {line}" for each in targets if not re.search(rf"^{each}:", makefile, re.MULTILINE)
            ]
        elif program == "skate" and rest[0] == "run":
            help_of(("run",))
        elif program == "skate":
            verb = tuple(rest[:2] if rest[0] in ("job", "logs", "serve", "tune") else rest[:1])
            text = help_of(verb)
            own = rest[: rest.index("--")] if "--" in rest else rest  # the rest is a command of its own
            options = [word.split("=")[0] for word in own if word.startswith("-")]
            wrong += [f"{page}: {line} ({each})" for each in options if not re.search(rf"{each}\b", text)]
        elif program not in COMMANDS and not (ROOT / words[0]).is_file():
            wrong.append(f"{page}: {line} (no command that a reader is known to have)")
    assert not wrong, "\n".join(wrong)
