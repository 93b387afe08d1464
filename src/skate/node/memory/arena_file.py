"""The memory behind the arena: one anonymous file that every process of the node maps.

A memfd has no name, so nothing is left behind however the processes end, and it does not count against
the size of /dev/shm. It has the arena's full capacity from the start, but is sparse: only pages that
were touched take up memory, and `release` returns them to the system.
"""

from __future__ import annotations

import errno
import os
import sys
from collections.abc import Callable

_PUNCH_HOLE_KEEP_SIZE = 0x02 | 0x01  # linux/falloc.h
_REFUSED = (errno.EOPNOTSUPP, errno.ENOSYS, errno.EPERM, errno.EINVAL)


class ArenaFile:
    """An anonymous sparse file of `capacity` bytes. Other processes receive `fd` and map it.

    Raise OSError if the system does not provide such a file.
    """

    def __init__(self, capacity: int) -> None:
        self.capacity = capacity
        # -1 once closed.
        self.fd = _create()
        self._punch = _punch_function()
        try:
            os.ftruncate(self.fd, capacity)
            _seal_size(self.fd)
        except OSError as error:
            self.close()
            if error.errno == errno.EFBIG:
                raise OSError(
                    errno.EFBIG,
                    f"shared memory of {capacity} bytes is requested, but this process may create files of at most "
                    f"{file_bytes_max()}; raise the limit (ulimit -f), or start with a smaller object_store_memory",
                ) from None
            raise

    def __repr__(self) -> str:
        return f"ArenaFile(fd={self.fd}, capacity={self.capacity})"

    def release(self, offset: int, size: int) -> bool:
        """Return the memory of these bytes to the system if possible; return False if nothing was done.

        They read as zeros afterwards. Only whole pages inside the range are released.
        """
        if self._punch is None:
            return False
        error = self._punch(self.fd, offset, size)
        if error in _REFUSED:
            self._punch = None
            return False
        if error:
            raise OSError(
                error, f"cannot give back {size} bytes at {offset} of the arena: {os.strerror(error)}"
            )
        return True

    def resident(self) -> int:
        """Return the number of bytes of memory that the file takes up now."""
        return os.fstat(self.fd).st_blocks * 512

    def close(self) -> None:
        """Close `fd`, once. The memory stays while any process maps it."""
        fd, self.fd = self.fd, -1
        if fd >= 0:
            os.close(fd)


def file_bytes_max() -> int:
    """Return the maximum size of a file that this process may create, including files in memory."""
    import resource  # not on every platform

    soft, _ = resource.getrlimit(resource.RLIMIT_FSIZE)
    return 1 << 62 if soft == resource.RLIM_INFINITY else soft


def _create() -> int:
    if hasattr(os, "memfd_create"):
        try:
            return os.memfd_create("skate-arena", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
        except OSError as error:
            # Some sandboxes forbid the call; any other error is a real failure.
            if error.errno not in (errno.ENOSYS, errno.EPERM):
                raise
    shared = "/dev/shm"
    directory = shared if os.access(shared, os.W_OK | os.X_OK) else None
    import tempfile  # only where there are no anonymous files; it takes 3 ms

    fd, path = tempfile.mkstemp(prefix="skate-arena-", dir=directory)
    os.unlink(path)
    return fd


def _seal_size(fd: int) -> None:
    """Seal the file's length against every holder of `fd`: truncation would kill its readers with SIGBUS."""
    if not sys.platform.startswith("linux"):
        return
    import fcntl  # not on every platform

    try:
        fcntl.fcntl(fd, fcntl.F_ADD_SEALS, fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW | fcntl.F_SEAL_SEAL)
    except OSError as error:
        # The fallback file is not a memfd and cannot be sealed.
        if error.errno != errno.EINVAL:
            raise


def _punch_function() -> Callable[[int, int, int], int] | None:
    """Return fallocate(2) as (fd, offset, size) -> errno or 0, or None if the platform has none."""
    if not sys.platform.startswith("linux"):
        return None
    import ctypes  # takes 2 ms, and only processes with an arena need it

    library = ctypes.CDLL(None, use_errno=True)
    fallocate = getattr(library, "fallocate64", None) or getattr(library, "fallocate", None)
    if fallocate is None:
        return None
    fallocate.argtypes = (ctypes.c_int, ctypes.c_int, ctypes.c_int64, ctypes.c_int64)
    fallocate.restype = ctypes.c_int

    def punch(fd: int, offset: int, size: int) -> int:
        while fallocate(fd, _PUNCH_HOLE_KEEP_SIZE, offset, size):
            if ctypes.get_errno() != errno.EINTR:
                return ctypes.get_errno()
        return 0

    return punch
