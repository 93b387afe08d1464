"""The journal of a search, and its snapshots.

Entries are appended, so the cost of a result does not grow with their number. After many entries a complete
snapshot is written and a new journal file begins. A search is restored from the last snapshot and the entries
after it. A snapshot gets its name last: a crash before that leaves the previous one and its whole journal.
"""

from __future__ import annotations

import json
import os
import re
import time
from collections.abc import Callable, Iterator
from typing import Any

from skate.air.flat import plain
from skate.train.storage import filesystem as files
from skate.train.storage.journal import Journal
from skate.train.storage.run_folder import RunFolder
from skate.tune.error import TuneError
from skate.tune.experiment.trial_folder import TrialFolder
from skate.tune.journal.codec import as_json

#: The least number of entries between two snapshots.
ENTRIES = 2000
#: The format version of snapshots and journals; a larger one was written by a later release.
VERSION = 1
_ENCODER = json.JSONEncoder(default=plain)
_STATE = re.compile(r"experiment_state-(\d+)\.json$")


class _Lines(Journal):
    """A journal with its own encoding of values that JSON cannot represent."""

    def append(self, entry: dict[str, Any], durable: bool = False) -> None:
        """Write an entry."""
        if self._file is None or not self.folder.local:
            super().append(json.loads(as_json(entry)), durable)
            return
        self._file.write(_ENCODER.encode(entry).encode() + b"\n")


class ExperimentJournal:
    """Writes the state of a search.

    Args:
        folder: the folder of the search.
        snapshot: returns the complete state, and the number of its parts.
    """

    def __init__(self, folder: RunFolder, snapshot: Callable[[], tuple[dict[str, Any], int]]) -> None:
        self.folder = folder
        self._snapshot = snapshot
        self.generation = newest(folder)
        self._lines: _Lines | None = None
        self._entries = 0
        self._enough = ENTRIES

    def begin(self) -> None:
        """Write the first snapshot of this session, and open a journal after it."""
        self.take_snapshot()

    def append(self, entry: dict[str, Any], durable: bool = False) -> None:
        """Add an entry. It survives any end of the process; `durable` is for storages that buffer lines."""
        assert self._lines is not None
        self._lines.append(entry, durable)
        self._entries += 1

    @property
    def due(self) -> bool:
        """True if a snapshot should be taken."""
        return self._entries >= self._enough

    def take_snapshot(self) -> None:
        """Write a snapshot, and begin a new journal."""
        if self._lines is not None:
            self._lines.close()
        state, parts = self._snapshot()
        self.generation += 1
        written = {"version": VERSION, "time": time.time(), "generation": self.generation, **state}
        files.write_bytes(
            self.folder.filesystem, self.folder.at(state_name(self.generation)), as_json(written)
        )
        self._lines = _Lines(_folder_of(self.folder, self.generation))
        if self.folder.local:
            os.makedirs(self._lines.folder.path, exist_ok=True)
        self._entries = 0
        # so that the cost of snapshots stays proportional to that of entries
        self._enough = max(ENTRIES, 3 * parts)
        self._forget(self.generation - 1)

    def _forget(self, before: int) -> None:
        """Only the last two snapshots are useful; all journals are kept, because they are the history."""
        if self.folder.local:
            for name in os.listdir(self.folder.path):
                found = _STATE.match(name)
                if found and int(found[1]) < before:
                    os.unlink(self.folder.at(name))

    def close(self) -> None:
        """Write a last snapshot and close the file, at the end of the session."""
        try:
            self.take_snapshot()
        finally:  # also when the disk is full
            self.abandon()

    def abandon(self) -> None:
        """Close the file without further writes."""
        if self._lines is not None:
            self._lines.close()
            self._lines = None


def state_name(generation: int) -> str:
    """The file name of a snapshot."""
    return f"experiment_state-{generation:06d}.json"


def _folder_of(folder: RunFolder, generation: int) -> RunFolder:
    return TrialFolder(folder, f"journal-{generation:06d}")


def _names(folder: RunFolder) -> list[str]:
    if folder.local:
        try:
            return os.listdir(folder.path)
        except FileNotFoundError:
            return []
    from pyarrow import fs  # searches on local disks never need it

    selector = fs.FileSelector(folder.path, allow_not_found=True)
    return [info.base_name for info in folder.filesystem.get_file_info(selector)]


def newest(folder: RunFolder) -> int:
    """The number of the newest snapshot, 0 if there is none."""
    return max((int(found[1]) for name in _names(folder) if (found := _STATE.match(name))), default=0)


def read(folder: RunFolder) -> tuple[dict[str, Any], list[dict[str, Any]]] | None:
    """Return the newest snapshot and the entries since; None if there is no search in the folder.

    Raises:
        TuneError: they were written by a later release.
    """
    generation = newest(folder)
    if not generation:
        return None
    contents = files.read_bytes(folder.filesystem, folder.at(state_name(generation)))
    state = json.loads(contents or b"{}")
    check_version(state.get("version", VERSION), folder)
    return state, list(Journal(_folder_of(folder, generation)).entries())


def check_version(found: int, folder: RunFolder) -> None:
    """Check that this release can read the files of a search.

    Raises:
        TuneError: a later release has written them.
    """
    if found > VERSION:
        raise TuneError(
            f"the search at {folder.path!r} was written by a later release of Skate (its format is {found}, this release reads "
            f"up to {VERSION}); resume it with that release"
        )


def all_entries(folder: RunFolder) -> Iterator[dict[str, Any]]:
    """Yield all entries ever written, oldest first."""
    numbers = sorted(int(name.rpartition("-")[2]) for name in _names(folder) if name.startswith("journal-"))
    for number in numbers:
        yield from Journal(_folder_of(folder, number)).entries()
