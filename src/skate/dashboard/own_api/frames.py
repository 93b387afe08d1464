"""Tracebacks of tasks: the kind of the error, and the line of the user's program that raised it."""

from __future__ import annotations

import re
from typing import Any

_FRAME = re.compile(r'^ *File "([^"\n]+)", line (\d+), in (.+)$', re.MULTILINE)
_ERROR = re.compile(r"^((?:\w+\.)*\w+)(?::|$)")
#: Frames of installed packages are not the user's.
_INSTALLED = re.compile(r"/(?:site|dist)-packages/|/lib/python3[.\d]*/|^<frozen ")


def place_of(message: str, error: str = "") -> dict[str, Any]:
    """Return the kind of an error, its file and line in the user's program, the function there, and its last line.

    Args:
        message: The text of the error, usually a traceback.
        error: The kind, if the text has none.
    """
    frames = _FRAME.findall(message)
    own = [frame for frame in frames if not _INSTALLED.search(frame[0])] or frames
    file, line, function = own[-1] if own else ("", "0", "")
    last = next(
        (text for text in reversed(message.strip().splitlines()) if text and not text.startswith(" ")), ""
    )
    kind = _ERROR.match(last) if frames else None
    return {
        "kind": kind[1] if kind else error,
        "file": file,
        "line": int(line),
        "function": function,
        "text": last,
    }


def frames_of(message: str) -> list[dict[str, Any]]:
    """Return the frames of a traceback, the innermost last, each with its file, line, function, and if it is the user's."""
    return [
        {"file": file, "line": int(line), "function": function, "own": not _INSTALLED.search(file)}
        for file, line, function in _FRAME.findall(message)
    ]
