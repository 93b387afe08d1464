"""The cache of prepared environments: location, users, and eviction.

An entry is one folder or file, `<kind>/<key>`, built once and then only read. Beside it lies a lock file
which is held exclusively while the entry is built or removed and shared by each process that uses it. The
kernel drops these locks with the process, so nothing stays in use after a crash. The lock file holds the
entry's size in bytes once the entry is complete: an entry whose lock file is empty was never finished and is
built again. A lock file goes with its entry, so a process that gets a lock checks that its file still exists.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import secrets
import shutil
import stat
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from skate.exceptions import RuntimeEnvSetupError
from skate.runtime_env.deadline import Deadline

DEFAULT_LIMIT_BYTES = 10 * 1024**3
# The polling interval of a waiter; only installations of other processes are polled.
_RETRY_S = 0.02
_UNFINISHED = ".building-"

Build = Callable[[Path], None]


def default_root() -> Path:
    """Return the cache folder of this user: $SKATE_CACHE_DIR, else $XDG_CACHE_HOME/skate, else ~/.cache/skate."""
    named = os.environ.get("SKATE_CACHE_DIR")
    if named:
        return Path(named).expanduser().absolute() / "runtime_env"
    xdg = os.environ.get("XDG_CACHE_HOME")
    # By the XDG specification a relative path counts as unset.
    base = Path(xdg) if xdg and os.path.isabs(xdg) else Path.home() / ".cache"
    return base / "skate" / "runtime_env"


class Cache:
    """One cache folder, as used by this process. Thread-safe.

    Args:
        root: the folder, created with mode 0700 if it does not exist.
        limit_bytes: above this size the least recently used entries that are not in use are removed.
    """

    def __init__(self, root: Path, limit_bytes: int = DEFAULT_LIMIT_BYTES) -> None:
        self.root = Path(root)
        self.limit_bytes = limit_bytes
        # Entries that belong to this process alone carry this in their key.
        self.session = f"{os.getpid()}-{secrets.token_hex(4)}"
        self._mutex = threading.Lock()
        # For each entry in use here: the open lock file that marks it as used, and the number of users.
        self._leases: dict[Path, tuple[int, int]] = {}
        _private_folder(self.root)

    def __repr__(self) -> str:
        return f"<Cache {self.root}, {len(self._leases)} in use>"

    def entry(self, kind: str, key: str, build: Build, deadline: Deadline, *, in_place: bool = False) -> Path:
        """Return the complete entry `kind/key`, built now if necessary; it stays in use until `release`.

        Args:
            build: creates the entry at the given path, in a temporary place unless `in_place`.
            in_place: for entries that cannot be renamed, such as a virtual environment.

        Raises RuntimeEnvSetupError at the deadline, and any error of `build`, whose output is then removed.
        """
        path = self.root / kind / key
        if self._join_lease(path):
            return path
        lock = self._open_lock(path)
        built = False
        try:
            while True:
                shared = _flock(lock, fcntl.LOCK_SH)
                if shared and os.fstat(lock).st_nlink == 0:
                    # The entry was removed together with its lock file, so this lock is void.
                    gone, lock = lock, self._open_lock(path)
                    os.close(gone)
                elif shared and _size_noted(lock) is not None and path.exists():
                    break
                elif shared and self._build_if_first(path, lock, build, in_place):
                    built = True
                else:
                    # Never wait for the exclusive lock: the process that built the entry continues to use it.
                    deadline.check(f"waiting for another process to finish {path}")
                    time.sleep(deadline.left_s(_RETRY_S))
        except BaseException:
            os.close(lock)
            raise
        self._take_lease(path, lock)
        if built:
            self.prune()
        return path

    def release(self, path: Path) -> None:
        """Release one use of an entry; after the last one it may be removed when room is needed."""
        with self._mutex:
            if path not in self._leases:
                return
            lock, users = self._leases.pop(path)
            if users > 1:
                self._leases[path] = (lock, users - 1)
                return
            # The time of the last use is the lock file's own.
            os.utime(lock)
            os.close(lock)
        if _session_of(path.name) == self.session:
            self._remove(path)

    def in_use(self) -> list[Path]:
        """Return the entries that this process uses."""
        with self._mutex:
            return sorted(self._leases)

    def prune(self, limit_bytes: int | None = None) -> list[Path]:
        """Remove least recently used entries until the cache is within its limit; returns the removed paths.

        Entries in use by any process stay, however large; private entries of dead processes are removed immediately.
        """
        limit = self.limit_bytes if limit_bytes is None else limit_bytes
        removed = [path for path in self._left_over() if self._remove(path)]
        entries = sorted(self._entries())
        total = sum(size for _, size, _ in entries)
        for _, size, path in entries:
            if total > limit and self._remove(path):
                total -= size
                removed.append(path)
        return removed

    def close(self) -> None:
        """Release everything that this process uses."""
        for path in self.in_use():
            with self._mutex:
                lock, _ = self._leases[path]
                self._leases[path] = (lock, 1)
            self.release(path)

    def _join_lease(self, path: Path) -> bool:
        with self._mutex:
            if path not in self._leases or not path.exists():
                return False
            lock, users = self._leases[path]
            self._leases[path] = (lock, users + 1)
            return True

    def _take_lease(self, path: Path, lock: int) -> None:
        with self._mutex:
            os.utime(lock)
            older, users = self._leases.get(path, (None, 0))
            self._leases[path] = (lock, users + 1)
            if older is not None:
                os.close(older)

    def _open_lock(self, path: Path) -> int:
        _private_folder(self.root / "locks")
        return os.open(self._lock_file(path), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)

    def _lock_file(self, path: Path) -> Path:
        return self.root / "locks" / f"{path.parent.name}-{path.name}"

    def _build_if_first(self, path: Path, lock: int, build: Build, in_place: bool) -> bool:
        """Build an entry unless another process holds its lock; the lock must be taken again afterwards."""
        # A shared lock cannot be upgraded atomically: release it, and check again.
        fcntl.flock(lock, fcntl.LOCK_UN)
        if not _flock(lock, fcntl.LOCK_EX):
            return False
        incomplete = _size_noted(lock) is None or not path.exists()
        if os.fstat(lock).st_nlink and incomplete:
            self._build(path, lock, build, in_place)
            return True
        fcntl.flock(lock, fcntl.LOCK_UN)
        return False

    def _build(self, path: Path, lock: int, build: Build, in_place: bool) -> None:
        os.ftruncate(lock, 0)
        _delete(path)
        _private_folder(path.parent)
        if in_place:
            try:
                build(path)
            except BaseException:
                _delete(path)
                raise
        else:
            scratch = _scratch(path)
            _delete(scratch)
            scratch.mkdir(mode=0o700)
            try:
                build(scratch / path.name)
                (scratch / path.name).rename(path)
            finally:
                _delete(scratch)
        os.pwrite(lock, str(_size(path)).encode(), 0)

    def _left_over(self) -> Iterator[Path]:
        """Yield leftovers of dead processes: entries of other sessions, and unfinished ones."""
        for path, noted, _ in self._locked():
            if not noted or _session_of(path.name) not in (None, self.session):
                yield path

    def _entries(self) -> Iterator[tuple[float, int, Path]]:
        """Return time of last use, size in bytes and path of each complete entry."""
        for path, noted, used_at in self._locked():
            if noted and path.exists():
                yield used_at, int(noted), path

    def _locked(self) -> list[tuple[Path, bytes, float]]:
        """Yield path, recorded size and time of last use of each entry with a lock file."""
        found = []
        for item in (self.root / "locks").glob("*"):
            kind, _, key = item.name.partition("-")
            with contextlib.suppress(FileNotFoundError):  # another process removed it just now
                found.append((self.root / kind / key, item.read_bytes(), item.stat().st_mtime))
        return found

    def _remove(self, path: Path) -> bool:
        """Remove an entry and its partial builds, unless it is in use or being built."""
        lock = self._open_lock(path)
        try:
            if not _flock(lock, fcntl.LOCK_EX) or os.fstat(lock).st_nlink == 0:
                return False
            os.ftruncate(lock, 0)
            _delete(_scratch(path))
            _delete(path)
            self._lock_file(path).unlink()
            return True
        finally:
            os.close(lock)


_caches: dict[Path, Cache] = {}
_caches_mutex = threading.Lock()


def at(root: Path) -> Cache:
    """Return this process's Cache for a folder, always the same one, so that leases are counted once."""
    root = Path(os.path.abspath(root))
    with _caches_mutex:
        if root not in _caches:
            _caches[root] = Cache(root)
        return _caches[root]


