"""The first bytes of the arena: for each worker, the number of the last task it has begun.

A worker that dies leaves it behind, so that its node knows which of the tasks sent ahead were never begun and may
run elsewhere, at no cost in retries.
"""

from __future__ import annotations

import struct

STATUS_BYTES = 1 << 16
STATUS_SLOT = struct.Struct("<Q")


def status_slot(cid: int) -> int:
    """Where a worker's number stands."""
    return cid * STATUS_SLOT.size % STATUS_BYTES
