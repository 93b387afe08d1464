"""The limits of the machine itself, without any bookkeeping: the yardstick beside Ray.

Run alone, `python -m benchmarks.limits` prints one JSON line of figures.
"""

from __future__ import annotations

import json
import mmap
import os
import socket
import statistics
import subprocess
import sys
import time

from benchmarks.measure import batch_seconds, calls_per_second

LARGE_BYTES = 100_000_000
FRAMES = 3_000
FRAMES_A_WRITE = 100


def ping_pong_per_second(cpu: int, peer_cpu: int) -> float:
    """Round trips of one byte over a Unix socketpair between two processes, each held on one CPU.

    Left to the kernel the two share a CPU on a busy machine and have one each on an idle one, which is four
    times slower: a wake-up across CPUs is most of the cost. Held, the figure means the same in every run.
    """
    allowed = os.sched_getaffinity(0)
    here, there = socket.socketpair()
    pid = os.fork()
    os.sched_setaffinity(0, {cpu if pid else peer_cpu})
    if pid == 0:
        here.close()
        while byte := there.recv(1):
            there.send(byte)
        os._exit(0)
    there.close()

    def round_trip() -> None:
        here.send(b"x")
        here.recv(1)

    rate = calls_per_second(round_trip)
    here.close()
    os.waitpid(pid, 0)
    os.sched_setaffinity(0, allowed)
    return rate


def frames_per_second() -> float | None:
    """Requests answered by another process when both sides only pack, batch and unpack msgpack frames."""
    try:
        import msgpack
    except ImportError:
        return None
    here, there = socket.socketpair()
    pid = os.fork()
    if pid == 0:
        here.close()
        unpacker = msgpack.Unpacker()
        while data := there.recv(1 << 18):
            unpacker.feed(data)
            there.sendall(b"".join([msgpack.packb([2, number, None]) for _, number, _ in unpacker]))
        os._exit(0)
    there.close()
    unpacker = msgpack.Unpacker()

    def batch() -> None:
        for first in range(0, FRAMES, FRAMES_A_WRITE):
            numbers = range(first, first + FRAMES_A_WRITE)
            here.sendall(b"".join([msgpack.packb([1, number, b"function"]) for number in numbers]))
        answered = 0
        while answered < FRAMES:
            unpacker.feed(here.recv(1 << 18))
            for _ in unpacker:
                answered += 1

    seconds = batch_seconds(batch)
    here.close()
    os.waitpid(pid, 0)
    return FRAMES / seconds


def memcpy_per_second() -> float:
    """Copies of 100 MB into memory that has been written before."""
    source = memoryview(b"1" * LARGE_BYTES)  # zeros would all be read from one page of the kernel
    target = memoryview(bytearray(LARGE_BYTES))

    def copy() -> None:
        target[:] = source

    return 1 / batch_seconds(copy, warmups=3)


def memcpy_fresh_per_second() -> float:
    """Copies of 100 MB into shared memory whose pages nobody has touched yet."""
    source = memoryview(b"1" * LARGE_BYTES)
    regions: list[mmap.mmap] = []

    def copy() -> None:
        regions.append(mmap.mmap(-1, LARGE_BYTES))
        regions[-1][:] = source

    def drop() -> None:
        regions.pop().close()

    return 1 / batch_seconds(copy, after=drop)


def disk_mb_per_second() -> tuple[float, float]:
    """Bytes from memory into a file on disk without fsync, 16 MiB at a time, and back."""
    part, count = 16 << 20, 64
    memory = os.memfd_create("disk")
    os.ftruncate(memory, part)
    with mmap.mmap(memory, part) as page:
        page.write(b"x" * part)
        file = os.open(os.environ.get("TMPDIR") or "/tmp", os.O_TMPFILE | os.O_RDWR, 0o600)
        begun = time.perf_counter()
        for _ in range(count):
            at = 0
            while at < part:
                at += os.sendfile(file, memory, at, part - at)
        written = time.perf_counter() - begun
        begun = time.perf_counter()
        for number in range(count):
            os.preadv(file, [page], number * part)
        read = time.perf_counter() - begun
    os.close(file)
    os.close(memory)
    return count * part / 1e6 / written, count * part / 1e6 / read


def python_start_seconds() -> float:
    """Wall time of an interpreter that has nothing to do."""

    def start() -> None:
        subprocess.run([sys.executable, "-c", "pass"], check=True)

    return batch_seconds(start, most=30)


def ten_forks_seconds() -> float:
    """Ten children forked one after the other, each heard of by one byte: ten actors can cost no less."""

    def forks() -> float:
        reader, writer = os.pipe()
        begin = time.perf_counter()
        for _ in range(10):
            if os.fork() == 0:
                os.write(writer, b"x")
                os._exit(0)
        heard = 0
        while heard < 10:
            heard += len(os.read(reader, 10))
        seconds = time.perf_counter() - begin
        for _ in range(10):
            os.wait()
        os.close(reader)
        os.close(writer)
        return seconds

    return statistics.median(forks() for _ in range(20))


def main() -> None:
    """Print every limit as one JSON line."""
    cpus = sorted(os.sched_getaffinity(0))
    figures = {
        # Forks first: what a fork costs grows with the memory this process has touched.
        "ten_forks": ten_forks_seconds(),
        "python_start": python_start_seconds(),
        "ping_pong": ping_pong_per_second(cpus[0], cpus[-1]),
        "ping_pong_one_cpu": ping_pong_per_second(cpus[0], cpus[0]),
        "frames": frames_per_second(),
        "memcpy": memcpy_per_second(),
        "memcpy_fresh": memcpy_fresh_per_second(),
    }
    figures["disk_write"], figures["disk_read"] = disk_mb_per_second()
    print(json.dumps({"figures": figures, "notes": {}}), flush=True)


if __name__ == "__main__":
    main()
