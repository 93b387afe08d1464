"""Memory that a training step frees is there for the next one."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from skate.train.worker.allocator import keep_freed_memory

#: Prints the pages that each round faults in: it allocates four blocks of 20 MiB in a thread, writes to them and frees them.
PROGRAM = """
import ctypes, resource, sys, threading
from skate.train.worker.allocator import keep_freed_memory
libc = ctypes.CDLL(None)
libc.malloc.restype, libc.malloc.argtypes, libc.free.argtypes = ctypes.c_void_p, [ctypes.c_size_t], [ctypes.c_void_p]
libc.memset.argtypes = [ctypes.c_void_p, ctypes.c_int, ctypes.c_size_t]
SIZE, faults = 20 << 20, []

def rounds():
    if sys.argv[1] == "kept":
        assert keep_freed_memory()
    for _ in range(6):
        before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
        blocks = [libc.malloc(SIZE) for _ in range(4)]
        for block in blocks:
            libc.memset(block, 1, SIZE)
        for block in blocks:
            libc.free(block)
        faults.append(resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before)

thread = threading.Thread(target=rounds)
thread.start()
thread.join()
print(min(faults[2:]))
"""
GLIBC = "CS_GNU_LIBC_VERSION" in os.confstr_names and "glibc" in (os.confstr("CS_GNU_LIBC_VERSION") or "")


@pytest.mark.skipif(not GLIBC, reason="the allocator is glibc's")
def test_freed_memory_of_a_thread_is_kept() -> None:
    def faults(way: str) -> int:
        done = subprocess.run(
            [sys.executable, "-c", PROGRAM, way], capture_output=True, text=True, check=True
        )
        return int(done.stdout)

    assert faults("kept") < 100
    # A page may have 4 kB or 2 MB, so the ordinary way is only compared.
    assert faults("ordinary") > faults("kept")


def test_settings_of_the_user_are_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MALLOC_ARENA_MAX", "1")
    assert not keep_freed_memory()
