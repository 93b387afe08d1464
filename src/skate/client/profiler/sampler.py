"""A sampler of stacks: which lines the threads of this process spend their CPU time at.

Each look at a thread counts as much as the CPU time that the thread has used since the look before, by the thread's own clock.
So threads that wait do not count, and neither does it matter that the sampler is late when a function holds the interpreter's
lock: the whole of that time is counted where the function was called.
"""

from __future__ import annotations

import os
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from types import CodeType, FrameType
from typing import NamedTuple

#: A stack and its weight: the frames from the outermost to the innermost, each as "function (file:line)".
Stack = tuple[list[str], int]
#: Deeper stacks lose their outermost frames.
FRAMES_MAX = 200
#: The folder of what calls a program's functions in a worker, which stacks leave out.
_CALLERS = str(Path(__file__).parents[2] / "worker") + os.sep
_Key = tuple[int, ...]


class Samples(NamedTuple):
    """The stacks of some seconds with their weights, in microseconds or bytes."""

    stacks: list[Stack]
    seconds: float
    #: How often the threads were looked at; 0 if they were not.
    looks: int


def sample(seconds: float, rate: float, idle: bool, ended: Callable[[], bool]) -> Samples:
    """Look at all other threads of this process again and again; weights are microseconds.

    Args:
        seconds: How long.
        rate: Looks per second.
        idle: Count the time that passes instead of CPU time, so that threads which wait are seen too.
        ended: Checked at each look; ends the sampling if it is true.
    """
    sampler = _Sampler(idle)
    begun = time.monotonic()
    due = begun
    while not ended():
        sampler.look()
        now = time.monotonic()
        if now >= begun + seconds:
            break
        # A look that was late is not made up for: its time has been counted.
        due = max(due + 1 / rate, now)
        time.sleep(min(due, begun + seconds) - now)
    return Samples(sampler.stacks(), time.monotonic() - begun, sampler.count)


class _Sampler:
    def __init__(self, idle: bool) -> None:
        self.count = 0
        self._idle = idle
        self._own = threading.get_ident()
        self._used: dict[_Key, int] = {}
        #: The clock of each thread at the last look.
        self._clocks: dict[int, int] = {}
        #: Keeps the code objects whose ids are in the keys.
        self._codes: dict[int, CodeType] = {}

    def look(self) -> None:
        """Count the time since the last look."""
        clocks: dict[int, int] = {}
        for thread, frame in sys._current_frames().items():
            if thread == self._own:
                continue
            clock = clocks[thread] = self._clock(thread)
            used = clock - self._clocks.get(thread, clock)
            if used > 0:
                key = self._key(frame)
                self._used[key] = self._used.get(key, 0) + used
        self._clocks = clocks
        self.count += 1

    def _clock(self, thread: int) -> int:
        if self._idle:
            return time.monotonic_ns()
        # A thread is in the table of frames until it has ended, and it cannot end while this one runs.
        return time.clock_gettime_ns(time.pthread_getcpuclockid(thread))

    def _key(self, frame: FrameType | None) -> _Key:
        found: list[int] = []
        while frame is not None and len(found) < 2 * FRAMES_MAX:
            code = frame.f_code
            if found and code.co_filename.startswith(_CALLERS):
                break
            self._codes[id(code)] = code
            found += (frame.f_lineno or 0, id(code))
            frame = frame.f_back
        return tuple(found)

    def stacks(self) -> list[Stack]:
        """Return the stacks, the heaviest first."""
        texts: dict[tuple[int, int], str] = {}
        found = []
        for key, nanoseconds in self._used.items():
            frames = []
            for line, code in zip(key[::2], key[1::2], strict=True):
                text = texts.get((line, code))
                if text is None:
                    text = texts[line, code] = described(self._codes[code], line)
                frames.append(text)
            found.append((frames[::-1], nanoseconds // 1000))
        return sorted(found, key=lambda stack: -stack[1])


def described(code: CodeType, line: int) -> str:
    """Return the text of a frame."""
    name = getattr(code, "co_qualname", code.co_name)  # since Python 3.11
    return f"{name} ({short(code.co_filename)}:{line})"


def short(file: str) -> str:
    """Return the path of a file without the folder of packages or of the program that it is in."""
    for folder in sorted(filter(None, sys.path), key=len, reverse=True):
        if file.startswith(folder + os.sep):
            return file[len(folder) + 1 :]
    return file
