"""The disk side of spilling: threads that copy values out of memory and back, while the node goes on.

One thread writes, gives space back and sets blocks apart, in the order it is told to; another one reads. The core is told of what
is done in batches, under the engine lock, which is not held meanwhile.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from skate.node.arena import ArenaFile
    from skate.node.outside import Outside
    from skate.node.overflow import OverflowFile
    from skate.wire.memory import Memory

Job = tuple[Any, ...]
Answer = tuple[str, int, Any]
BATCH_BYTES = 64 << 20
JOIN_SECONDS = 10.0
DISK_WORDS = ("spill", "restore", "reserve", "unspill", "punch")


class _Line:
    """A thread that does jobs in order, several at once; started when there is a first one."""

    def __init__(self, name: str, work: Callable[[list[Job]], None]) -> None:
        self._name = name
        self._work = work
        self._jobs: deque[Job] = deque()
        self._due = threading.Semaphore(0)
        self._thread: threading.Thread | None = None
        self._closing = False

    def put(self, job: Job) -> None:
        """Have something done."""
        if self._closing:
            return
        self._jobs.append(job)
        if self._thread is None:
            self._thread = threading.Thread(target=self._run, name=f"skate-{self._name}", daemon=True)
            self._thread.start()
        self._due.release()

    def _run(self) -> None:
        while True:
            self._due.acquire()
            if self._closing:
                return
            # What else is due comes along; its releases are looks in vain.
            jobs = []
            while self._jobs:
                jobs.append(self._jobs.popleft())
            if jobs:
                self._work(jobs)

    def close(self) -> None:
        """End the thread, after what it is at; the engine lock is not held."""
        self._closing = True
        self._due.release()
        if self._thread is not None:
            self._thread.join(JOIN_SECONDS)


class Disk:
    """Copies values to the overflow file, or to a storage outside, and back."""

    def __init__(
        self,
        arena: ArenaFile,
        overflow: OverflowFile,
        outside: Outside | None,
        memory: Memory,
        tell: Callable[[list[Answer]], None],
    ) -> None:
        self._arena = arena
        self._overflow = overflow
        self._outside = outside
        self._memory = memory
        #: Takes answers for the core; the engine lock is not held.
        self.tell = tell
        self.problem = ""  # why the last copy could not be written, in words
        self._writer = _Line("spill", self._write)
        self._reader = _Line("restore", self._read)
        #: Bytes and seconds of copies out and back.
        self.written = self.read_back = 0
        self.write_seconds = self.read_seconds = 0.0

    def act(self, job: Job) -> None:
        """Do something soon: one of the words of `core.spilling` and `core.admission`."""
        (self._reader if job[0] == "restore" else self._writer).put(job)

    def close(self) -> None:
        """End the threads, and leave nothing behind."""
        self._writer.close()
        self._reader.close()
        if self._outside is not None:
            self._outside.close()

    # -- out, in the writer's thread

    def _write(self, jobs: list[Job]) -> None:
        answers: list[Answer] = []
        batch: list[Job] = []
        for job in jobs:
            if job[0] == "spill":
                batch.append(job)
                if sum(each[4] for each in batch) >= BATCH_BYTES:
                    self.tell(answers + self._copy(batch))
                    answers, batch = [], []
                continue
            # What comes in between may take the place of what was written before, or the other way round.
            answers += self._copy(batch)
            batch = []
            if job[0] == "reserve":
                answers.append(("reserve", job[1], self._overflow.reserve(job[2], job[3])))
            elif job[0] == "punch":
                self._overflow.release(job[1], job[2])
            elif self._outside is not None:
                self._outside.drop(job[1])
        answers += self._copy(batch)
        if answers:
            self.tell(answers)

    def _copy(self, batch: list[Job]) -> list[Answer]:
        if not batch:
            return []
        started = time.perf_counter()
        if self._outside is not None:
            parts = [(number, self._memory.peek(offset, size)) for _, number, _, offset, size, _ in batch]
            problem = self._outside.store(parts)
            answers: list[Answer] = [("spill", number, not problem) for number, _ in parts]
        else:
            answers, problem = [], ""
            for _, number, _, offset, size, place in batch:
                failed = self._overflow.reserve(place, size)
                if not failed:
                    failed = self._overflow.store(place, self._arena.fd, offset, size)
                answers.append(("spill", number, not failed))
                problem = problem or failed
        self.problem = problem
        if not problem:
            self.written += sum(job[4] for job in batch)
            self.write_seconds += time.perf_counter() - started
        return answers

    # -- back, in the reader's thread

    def _read(self, jobs: list[Job]) -> None:
        for _, number, place, offset, size in jobs:
            started = time.perf_counter()
            there = self._fetch(place, offset, size)
            self.read_back += size if there else 0
            self.read_seconds += time.perf_counter() - started
            self.tell([("restore", number, there)])

    def _fetch(self, place: int, offset: int, size: int) -> bool:
        try:
            if self._outside is None:
                self._memory.fill(offset, self._overflow.fd, place, size)
                return True
            data = self._outside.load(place)
            if data is None or len(data) != size:
                return False
            self._memory.write(offset, [data])
        except OSError:
            # The disk does not give back what it took: the value is lost, which the core deals with.
            return False
        return True
