"""The disk side of spilling: threads that copy values to disk and back without blocking the node.

Each disk has one thread that writes, frees space and reserves blocks, in the order of requests, and one that reads. They report
results to the core in batches under the engine lock, and do not hold it while they work.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING, Generic, TypeAlias, TypeVar

from skate.core.memory.memory_plan import DISK_STRIDE
from skate.protocol.effects import (
    DiskEffect,
    DropCopy,
    FreeBlocks,
    Reserve,
    Restore,
    Spill,
)
from skate.protocol.shell_events import (
    RESERVE_DONE,
    RESTORE_DONE,
    SPILL_DONE,
    DiskAnswer,
    ReserveDone,
    RestoreDone,
    SpillDone,
)
from skate.wire.limits import LimitReached, start_thread

if TYPE_CHECKING:
    from skate.node.memory.arena_file import ArenaFile
    from skate.node.memory.overflow_file import OverflowFile
    from skate.node.spill.external_storage import ExternalStorage
    from skate.wire.memory import Memory

BATCH_BYTES = 64 << 20
JOIN_SECONDS = 10.0

T = TypeVar("T")
#: The jobs of the writing thread.
Write: TypeAlias = Spill | Reserve | FreeBlocks | DropCopy


class _Line(Generic[T]):
    """A thread that processes jobs in order and in batches; started with the first job."""

    def __init__(self, name: str, work: Callable[[list[T]], None]) -> None:
        self._name = name
        self._work = work
        self._jobs: deque[T] = deque()
        self._due = threading.Semaphore(0)
        self._thread: threading.Thread | None = None
        self._closing = False

    def put(self, job: T) -> None:
        """Queue a job."""
        if self._closing:
            return
        self._jobs.append(job)
        if self._thread is None:
            try:
                self._thread = start_thread(self._run, f"skate-{self._name}")
            except LimitReached:
                # The system starts no more threads, so the node waits for the disk.
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
        # Take all queued jobs; their semaphore releases cause empty rounds later.
        jobs = []
        while self._jobs:
            jobs.append(self._jobs.popleft())
        if jobs:
            self._work(jobs)

    def close(self) -> None:
        """End the thread after its current job. The engine lock is not held."""
        self._closing = True
        self._due.release()
        if self._thread is not None:
            self._thread.join(JOIN_SECONDS)


class _Station:
    """One disk, or the external storage, with a writing and a reading thread."""

    def __init__(
        self,
        copy: Callable[[list[Spill]], list[DiskAnswer]],
        other: Callable[[Write], list[DiskAnswer]],
        read: Callable[[Restore], str],
        disk: Disk,
    ) -> None:
        self._copy_all = copy
        self._do_other = other
        self._read_one = read
        self._disk = disk
        self.writer = _Line("spill", self._write)
        self.reader = _Line("restore", self._read)

    def _write(self, jobs: list[Write]) -> None:
        """Spill in batches. Other jobs end a batch, because they may concern the same space."""
        batch: list[Spill] = []
        answers: list[DiskAnswer] = []
        for job in jobs:
            if isinstance(job, Spill):
                batch.append(job)
                if sum(each.size for each in batch) >= BATCH_BYTES:
                    self._disk.report(answers + self._copy(batch))
                    answers, batch = [], []
                continue
            answers += self._copy(batch)
            batch = []
            answers += self._do_other(job)
        answers += self._copy(batch)
        if answers:
            self._disk.report(answers)

    def _copy(self, batch: list[Spill]) -> list[DiskAnswer]:
        if not batch:
            return []
        started = time.perf_counter()
        answers = self._copy_all(batch)
        if all(isinstance(answer, SpillDone) and answer.success for answer in answers):
            self._disk.written += sum(job.size for job in batch)
            self._disk.write_seconds += time.perf_counter() - started
        return answers

    def _read(self, jobs: list[Restore]) -> None:
        for job in jobs:
            started = time.perf_counter()
            problem = self._read_one(job)
            self._disk.read_back += 0 if problem else job.size
            self._disk.read_seconds += time.perf_counter() - started
            self._disk.report([RestoreDone(RESTORE_DONE, job.number, problem)])

    def close(self) -> None:
        """End the threads."""
        self.writer.close()
        self.reader.close()


class Disk:
    """Copies values to files on disk or to external storage, and back."""

    def __init__(
        self,
        arena: ArenaFile,
        files: list[OverflowFile],
        outside: ExternalStorage | None,
        memory: Memory,
        report: Callable[[list[DiskAnswer]], None],
    ) -> None:
        self._arena = arena
        self._files = files
        self._outside = outside
        self._memory = memory
        #: Passes answers to the core. The engine lock is not held.
        self.report = report
        self._stations = [
            _Station(self._copy_here, self._allocate_here, self._read_here, self) for _ in files
        ]
        self._external = _Station(self._copy_outside, self._drop_outside, self._read_outside, self)
        #: Bytes and seconds of copies in each direction.
        self.written = self.read_back = 0
        self.write_seconds = self.read_seconds = 0.0

    def act(self, job: DiskEffect) -> None:
        """Queue a disk job."""
        if isinstance(job, DropCopy) or (self._outside is not None and isinstance(job, Spill | Restore)):
            station = self._external
        else:
            station = self._stations[job.place // DISK_STRIDE]
        if isinstance(job, Restore):
            station.reader.put(job)
        else:
            station.writer.put(job)

    def at(self, place: int) -> tuple[int, int]:
        """Return the file of a place on this machine, and the offset in it."""
        at, file = self._file(place)
        return file.fd, at

    def close(self) -> None:
        """End the threads, and remove all files."""
        for station in (*self._stations, self._external):
            station.close()
        for file in self._files:
            file.close()
        if self._outside is not None:
            self._outside.close()

    # -- on this machine

    def _copy_here(self, jobs: list[Spill]) -> list[DiskAnswer]:
        answers: list[DiskAnswer] = []
        for number, _, offset, size, place in jobs:
            at, file = self._file(place)
            problem = file.reserve(at, size) or file.store(at, self._arena.fd, offset, size)
            answers.append(SpillDone(SPILL_DONE, number, not problem))
        return answers

    def _allocate_here(self, job: Write) -> list[DiskAnswer]:
        assert isinstance(job, Reserve | FreeBlocks), job
        at, file = self._file(job.place)
        if isinstance(job, Reserve):
            return [ReserveDone(RESERVE_DONE, job.number, file.reserve(at, job.size))]
        file.release(at, job.size)
        return []

    def _read_here(self, job: Restore) -> str:
        at, file = self._file(job.place)
        try:
            self._memory.fill(job.offset, file.fd, at, job.size)
        except OSError as error:
            return f"its copy on the disk of {file.folder} cannot be read: {error.strerror or error}"
        return ""

    def _file(self, place: int) -> tuple[int, OverflowFile]:
        number, at = divmod(place, DISK_STRIDE)
        return at, self._files[number]

    # -- outside

    def _copy_outside(self, jobs: list[Spill]) -> list[DiskAnswer]:
        assert self._outside is not None
        parts = [(number, self._memory.peek(offset, size)) for number, _, offset, size, _ in jobs]
        problem = self._outside.store(parts)
        return [SpillDone(SPILL_DONE, number, not problem) for number, _ in parts]

    def _drop_outside(self, job: Write) -> list[DiskAnswer]:
        assert self._outside is not None and isinstance(job, DropCopy), job
        self._outside.drop(job.number)
        return []

    def _read_outside(self, job: Restore) -> str:
        assert self._outside is not None
        data, problem = self._outside.load(job.place)
        if problem:
            return problem
        try:
            self._memory.write(job.offset, [data])
        except OSError as error:
            return f"there is no room for it in memory: {error.strerror or error}"
        return ""
