"""The disk side of spilling: threads that copy values out of memory and back, while the node goes on.

For each disk one thread writes, gives space back and sets blocks apart, in the order it is told to; another one reads. The core
is told of what is done in batches, under the engine lock, which is not held meanwhile.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from skate.core.memory import DISK_STRIDE
from skate.wire.limits import LimitReached, start_thread

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
            try:
                self._thread = start_thread(self._run, f"skate-{self._name}")
            except LimitReached:
                # The system starts no more threads: the node waits for the disk.
                self._work_off()
                return
        self._due.release()

    def _run(self) -> None:
        while True:
            self._due.acquire()
            if self._closing:
                return
            self._work_off()

    def _work_off(self) -> None:
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


class _Station:
    """One disk, or the storage outside: a thread that writes and one that reads."""

    def __init__(
        self, write: Callable[[list[Job]], list[Answer]], read: Callable[[Job], str], disk: Disk
    ) -> None:
        self._write_all = write
        self._read_one = read
        self._disk = disk
        self.writer = _Line("spill", self._write)
        self.reader = _Line("restore", self._read)

    def _write(self, jobs: list[Job]) -> None:
        """Spill in batches; what comes in between may take the place of what was written before, or the other way round."""
        batch: list[Job] = []
        answers: list[Answer] = []
        for job in jobs:
            if job[0] == "spill":
                batch.append(job)
                if sum(each[4] for each in batch) >= BATCH_BYTES:
                    self._disk.tell(answers + self._copy(batch))
                    answers, batch = [], []
                continue
            answers += self._copy(batch)
            batch = []
            answers += self._write_all([job])
        answers += self._copy(batch)
        if answers:
            self._disk.tell(answers)

    def _copy(self, batch: list[Job]) -> list[Answer]:
        if not batch:
            return []
        started = time.perf_counter()
        answers = self._write_all(batch)
        if all(there for _, _, there in answers):
            self._disk.written += sum(job[4] for job in batch)
            self._disk.write_seconds += time.perf_counter() - started
        return answers

    def _read(self, jobs: list[Job]) -> None:
        for job in jobs:
            started = time.perf_counter()
            problem = self._read_one(job)
            self._disk.read_back += 0 if problem else job[4]
            self._disk.read_seconds += time.perf_counter() - started
            self._disk.tell([("restore", job[1], problem)])

    def close(self) -> None:
        """End the threads."""
        self.writer.close()
        self.reader.close()


class Disk:
    """Copies values to files on disk, or to a storage outside, and back."""

    def __init__(
        self,
        arena: ArenaFile,
        files: list[OverflowFile],
        outside: Outside | None,
        memory: Memory,
        tell: Callable[[list[Answer]], None],
    ) -> None:
        self._arena = arena
        self._files = files
        self._outside = outside
        self._memory = memory
        #: Takes answers for the core; the engine lock is not held.
        self.tell = tell
        self._stations = [_Station(self._write_here, self._read_here, self) for _ in files]
        self._elsewhere = _Station(self._write_outside, self._read_outside, self)
        #: Bytes and seconds of copies out and back.
        self.written = self.read_back = 0
        self.write_seconds = self.read_seconds = 0.0

    def act(self, job: Job) -> None:
        """Do something soon: one of the words of `core.spilling` and `core.admission`."""
        word = job[0]
        if word == "unspill" or (self._outside is not None and word in ("spill", "restore")):
            station = self._elsewhere
        else:
            place = job[{"spill": 5, "restore": 2, "reserve": 2, "punch": 1}[word]]
            station = self._stations[place // DISK_STRIDE]
        (station.reader if word == "restore" else station.writer).put(job)

    def close(self) -> None:
        """End the threads, and leave nothing behind."""
        for station in (*self._stations, self._elsewhere):
            station.close()
        for file in self._files:
            file.close()
        if self._outside is not None:
            self._outside.close()

    # -- on this machine

    def _write_here(self, jobs: list[Job]) -> list[Answer]:
        answers: list[Answer] = []
        for word, *job in jobs:
            if word == "spill":
                number, _, offset, size, place = job
                at, file = self._file(place)
                problem = file.reserve(at, size) or file.store(at, self._arena.fd, offset, size)
                answers.append(("spill", number, not problem))
            elif word == "reserve":
                at, file = self._file(job[1])
                answers.append(("reserve", job[0], file.reserve(at, job[2])))
            else:
                at, file = self._file(job[0])
                file.release(at, job[1])
        return answers

    def _read_here(self, job: Job) -> str:
        _, _, place, offset, size = job
        at, file = self._file(place)
        try:
            self._memory.fill(offset, file.fd, at, size)
        except OSError as error:
            return f"its copy on the disk of {file.folder} cannot be read: {error.strerror or error}"
        return ""

    def _file(self, place: int) -> tuple[int, OverflowFile]:
        number, at = divmod(place, DISK_STRIDE)
        return at, self._files[number]

    # -- outside

    def _write_outside(self, jobs: list[Job]) -> list[Answer]:
        assert self._outside is not None
        if jobs[0][0] == "unspill":
            self._outside.drop(jobs[0][1])
            return []
        parts = [(number, self._memory.peek(offset, size)) for _, number, _, offset, size, _ in jobs]
        problem = self._outside.store(parts)
        return [("spill", number, not problem) for number, _ in parts]

    def _read_outside(self, job: Job) -> str:
        assert self._outside is not None
        _, _, number, offset, size = job
        data, problem = self._outside.load(number)
        if problem:
            return problem
        try:
            self._memory.write(offset, [data])
        except OSError as error:
            return f"there is no room for it in memory: {error.strerror or error}"
        return ""
