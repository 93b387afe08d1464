"""``skate stack``: the line that every process of your sessions is at."""

from __future__ import annotations

import argparse
import asyncio
import linecache
import os
import re
import selectors
import sys
import threading
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import skate
from skate import procfs
from skate.client.session import stack_reader

SUMMARY = "show the line that each worker, driver and node of this machine is at"
HELP = """\
Shows the stacks of all your processes of Skate on this machine, the latest call first. A process that
holds the interpreter's lock in an extension answers too; one that is stopped is named. Needs no
privileges, and no node that answers. Ctrl-C ends only this command."""
_FRAME = re.compile(r'  File "(.*)", line (\d+) in (.*)')
_SKATE = os.path.dirname(skate.__file__) + os.sep
#: What calls a program's functions in a worker.
_CALLERS = _SKATE + "worker" + os.sep
_EVENT_LOOP = (os.path.dirname(asyncio.__file__) + os.sep, selectors.__file__)


class Frame(NamedTuple):
    """One line of a stack."""

    file: str
    line: int
    function: str


def main(arguments: Sequence[str]) -> int:
    """Print the stacks and return 0; 1 if there is no process to show."""
    parser = argparse.ArgumentParser(
        prog="skate stack", description=HELP, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--pid", type=int, help="only this process and those that it has started")
    parser.add_argument("--all", action="store_true", help="also threads and frames of Skate itself")
    given = parser.parse_args(list(arguments))
    pids = [pid for pid in sorted(stack_reader.offering()) if given.pid is None or _is_below(pid, given.pid)]
    if not pids:
        place = (
            "of yours runs here" if given.pid is None else f"of yours is process {given.pid} or runs below it"
        )
        print(f"skate stack: no session {place}", file=sys.stderr)
        return 1
    for pid in pids:
        for line in described(pid, given.all):
            print(line)
    return 0


def described(pid: int, everything: bool = False) -> Iterator[str]:
    """Yield the lines to print for one process.

    Args:
        pid: The process.
        everything: Show threads and frames of Skate itself, too.
    """
    command = procfs.read(f"/proc/{pid}/cmdline").replace(b"\0", b" ").decode("utf-8", "replace").strip()
    yield f"pid {pid}  {command}"
    try:
        threads = threads_of(stack_reader.dump(pid))
    except stack_reader.NoAnswer as error:
        yield f"  no stack: {error}"
        return
    if not everything:
        threads = [frames for frames in map(_of_program, threads) if frames]
    if not threads:
        yield "  idle"
    for number, frames in enumerate(threads):
        yield f"  thread {number + 1} of {len(threads)}:" if len(threads) > 1 else "  latest call first:"
        for frame in frames:
            yield f'    File "{frame.file}", line {frame.line}, in {frame.function}'
            source = linecache.getline(frame.file, frame.line).strip()
            if source:
                yield f"      {source}"


def threads_of(text: str) -> list[list[Frame]]:
    """Return the frames of each thread in a dump, those of the thread that started first at the beginning."""
    threads: list[list[Frame]] = []
    for line in text.splitlines():
        found = _FRAME.fullmatch(line)
        if found is not None and threads:
            threads[-1].append(Frame(found[1], int(found[2]), found[3]))
        elif line.startswith(("Thread ", "Current thread ")):
            threads.append([])
    return threads[::-1]


def _of_program(frames: list[Frame]) -> list[Frame]:
    """Return the frames of the program and of what it has called; empty for a thread of Skate's own, and for one that idles."""
    callers = (number for number, frame in enumerate(frames) if frame.file.startswith(_CALLERS))
    frames = frames[: next(callers, len(frames))]
    while frames and frames[-1].file == threading.__file__:
        frames.pop()
    is_idle = all(frame.file.startswith((_SKATE, *_EVENT_LOOP, "<")) for frame in frames)
    return [] if is_idle else frames


def _is_below(pid: int, top: int) -> bool:
    while pid > 1 and pid != top:
        fields = procfs.stat(pid)
        pid = int(fields[procfs.PARENT]) if fields else 0
    return pid == top
