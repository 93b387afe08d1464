"""The journal of a run's reports, appended as JSON lines: the cost of a report does not grow with the run.

On a disk a line is written before the report returns. An object store cannot append: there lines are buffered
in memory and written as a numbered part when one is a checkpoint, when there are many, after some seconds,
and at the end. A last line that a crash truncated is skipped when the journal is read.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterator
from typing import Any

from skate.train.storage import filesystem as files
from skate.train.storage.run_folder import RunFolder

NAME = "journal.jsonl"
_PARTS = "journal"
_MANY = 200
_OLD_SECONDS = 5.0


class Journal:
    """The journal of a run's folder."""

    def __init__(self, folder: RunFolder) -> None:
        self.folder = folder
        self._file: Any = None
        self._lines: list[bytes] = []
        self._part = -1
        self._flushed = time.monotonic()

    def append(self, entry: dict[str, Any], durable: bool = False) -> None:
        """Add an entry; with `durable` it survives a crash of the machine, otherwise only one of the process."""
        line = json.dumps(entry, default=_plain).encode() + b"\n"
        if not self.folder.local:
            self._lines.append(line)
            old = time.monotonic() - self._flushed >= _OLD_SECONDS
            if durable or old or len(self._lines) >= _MANY:
                self.flush()
            return
        if self._file is None:
            path = self.folder.at(NAME)
            torn = _end_is_torn(path)
            self._file = open(path, "ab", buffering=0)  # noqa: SIM115 - open as long as the run
            if torn:
                self._file.write(b"\n")
        self._file.write(line)
        if durable:
            os.fdatasync(self._file.fileno())

    def flush(self) -> None:
        """Write the buffered lines."""
        if not self._lines:
            return
        if self._part < 0:
            self._part = len(list(self._part_names()))
        contents = b"".join(self._lines)
        self.folder.filesystem.create_dir(self.folder.at(_PARTS), recursive=True)
        files.write_bytes(
            self.folder.filesystem, self.folder.at(f"{_PARTS}/{self._part:08d}.jsonl"), contents
        )
        self._part += 1
        self._lines.clear()
        self._flushed = time.monotonic()

    def close(self) -> None:
        """Write buffered entries, and close the file."""
        self.flush()
        if self._file is not None:
            self._file.close()
            self._file = None

    def entries(self) -> Iterator[dict[str, Any]]:
        """Yield all entries, oldest first."""
        for contents in self._contents():
            for line in contents.splitlines():
                try:
                    entry = json.loads(line)
                except ValueError:  # truncated by a crash
                    continue
                if isinstance(entry, dict):
                    yield entry

    def _contents(self) -> Iterator[bytes]:
        if self.folder.local:
            yield files.read_bytes(None, self.folder.at(NAME)) or b""
            return
        for name in self._part_names():
            yield files.read_bytes(self.folder.filesystem, name) or b""

    def _part_names(self) -> Iterator[str]:
        from pyarrow import fs  # runs on local disks never need it

        selector = fs.FileSelector(self.folder.at(_PARTS), allow_not_found=True)
        yield from sorted(info.path for info in self.folder.filesystem.get_file_info(selector))


def _end_is_torn(path: str) -> bool:
    try:
        with open(path, "rb") as file:
            file.seek(0, os.SEEK_END)
            if not file.tell():
                return False
            file.seek(-1, os.SEEK_END)
            return file.read(1) != b"\n"
    except FileNotFoundError:
        return False


def _plain(value: Any) -> Any:
    """Convert numbers of numpy and torch for JSON, and unsupported values to text."""
    if hasattr(value, "tolist"):
        return value.tolist()
    return repr(value)
