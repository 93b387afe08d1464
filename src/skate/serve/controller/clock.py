"""The clock by which the controller decides: it begins with the wall clock and goes on evenly, whatever becomes of that.

Delays are told by it, so that a clock that is set, by hand or by NTP, neither starts nor ends a replica. It counts seconds since
the epoch, since policies are told so; `shown` makes of it what people compare with their own clocks.
"""

from __future__ import annotations

import time
from pathlib import Path

#: What a controller passes on to the next one: the boot that its clock counts from, and the epoch by that clock.
Mark = tuple[str, float]

_BOOT = Path("/proc/sys/kernel/random/boot_id")
#: The same time is shown the same as long as the wall clock is right by so much.
_DRIFT_SECONDS = 0.5
_epoch = time.time() - time.monotonic()


def now() -> float:
    """Seconds since the epoch, as they were counted since this clock began."""
    return _epoch + time.monotonic()


def shown(told: float) -> float:
    """A time that `now` has told, as it is to be shown: by the wall clock, if that has been set meanwhile."""
    drift = time.time() - now()
    return told if abs(drift) < _DRIFT_SECONDS else round(told + drift, 1)


def mark() -> Mark:
    """Enough to go on counting in another process of this machine."""
    return _boot(), _epoch


def resume(left: Mark) -> None:
    """Go on as a clock that left this mark, if it did so on this machine; times that it has told stay comparable."""
    global _epoch
    boot, epoch = left
    if boot and boot == _boot():
        _epoch = epoch


def _boot() -> str:
    try:
        return _BOOT.read_text().strip()
    except OSError:  # not Linux: each clock begins anew
        return ""
