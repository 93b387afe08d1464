"""The progress display of a run: repainted lines on a terminal, elsewhere nothing."""

from __future__ import annotations

import os
import pty
import re
import struct
import subprocess
import sys
import termios
import textwrap
from pathlib import Path

import pytest

import skate

PROGRAM = """
    import sys, time
    import skate, skate.data
    skate.init(num_cpus=2, log_to_driver=False)
    context = skate.data.DataContext.get_current()
    if "quick" in sys.argv:
        import skate.data.execution.progress as progress
        progress.QUIET_SECONDS = 60
    if "off" in sys.argv:
        context.enable_progress_bars = False
    def a_function_with_a_name_that_is_rather_long(batch):
        time.sleep({seconds})  # the work of the batch
        return batch
    ds = skate.data.range(60, override_num_blocks=6)
    ds = ds.map_batches(a_function_with_a_name_that_is_rather_long, batch_size=10).random_shuffle(seed=1)
    ds.set_name("mine")
    print("in all", sum(1 for row in ds.iter_rows()))
"""


def drawn(seconds: float, *arguments: str, columns: int = 100) -> str:
    """The output of a program to the pseudo-terminal that it runs in."""
    parent, child = pty.openpty()
    termios.tcsetwinsize(child, (30, columns)) if hasattr(termios, "tcsetwinsize") else _resize(
        child, columns
    )
    source = str(Path(skate.__file__).parents[1])
    environment = {**os.environ, "PYTHONPATH": source, "TERM": "xterm-256color"}
    environment.pop("COLUMNS", None)
    program = subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(PROGRAM).format(seconds=seconds), *arguments],
        stdin=child,
        stdout=child,
        stderr=child,
        env=environment,
        close_fds=True,
    )
    os.close(child)
    found = bytearray()
    while True:
        try:
            read = os.read(parent, 65536)
        except OSError:  # the other end is closed
            break
        if not read:
            break
        found += read
    os.close(parent)
    assert program.wait(60) == 0, found.decode()
    return found.decode()


def _resize(terminal: int, columns: int) -> None:
    import fcntl

    fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", 30, columns, 0, 0))


def plain(text: str) -> str:
    return re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]", "", text)


@pytest.mark.parametrize("columns", [100, 60])
def test_lines_on_a_terminal(columns: int) -> None:
    text = drawn(0.5, columns=columns)
    assert text.count("mine, ") > 3, "the lines are painted several times"
    assert "\x1b[1A" in text, "each time over the last ones"
    last = plain(text.rsplit("mine, ", 1)[1])
    lines = [line.rstrip() for line in last.splitlines()]
    for column in ("step", "rows", "rows/s", "running", "waiting"):
        assert column in lines[1]
    name = r"ReadRange->\S*…" if columns == 60 else r"ReadRange->MapBatches\(a_function\S*"
    assert re.fullmatch(name + r" +━{12} +60 +\d+ +done +0 B", lines[2])
    assert re.fullmatch(r"RandomShuf\S+ +━{12} +60 +\d+ +done +0 B", lines[3])
    assert lines[-1] == "in all 60"
    assert max(map(len, re.split(r"[\r\n]+", plain(text)))) <= columns
    assert "\x1b[?25h" in text.rsplit("\x1b[?25l", 1)[1], "the cursor is shown again"


def test_a_quick_run_draws_nothing() -> None:
    assert plain(drawn(0.0, "quick")).split() == ["in", "all", "60"]


def test_nothing_if_that_is_asked_for() -> None:
    assert plain(drawn(0.3, "off")).split() == ["in", "all", "60"]


def test_nothing_where_there_is_no_terminal() -> None:
    source = str(Path(skate.__file__).parents[1])
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(PROGRAM).format(seconds=0.3)],
        env={**os.environ, "PYTHONPATH": source},
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    assert (done.stdout, done.stderr) == ("in all 60\n", "")
