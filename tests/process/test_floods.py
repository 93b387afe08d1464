"""Workers that print without limit: memory stays bounded, the printing worker waits, all others continue."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.process.programs import SOURCE, Program, prepared

SETUP = """
    import os, sys, threading, time
    from skate.wire.output import MARK

    def grown():
        '''MiB that the driver has taken since the session began: at its peak.'''
        fields = dict(line.split(":") for line in open("/proc/self/status").read().splitlines())
        return int(fields["VmHWM"].split()[0]) / 1024 - begun

    ray.init(START)
    begun = 0
    begun = grown()

    @ray.remote
    def quick(x):
        return x

    @ray.remote(num_cpus=0)
    class Counter:
        def __init__(self): self.n = 0
        def add(self): self.n += 1; return self.n

    @ray.remote(num_cpus=0)
    def at_once(mib):
        print("x" * (mib << 20))
    @ray.remote(num_cpus=0)
    def in_lines(mib):
        line = "y" * 99
        for _ in range(mib << 20 // 100): print(line)
    @ray.remote(num_cpus=0)
    def unfinished(mib):
        for _ in range(mib): os.write(1, b"z" * (1 << 20))
    @ray.remote(num_cpus=0)
    def on_stderr(mib):
        for _ in range(mib): sys.stderr.write("\\U0001f600" * (1 << 18) + "\\n")
    @ray.remote(num_cpus=0)
    def garbage(mib):
        import random
        for n in range(mib):
            os.write(1, random.Random(n).randbytes(1 << 20))
            os.write(1, b"\\n" + MARK + b"nobody\\n" + MARK + b"\\n" + MARK + b"\\xff \\n" + MARK)
    @ray.remote(num_cpus=0)
    def empty_lines(count):
        os.write(1, b"\\n" * count)

    def others_go_on(refs, counter):
        '''While they print, others are called: it must come to many calls before the last flood has ended.'''
        calls = 0
        while ray.wait(refs, num_returns=len(refs), timeout=0)[1]:
            calls += 1
            assert ray.get(counter.add.remote(), timeout=20) == calls
            if calls % 10 == 0:
                assert ray.get(quick.remote(calls), timeout=20) == calls
        return calls
"""


@contextlib.contextmanager
def driver(text: str, folder: Path, stdout: int) -> Iterator[tuple[subprocess.Popen[bytes], Path]]:
    """Start a driver with this stdout; yield it and the file of its stderr, and kill it at the end."""
    path = folder / "flood.py"
    path.write_text(prepared(SETUP + text))
    with open(folder / "err", "wb") as err:
        started = subprocess.Popen(
            [sys.executable, str(path)],
            stdin=subprocess.DEVNULL,
            stdout=stdout,
            stderr=err,
            env={**os.environ, "PYTHONPATH": SOURCE},
        )
    try:
        yield started, folder / "err"
    finally:
        started.kill()
        started.wait()
        if started.stdout is not None:
            started.stdout.close()


FLOODS = {
    "200 MB at once": "at_once.remote(200)",
    "many at once": "*[each.remote(8) for each in (at_once, unfinished, on_stderr, garbage) for _ in range(3)]",
    "a line of 50 MB without an end": "unfinished.remote(50)",
    "binary garbage": "garbage.remote(20)",
    "a million empty lines": "empty_lines.remote(1_000_000)",
}


@pytest.mark.parametrize("what", FLOODS)
def test_a_flood_is_bounded_and_holds_up_nobody_else(what: str, tmp_path: Path) -> None:
    text = f"""
    counter = Counter.remote()
    ray.get(counter.add.remote()); counter = Counter.remote()
    refs = [{FLOODS[what]}]
    calls = others_go_on(refs, counter)
    ray.get(refs)
    assert calls >= 5, calls
    assert ray.get(counter.add.remote()) == calls + 1
    os.write(2, b"SAID " + str(round(grown())).encode() + b" MiB\\n")
    """
    with driver(text, tmp_path, subprocess.PIPE) as (started, err):
        stdout = started.stdout
        assert stdout is not None
        size = sum(map(len, iter(lambda: stdout.read(1 << 20), b"")))
        code = started.wait(60)
        errors = err.read_bytes()
    assert code == 0, errors[-2000:].decode(errors="replace")
    assert size >= (1 << 20), size
    grown = int(errors.rpartition(b"SAID ")[2].split()[0])  # the end of the flood may arrive after it
    assert grown < 100, f"the driver grew by {grown} MiB"


def test_a_driver_whose_stdout_nobody_reads_slows_its_printers_and_nothing_else(tmp_path: Path) -> None:
    read_end, write_end = os.pipe()
    text = """
    counter = Counter.remote()
    ray.get(quick.remote(1))
    noisy = [at_once.remote(100), unfinished.remote(100)]
    for n in range(1, 300):
        assert ray.get(counter.add.remote(), timeout=20) == n
        assert ray.get(quick.remote(n), timeout=20) == n
    ray.wait(noisy, timeout=3)
    assert ray.wait(noisy, num_returns=2, timeout=0)[0] == []  # they wait for their pipes
    assert grown() < 100, grown()
    ray.cancel(noisy[1], force=True)
    try: ray.get(noisy[1], timeout=20)
    except (ray.exceptions.TaskCancelledError, ray.exceptions.WorkerCrashedError): os.write(2, b"cancelled\\n")
    assert ray.get(counter.add.remote(), timeout=20) == 300
    ray.shutdown()
    os.write(2, b"through\\n")
    os._exit(0)
    """
    with driver(text, tmp_path, write_end) as (started, err):
        os.close(write_end)
        try:
            code = started.wait(60)
        finally:
            os.close(read_end)
        output = err.read_text(errors="replace")
    assert code == 0, output
    assert output.splitlines() == ["cancelled", "through"], output


def test_a_driver_whose_stdout_is_closed_computes_on(tmp_path: Path) -> None:
    """The reader of stdout closes it early, as in `python program.py | head -1`."""
    text = """
    counter = Counter.remote()
    refs = [at_once.remote(3) for _ in range(5)]
    ray.get(refs, timeout=30)
    assert others_go_on(refs, counter) == 0
    assert ray.get([quick.remote(n) for n in range(20)], timeout=20) == list(range(20))
    ray.shutdown()
    os.write(2, b"through\\n")
    os._exit(0)
    """
    with driver(text, tmp_path, subprocess.PIPE) as (started, err):
        assert started.stdout is not None
        started.stdout.read(10)
        started.stdout.close()
        code = started.wait(60)
        output = err.read_text(errors="replace")
    assert code == 0, output
    assert output == "through\n"


def test_lines_that_look_like_marks_end_nothing(run: Callable[..., Program]) -> None:
    done = run(
        SETUP
        + """
    ray.get(garbage.remote(1))
    @ray.remote
    def speaks():
        print("still heard")
    ray.get(speaks.remote())
    """
    )
    assert "still heard" in done.out


def test_what_dead_workers_said_last_is_not_kept(run: Callable[..., Program]) -> None:
    run(
        SETUP
        + """
    from skate.client.session import session
    from waiting import wait_for
    @ray.remote(max_retries=0)
    def dies():
        sys.stderr.write("last words\\n" * 1000)
        os._exit(1)
    for _ in range(30):
        try: ray.get(dies.remote())
        except ray.exceptions.WorkerCrashedError: pass
    output = session.host().output
    wait_for(lambda: len(output.last_lines) <= 2, 10, "last lines of dead workers to go")
    """
    )
