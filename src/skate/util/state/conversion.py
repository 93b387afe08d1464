"""Formatting and parsing of values of the state API."""

from __future__ import annotations

import contextlib
import re
from datetime import datetime, timedelta
from typing import Any

_TRUTH = {"true": True, "True": True, "1": True, "false": False, "False": False, "0": False}
_ESCAPE_CODES = re.compile(r"\x1b\[[0-9;]*[A-Za-z]")


class Humanify:
    """Formats of columns."""

    @staticmethod
    def timestamp(x: float) -> str:
        """Format milliseconds since 1970 as local time."""
        return str(datetime.fromtimestamp(x / 1000))

    @staticmethod
    def memory(x: int) -> str:
        """Format a number of bytes in B, KiB, MiB or GiB."""
        for unit, size in (("GiB", 2**30), ("MiB", 2**20), ("KiB", 2**10)):
            if x >= size:
                return f"{x / size:.3f} {unit}"
        return f"{x:.3f} B"

    @staticmethod
    def duration(x: int) -> str:
        """Format milliseconds as hours, minutes and seconds."""
        return str(timedelta(milliseconds=x))

    @staticmethod
    def events(events: list[dict[str, Any]]) -> list[dict[str, Any]]:
        """Format the times of events like `timestamp`, in place."""
        for event in events:
            if "created_ms" in event:
                event["created_ms"] = Humanify.timestamp(event["created_ms"])
        return events

    @staticmethod
    def node_resources(resources: dict[str, float]) -> dict[str, Any]:
        """Format amounts of memory in resources like `memory`, in place."""
        for name in resources:
            if "memory" in name:
                resources[name] = Humanify.memory(int(resources[name]))  # type: ignore[assignment]
        return resources


def remove_ansi_escape_codes(text: str) -> str:
    """Remove colour codes from a text."""
    return _ESCAPE_CODES.sub("", text)


def convert_string_to_type(val: Any, convert_type: type) -> Any:
    """Convert a value to int, float or bool; None stays None.

    Texts are parsed: numbers, and "true", "True", "1", "false", "False" and "0" as bool. Raises ValueError
    for anything else.
    """
    if val is None or type(val) is convert_type:
        return val
    if convert_type is bool:
        if isinstance(val, str) and val in _TRUTH:
            return _TRUTH[val]
    else:
        with contextlib.suppress(ValueError):
            return convert_type(val)
    raise ValueError(f"Failed to convert a value {val} of type {type(val)} to {convert_type}")
