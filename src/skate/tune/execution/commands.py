"""Commands of a search's machine: start and stop processes, commit checkpoints, write the journal, notify callbacks."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from skate.tune.experiment.trial import Source, Trial


@dataclass(frozen=True)
class Start:
    """Begin the process of a trial, from a checkpoint if there is one, and have it take its first step."""

    trial: Trial
    source: Source | None


@dataclass(frozen=True)
class Advance:
    """The next step."""

    trial: Trial


@dataclass(frozen=True)
class Save:
    """Save a class trainable; the result is passed to `Machine.saved`."""

    trial: Trial


@dataclass(frozen=True)
class Stop:
    """End the process of a trial; `unwind` if something still runs in it."""

    trial: Trial
    unwind: bool


@dataclass(frozen=True)
class Commit:
    """Make what was gathered in the storage a checkpoint."""

    trial: Trial
    name: str
    metrics: dict[str, Any]


@dataclass(frozen=True)
class Delete:
    """Remove a checkpoint."""

    trial: Trial
    name: str


@dataclass(frozen=True)
class Note:
    """Write into the journal; `durable` for what must survive a crash of the machine."""

    entry: dict[str, Any]
    durable: bool = False


@dataclass(frozen=True)
class Tell:
    """Call a hook of the callbacks."""

    hook: str
    info: dict[str, Any]


@dataclass(frozen=True)
class Write:
    """Append a line to a file in the folder of the search."""

    name: str
    line: str


Command = Start | Advance | Save | Stop | Commit | Delete | Note | Tell | Write
