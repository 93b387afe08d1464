"""The progress line of a run: its content, on a terminal and in a log."""

from __future__ import annotations

import io
import os
import pty
import re
import select
import subprocess
import sys
import textwrap
import time
from pathlib import Path

import pytest

from skate.train.controller import progress as progresses
from skate.train.controller.progress import Progress
from skate.train.controller.run_metrics import RunMetrics, number_text, seconds_text

SOURCE = Path(__file__).parents[2] / "src"
PROGRAM = """
    import os, sys, time
    import skate as ray
    from skate import train
    from skate.train import FailureConfig, LoggingConfig, RunConfig, ScalingConfig
    from skate.train.data_parallel_trainer import DataParallelTrainer

    folder, seconds, level, breaks = sys.argv[1], float(sys.argv[2]), sys.argv[3], sys.argv[4] == "breaks"

    def loop():
        for step in range(int(seconds / 0.02)):  # as many on each rank
            time.sleep(0.02)  # the work of a step
            if step == 3 and breaks and not os.path.exists(folder + "/broke"):
                open(folder + "/broke", "w").close()
                raise ValueError("a bad batch")
            train.report({"epoch": step // 10, "loss": 0.5, "rows": 64, "note": "not shown"})

    DataParallelTrainer(
        loop,
        scaling_config=ScalingConfig(num_workers=2),
        run_config=RunConfig(
            name="digits", storage_path=folder, logging_config=LoggingConfig(log_level=level),
            failure_config=FailureConfig(max_failures=1),
        ),
    ).fit()
    print("the program's own line")
"""


def command(folder: Path, seconds: float, level: str = "INFO", breaks: str = "") -> list[str]:
    program = folder / "program.py"
    program.write_text(textwrap.dedent(PROGRAM))
    return [sys.executable, str(program), str(folder), str(seconds), level, breaks]


def environment() -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": str(SOURCE), "TERM": "xterm-256color", "COLUMNS": "100"}


def in_a_terminal(words: list[str]) -> str:
    """The output of a program to a terminal."""
    ours, theirs = pty.openpty()
    child = subprocess.Popen(words, stdin=theirs, stdout=theirs, stderr=theirs, env=environment())
    os.close(theirs)
    written = b""
    until = time.monotonic() + 60
    while time.monotonic() < until:
        if not select.select([ours], [], [], 1.0)[0]:
            continue
        try:
            read = os.read(ours, 65536)
        except OSError:  # how Linux says that nobody has the other end any more
            break
        if not read:
            break
        written += read
    os.close(ours)
    assert child.wait(timeout=30) == 0, written.decode()
    return written.decode()


def painted(written: str) -> list[str]:
    """The states of the line, one after the other, without what moves the cursor."""
    return [
        re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", each).strip()
        for each in re.split(r"[\r\n]+", written)
        if re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", each).strip()
    ]


def test_a_terminal_shows_where_a_run_is(tmp_path: Path) -> None:
    lines = painted(in_a_terminal(command(tmp_path, 2.5)))
    live = [line for line in lines if line.startswith("digits")]
    assert len(live) >= 3, lines
    assert re.fullmatch(
        r"digits  2 workers  epoch \d+  loss 0.5  [\d.]+ reports/s  [\d,]+ rows/s  \d\.\d s", live[-1]
    ), live[-1]
    assert live[0] != live[-1]
    assert lines[-1] == "the program's own line"
    assert re.fullmatch(
        r"train: run 'digits': finished after [\d.]+ s  epoch \d+  loss 0.5  \d+ reports  [\d,]+ rows/s  .*/digits",
        lines[-2],
    ), lines[-2]


def ended_well(started: list[str]) -> subprocess.CompletedProcess[str]:
    """Run a program to its end; show its stderr if it fails."""
    done = subprocess.run(started, capture_output=True, text=True, timeout=60, env=environment(), check=False)
    assert done.returncode == 0, done.stderr
    return done


