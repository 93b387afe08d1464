"""Commands of a search's machine: start and stop processes, commit checkpoints, write the journal, notify callbacks."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from skate.tune.experiment.trial import Source, Trial


@dataclass(frozen=True)
class Start:
    """Start the process of a trial, from a checkpoint if there is one, and run its first step."""

    trial: Trial
    source: Source | None


@dataclass(frozen=True)
class Advance:
    """Run the next step."""

    trial: Trial


@dataclass(frozen=True)
class Save:
    """Save a class trainable; the result is passed to `Machine.saved`."""

    trial: Trial


@dataclass(frozen=True)
class Stop:
    """End the process of a trial; `unwind` if a step is still running."""

    trial: Trial
    unwind: bool


@dataclass(frozen=True)
class Commit:
    """Turn the staging folder into a checkpoint."""

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
    """Write to the journal; with `durable`, the entry survives a crash of the machine."""

    entry: dict[str, Any]
    durable: bool = False


@dataclass(frozen=True)
class Notify:
    """Call a hook of the callbacks."""

    hook: str
    info: dict[str, Any]


@dataclass(frozen=True)
class Write:
    """Append a line to a file in the folder of the search."""

    name: str
    line: str


Command = Start | Advance | Save | Stop | Commit | Delete | Note | Notify | Write
