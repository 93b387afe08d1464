"""The log files of a node for readers elsewhere: their names, and pieces of one file, also while it is written and rotated."""

from __future__ import annotations

import os
from typing import Any

from skate.node.output import log_folder
from skate.node.output.log_folder import LogFolder, LogPart
from skate.protocol.fields import Where

#: The most bytes of one answer.
PIECE_BYTES = 1 << 18


def rows(folder: LogFolder, where: Where) -> tuple[dict[str, Any], ...]:
    """Return a row for each file; or, if `where` names a file, one with a piece of it, and none if it is not here.

    Args:
        folder: the log files of this node.
        where: `file` is the name, "" for all. `at` is the first byte wanted, negative to count from the end. `turn` is the
            number of rotations before the file to which that refers: a full stream continues in a new file of the same name.

    A piece has the bytes as `data`, `at` and `turn` of the first byte behind it, the `size` of the file, `open` if more may
    come, and `lost` if bytes before it were removed.
    """
    name = str(where["file"])
    if not name:
        return tuple({"file": each.name, "size": each.size_bytes} for each in log_folder.entries(folder.path))
    try:
        return (_piece(folder, name, int(where.get("at", 0)), int(where.get("turn", -1))),)
    except (OSError, ValueError, OverflowError):  # it was removed, or was never a log file
        return ()


def _piece(folder: LogFolder, name: str, at: int, turn: int) -> dict[str, Any]:
    part = folder.part(name, turn)
    lost = turn not in (-1, part.turn)
    row = _read(part, name, 0 if lost else at)
    if not row["data"] and part.is_open and turn >= 0:
        # It may be full, and the stream continues in the next file.
        following = folder.part(name, -1)
        if following.turn == part.turn:
            following.file.close()
        else:
            row = _read(following, name, 0)
            lost = following.turn > part.turn + 1
    return {**row, "lost": lost}


def _read(part: LogPart, name: str, at: int) -> dict[str, Any]:
    with part.file as file:
        size = os.fstat(file.fileno()).st_size
        start = max(0, size + at) if at < 0 else at
        data = os.pread(file.fileno(), PIECE_BYTES, start)
    return {
        "file": name, "data": data, "at": start + len(data), "turn": part.turn, "size": size, "open": part.is_open
    }  # fmt: skip
