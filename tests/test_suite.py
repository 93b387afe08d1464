"""The whole suite runs in two processes, and its last line counts the tests of both."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests import suite

ROOT = Path(__file__).parents[1]

TESTS = """
import pytest

def test_passes(): pass
def test_passes_too(): pass
def test_fails(): assert 0
def test_is_skipped(): pytest.skip("no reason")

@pytest.fixture
def broken(): raise ValueError

def test_has_an_error(broken): pass
"""


def test_the_last_line_adds_up_what_both_have_counted(tmp_path: Path) -> None:
    (tmp_path / "test_some.py").write_text(TESTS)
    report = tmp_path / "report.xml"
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", f"--junit-xml={report}"]
    ended = subprocess.run([*command, str(tmp_path)], cwd=tmp_path, capture_output=True, timeout=60)
    assert ended.returncode == 1, ended
    assert suite.closing_line([report], 1) == "=== 1 failed, 2 passed, 1 skipped, 1 errors in 1.00s ==="
    twice = suite.closing_line([report, report], 75)
    assert twice == "=== 2 failed, 4 passed, 2 skipped, 2 errors in 75.00s ==="


def test_a_process_that_left_no_report_is_an_error(tmp_path: Path) -> None:
    assert suite.closing_line([tmp_path / "missing.xml"], 1) == "=== 1 errors in 1.00s ==="


@pytest.mark.parametrize(
    "arguments, cpus, two",
    [
        ([], 2, True),
        (["--durations=50", "--durations-min=3", "-q"], 2, True),
        ([], 1, False),
        (["-x"], 2, False),
        (["-k", "actor"], 2, False),
        (["tests/core"], 2, False),
        (["-q", "-m", "quick"], 2, False),
    ],
)
def test_only_the_whole_suite_runs_in_two_processes(arguments: list[str], cpus: int, two: bool) -> None:
    assert suite.two_processes(arguments, cpus) is two


def test_the_folders_beside_exist() -> None:
    assert [folder for folder in suite.BESIDE if not (ROOT / folder).is_dir()] == []
