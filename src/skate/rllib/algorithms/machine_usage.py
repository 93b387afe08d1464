"""Use of the machine's CPUs and memory, for results."""

from __future__ import annotations

import time

#: Seconds for which figures are good: short iterations would spend a share of their time on them, and shares of the time
#: since a few milliseconds ago are of whatever runs at that moment.
_FRESH_SECONDS = 0.25


class _Newest:
    """The figures that were read last, and when."""

    at = -_FRESH_SECONDS
    figures: dict[str, float] = {}  # noqa: RUF012  replaced as a whole


def usage() -> dict[str, float]:
    """Return the shares of CPU time and memory in use, in percent; nothing if psutil is not installed."""
    now = time.monotonic()
    if now - _Newest.at < _FRESH_SECONDS:
        return dict(_Newest.figures)
    try:
        import psutil  # optional
    except ImportError:
        return {}
    _Newest.figures = {
        "cpu_util_percent": float(psutil.cpu_percent(interval=None)),
        "ram_util_percent": float(psutil.virtual_memory().percent),
    }
    _Newest.at = now
    return dict(_Newest.figures)
