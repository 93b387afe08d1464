"""The clock of the controller: it starts from the wall clock and runs steadily, even if the wall clock is set.

Delays use this clock, so that setting the wall clock, by hand or by NTP, neither starts nor ends a replica. It counts seconds
since the epoch, as autoscaling policies expect; `shown` converts a time for people, who compare it with their own clocks.
"""

from __future__ import annotations

import time

#: The state that a controller passes to its successor: the boot id, and the epoch of its clock.
Mark = tuple[str, float]

_BOOT = "/proc/sys/kernel/random/boot_id"
#: Times are shown unchanged while the wall clock differs by less than this.
_DRIFT_SECONDS = 0.5
_epoch = time.time() - time.monotonic()


def now() -> float:
    """Return the seconds since the epoch by this clock."""
    return _epoch + time.monotonic()


def shown(seconds: float) -> float:
    """Convert a time from `now` for display: to the wall clock, if it was set meanwhile."""
    drift = time.time() - now()
    return seconds if abs(drift) < _DRIFT_SECONDS else round(seconds + drift, 1)


def mark() -> Mark:
    """Return the state that another process of this machine needs to continue this clock."""
    return _boot(), _epoch


def resume(left: Mark) -> None:
    """Continue the clock that left this mark, if it ran since the same boot, so that its times stay comparable."""
    global _epoch
    boot, epoch = left
    if boot and boot == _boot():
        _epoch = epoch


def _boot() -> str:
    try:
        with open(_BOOT) as file:
            return file.read().strip()
    except OSError:  # not Linux: each clock starts afresh
        return ""
