"""Atomic writing of one file: under a temporary name first, or uploaded as a whole."""

from __future__ import annotations

import contextlib
import shutil
import tempfile
import uuid
from collections.abc import Callable, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.fs as pafs

from skate.data.source.files import streams
from skate.data.source.files.filesystems import of_fsspec, renames

#: A file to upload as a whole is kept in memory up to this many bytes, and on disk above.
_IN_MEMORY = 32 << 20
_COPIED = 8 << 20


class Output:
    """A file being written; `done` publishes it under its name, `drop` discards it."""

    def __init__(
        self, filesystem: pafs.FileSystem, path: str, options: dict[str, Any], retried: Sequence[str]
    ) -> None:
        self._filesystem = filesystem
        self._path = path
        self._retried = retried
        self._spool: Any = None
        given = dict(options)
        compression = given.pop("compression", "detect")
        if compression == "detect":
            compression = streams.compression_of(path)
        self._options = given
        if renames(filesystem):
            directory, _, name = path.rpartition("/")
            # Readers skip names that begin with a dot.
            self._temporary = f"{directory}/.{name}.{uuid.uuid4().hex[:8]}.part"
            self.file = filesystem.open_output_stream(self._temporary, compression=compression, **given)
        else:
            self._spool = tempfile.SpooledTemporaryFile(_IN_MEMORY)  # noqa: SIM115 (done and drop close it)
            self.file = pa.PythonFile(_Kept(self._spool), "w")
            if compression:
                self.file = pa.CompressedOutputStream(self.file, compression)

    def done(self) -> None:
        """Finish writing, and publish the file under its name."""
        self.file.close()
        if self._spool is None:
            self._filesystem.move(self._temporary, self._path)
            return
        with self._spool:
            streams.retried(self._put, self._retried)

    def _put(self) -> None:
        size = self._spool.seek(0, 2)
        self._spool.seek(0)
        inner = of_fsspec(self._filesystem)
        if inner is not None and size <= _IN_MEMORY:
            inner.pipe_file(self._path, self._spool.read())
            return
        if inner is not None:
            with tempfile.NamedTemporaryFile() as whole:
                shutil.copyfileobj(self._spool, whole, _COPIED)
                whole.flush()
                inner.put_file(whole.name, self._path)
            return
        with self._filesystem.open_output_stream(self._path, compression=None, **self._options) as file:
            while data := self._spool.read(_COPIED):
                file.write(data)

    def drop(self) -> None:
        """Discard the file after a failure."""
        with contextlib.suppress(OSError, pa.ArrowException, ValueError):
            self.file.close()
        if self._spool is not None:
            self._spool.close()
            return
        with contextlib.suppress(OSError):
            self._filesystem.delete_file(self._temporary)


class _Kept:
    """A file object that ignores `close`, so that closing its wrapper keeps it open."""

    def __init__(self, file: Any) -> None:
        self._file = file
        self.closed = False

    def write(self, data: Any) -> int:
        return int(self._file.write(memoryview(data)))

    def flush(self) -> None:
        self._file.flush()

    def close(self) -> None:
        self.closed = True

    def writable(self) -> bool:
        return True

    def readable(self) -> bool:
        return False

    def seekable(self) -> bool:
        return False

    def tell(self) -> int:
        return int(self._file.tell())


def write_file(
    filesystem: pafs.FileSystem,
    path: str,
    options: dict[str, Any],
    retried: Sequence[str],
    write: Callable[[Any], None],
) -> None:
    """Write one file with a function that receives the open file."""
    output = Output(filesystem, path, options, retried)
    try:
        write(output.file)
        output.done()
    except BaseException:  # Ctrl-C as well: an incomplete file must not get the name
        output.drop()
        raise