def test_a_log_gets_a_line_at_the_start_and_one_at_the_end(tmp_path: Path) -> None:
    done = ended_well(command(tmp_path, 1.5))
    assert done.stdout == "the program's own line\n"
    start, end = done.stderr.splitlines()
    assert start == f"train: run 'digits': 2 workers, results go to {tmp_path}/digits"
    assert end.startswith("train: run 'digits': finished after ")


def test_a_start_anew_is_said_and_why(tmp_path: Path) -> None:
    done = ended_well(command(tmp_path, 2.0, breaks="breaks"))
    again = [line for line in done.stderr.splitlines() if "starts again" in line]
    assert re.fullmatch(
        r"train: run 'digits': attempt 1 failed, and the run starts again: rank [01]: ValueError: a bad batch",
        again[0],
    )
    assert len(again) == 1


def test_log_level_silences(tmp_path: Path) -> None:
    done = ended_well(command(tmp_path, 1.5, "WARNING"))
    assert done.stderr == ""
    assert "digits" not in in_a_terminal(command(tmp_path, 1.5, "WARNING"))


def test_a_short_run_says_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    stream = io.StringIO()
    short = Progress("run", "/path", "INFO", stream)
    short.starting(1, 2)
    short.started()
    short.reported([{"loss": 1}], False)
    short.ended(None)
    assert stream.getvalue() == ""


def test_a_failed_run_is_said_in_a_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(progresses, "QUIET_SECONDS", 0)
    stream = io.StringIO()
    failed = Progress("run", "/path", "WARNING", stream)
    failed.starting(1, 1)
    failed.failed("rank 0: ValueError: no", retries=False)
    failed.ended(ValueError("no"))
    (line,) = stream.getvalue().splitlines()
    assert re.fullmatch(r"train: run 'run': failed \(ValueError\) after 0.0 s  /path", line)


def test_a_closed_stream_is_no_terminal() -> None:
    stream = io.StringIO()
    stream.close()
    Progress("run", "/path", "INFO", stream).look()


def test_what_a_line_says_of_metrics() -> None:
    run_metrics = RunMetrics()
    run_metrics.reported([{"loss": 0.123456, "note": "x", "ok": True, "step": 1200, "epoch": 3}], False)
    assert run_metrics.course() == ["epoch 3", "step 1,200", "loss 0.1235"]
    run_metrics.reported([{f"m{i}": i for i in range(9)}], True)
    assert run_metrics.course() == [*(f"m{i} {i}" for i in range(6)), "..."]
    assert (run_metrics.reports, run_metrics.checkpoints) == (2, 1)


def test_rows_are_added_up_over_ranks_and_reports() -> None:
    run_metrics = RunMetrics()
    for _ in range(4):
        run_metrics.reported([{"rows": 100}, {"rows": 50}], False)
    assert run_metrics.speed(2.0) == ["2.0 reports/s", "300 rows/s"]


def test_a_count_that_only_grows_is_a_total() -> None:
    run_metrics = RunMetrics()
    for seen in (10, 20, 40):
        run_metrics.reported([{"num_tokens": seen}], False)
    assert run_metrics.speed(1.0)[1] == "40 tokens/s"


def test_speed_of_nothing_is_nothing() -> None:
    assert RunMetrics().speed(1.0) == []


@pytest.mark.parametrize(
    ("value", "text"),
    [
        *((3, "3"), (12345, "12,345"), (2.0, "2"), (0.25, "0.25")),
        *((1234.56, "1,234.6"), (1e-7, "1e-07"), (float("nan"), "nan"), (float("inf"), "inf")),
    ],
)
def test_numbers_in_a_line(value: float, text: str) -> None:
    assert number_text(value) == text


@pytest.mark.parametrize(("seconds", "text"), [(4.24, "4.2 s"), (65, "1:05"), (7209, "2:00:09")])
def test_times_in_a_line(seconds: float, text: str) -> None:
    assert seconds_text(seconds) == text