def _scratch(path: Path) -> Path:
    """Return the path at which an entry is built; one is enough, because only the holder of its lock builds it."""
    return path.with_name(_UNFINISHED + path.name)


def _session_of(key: str) -> str | None:
    """Return the session of an entry, or None for shared entries; keys are `hash` or `hash~session`."""
    _, mark, session = key.partition("~")
    return session if mark else None


def _flock(lock: int, how: int) -> bool:
    """Try to lock without waiting; True on success."""
    try:
        fcntl.flock(lock, how | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _size_noted(lock: int) -> int | None:
    noted = os.pread(lock, 32, 0)
    return int(noted) if noted else None


def _size(path: Path) -> int:
    """Return the size of an entry on disk, in bytes."""
    if not path.is_dir() or path.is_symlink():
        return path.lstat().st_size
    total = 0
    for folder, _, files in os.walk(path):
        for name in files:
            with contextlib.suppress(FileNotFoundError):
                total += os.lstat(os.path.join(folder, name)).st_blocks * 512
    return total


def _delete(path: Path) -> None:
    if not path.is_dir() or path.is_symlink():
        path.unlink(missing_ok=True)
        return
    try:
        shutil.rmtree(path)
    except PermissionError:
        # It contains a read-only folder: make all folders writable and retry.
        for folder, _, _ in os.walk(path):
            os.chmod(folder, stat.S_IRWXU)
        shutil.rmtree(path)


def _private_folder(folder: Path) -> None:
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        if folder.stat().st_uid != os.getuid():
            raise RuntimeEnvSetupError(
                f"the cache folder {folder} belongs to another user, who could add code to it. Set "
                "SKATE_CACHE_DIR to a folder of your own."
            )
        if stat.S_IMODE(folder.stat().st_mode) & 0o077:
            folder.chmod(0o700)
    except OSError as error:
        raise RuntimeEnvSetupError(
            f"the cache folder {folder} cannot be used: {error.strerror or error}. Set "
            "SKATE_CACHE_DIR to a writable folder."
        ) from error
