"""Ignore patterns, tried against Git itself."""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path

import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from skate.runtime_env.ignore import DEFAULTS, Rules, ignored, parse


def left_out(path: str, rules: Sequence[Rules], *, is_folder: bool = False) -> bool:
    """True if a path or a folder above it is excluded."""
    parts = path.split("/")
    return any(
        ignored("/".join(parts[:depth]), depth < len(parts) or is_folder, rules)
        for depth in range(1, len(parts) + 1)
    )


@pytest.mark.parametrize(
    ("pattern", "out", "taken"),
    [
        ("*.ckpt", ["a.ckpt", "deep/er/a.ckpt", ".ckpt"], ["a.ckpt.txt", "ckpt"]),
        ("data/", ["data/x", "deep/data/x"], ["data", "datas/x"]),
        ("/data", ["data", "data/x"], ["deep/data"]),
        ("docs/*.txt", ["docs/a.txt"], ["docs/deep/a.txt", "deep/docs/a.txt"]),
        ("docs/**", ["docs/a", "docs/deep/a"], ["docs"]),
        ("**/logs", ["logs", "a/logs", "a/b/logs/x"], ["logs1"]),
        ("a/**/z", ["a/z", "a/b/z", "a/b/c/z"], ["z", "b/a/z"]),
        ("file[0-9]", ["file1"], ["filex", "file10"]),
        ("file[!0-9]", ["filex"], ["file1", "file/"]),
        ("a?c", ["abc"], ["ac", "abbc"]),
        (r"\#note", ["#note"], ["note"]),
        (r"\!note", ["!note"], ["note"]),
        ("name\\ ", ["name "], ["name"]),
        ("name  ", ["name"], ["name  "]),
        ("# comment", [], ["# comment", "comment"]),
        ("[[:digit:]]x", ["1x"], ["ax"]),
        ("[unclosed", [], ["[unclosed", "u"]),
    ],
)
def test_what_a_pattern_is_about(pattern: str, out: list[str], taken: list[str]) -> None:
    rules = [parse([pattern + "\n"])]
    assert [path for path in out if not left_out(path, rules)] == []
    assert [path for path in taken if left_out(path.rstrip("/"), rules)] == []


def test_the_last_match_decides() -> None:
    rules = [parse(["*.txt", "!keep.txt", "/top/keep.txt"])]
    assert left_out("a.txt", rules)
    assert not left_out("keep.txt", rules)
    assert left_out("top/keep.txt", rules)


def test_what_lies_in_an_excluded_folder_cannot_be_brought_back() -> None:
    assert left_out("build/keep", [parse(["build/", "!build/keep"])])


def test_a_higher_list_overrules_a_lower_one() -> None:
    rules = [parse(DEFAULTS), parse(["*.bin"]), parse(["!*.bin"], "models"), parse(["models/big.bin"])]
    assert left_out("a.bin", rules)
    assert not left_out("models/a.bin", rules)
    assert left_out("models/big.bin", rules)
    assert left_out("src/__pycache__/x.pyc", rules)
    assert not left_out("src/__pycache__/x.pyc", [*rules, parse(["!__pycache__"])])


def test_rules_of_a_folder_hold_below_it_alone() -> None:
    rules = [parse(["/a", "b"], "deep")]
    assert left_out("deep/a", rules)
    assert not left_out("a", rules)
    assert left_out("deep/er/b", rules)
    assert not left_out("deeper/b", rules)


PIECES = st.sampled_from(
    ["a", "b", "c", ".", "*", "**", "/", "?", "[ab]", "[!a]", "[a-c]", "[b-a]", "[]a]", "[^-b]", r"[\]a]"]
    + ["[[:alpha:]]", "[", "]", "!", "#", " ", "-", "\\"]
)
PATTERNS = st.lists(PIECES, min_size=1, max_size=6).map("".join)
PARTS = st.sampled_from(["a", "b", "c", "ab", "a.b", "*", "-", "]", "[", "a b", "!a", "#b", "\\", "a-", "^"])
PATHS = st.lists(PARTS, min_size=1, max_size=3).map("/".join)


@pytest.fixture(scope="module")
def repository(tmp_path_factory: pytest.TempPathFactory) -> Path:
    if shutil.which("git") is None:
        pytest.skip("git is not installed, and it is what the patterns are tried against")
    path = tmp_path_factory.mktemp("repository")
    subprocess.run(["git", "init", "--quiet", str(path)], check=True)
    return path


def git_leaves_out(repository: Path, patterns: list[str], paths: list[str]) -> dict[str, bool]:
    (repository / ".gitignore").write_text("\n".join(patterns) + "\n")
    listed = subprocess.run(
        ["git", "-C", str(repository), "check-ignore", "--no-index", "-z", "--stdin", "-v", "--non-matching"],
        input="\0".join(paths).encode() + b"\0",
        capture_output=True,
        check=False,
    )
    fields = listed.stdout.decode().split("\0")
    answers = zip(fields[2::4], fields[3::4], strict=False)
    return {path: bool(pattern) and not pattern.startswith("!") for pattern, path in answers}


@settings(
    max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)  # each example starts git
@given(st.lists(PATTERNS, min_size=1, max_size=3), st.lists(PATHS, min_size=10, max_size=25, unique=True))
def test_git_agrees(repository: Path, patterns: list[str], paths: list[str]) -> None:
    # Here Git's own shortcut for a literal beginning departs from its manual: "c**/*" leaves out "c".
    assume(not any(re.search(r"[^/*]\*\*", pattern) for pattern in patterns))
    rules = [parse(patterns)]
    by_git = git_leaves_out(repository, patterns, paths)
    assert by_git.keys() == set(paths)
    assert {path: left_out(path, rules) for path in paths} == by_git
