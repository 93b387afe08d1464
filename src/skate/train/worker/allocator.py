"""Settings of glibc's allocator for a process whose training function runs in a thread.

Freed memory of a thread's arena goes back to the kernel whenever one of its heaps of 64 MiB becomes empty. A training step frees
its gradients and asks for them again, so each step may fault in all of their pages.
"""

from __future__ import annotations

import ctypes
import os

M_TRIM_THRESHOLD = -1
M_TOP_PAD = -2
M_MMAP_THRESHOLD = -3
MIB = 1 << 20
#: The largest that glibc takes; larger blocks are mapped one by one, in threads and elsewhere.
MMAP_THRESHOLD_BYTES = 32 * MIB
#: As much as a heap of a thread has room for: no heap is given back, however much room the one before it has.
TOP_PAD_BYTES = 64 * MIB
TRIM_THRESHOLD_BYTES = 128 * MIB
#: Settings of the user, which are left alone.
VARIABLES = (
    "GLIBC_TUNABLES",
    "MALLOC_TRIM_THRESHOLD_",
    "MALLOC_TOP_PAD_",
    "MALLOC_MMAP_THRESHOLD_",
    "MALLOC_ARENA_MAX",
)


def keep_freed_memory() -> bool:
    """Have this process keep memory that it frees, for its next step.

    Returns:
        False if nothing was set: the C library is not glibc, or the environment has settings for its allocator.
    """
    if any(name in os.environ for name in VARIABLES):
        return False
    try:
        os.confstr("CS_GNU_LIBC_VERSION")
        mallopt = ctypes.CDLL(None).mallopt
    except (ValueError, OSError, AttributeError):  # another C library
        return False
    settings = {
        M_MMAP_THRESHOLD: MMAP_THRESHOLD_BYTES,
        M_TOP_PAD: TOP_PAD_BYTES,
        M_TRIM_THRESHOLD: TRIM_THRESHOLD_BYTES,
    }
    return all(mallopt(name, value) for name, value in settings.items())
