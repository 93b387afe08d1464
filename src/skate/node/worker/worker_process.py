"""A worker process as its node's shell knows it."""

from __future__ import annotations

from skate.node.worker.launcher import Launcher
from skate.protocol.fields import Death
from skate.wire.channel import Channel


class WorkerProcess:
    """One worker: its channel, its pid once it is known, and how far it has ended."""

    __slots__ = (
        "cid", "channel", "launcher", "pid", "status", "closed", "kill_wanted", "exited", "slot", "killed", "job",
        "resident", "resident_peak", "shared", "peak", "error",
    )  # fmt: skip

    def __init__(self, cid: int, channel: Channel, job: str = "") -> None:
        self.cid = cid
        self.job = job  # whose program it belongs to, where a node serves several
        self.channel = channel
        self.launcher: Launcher | None = None
        self.pid = 0
        self.status: int | None = None
        self.closed = False
        self.exited = False
        self.kill_wanted = False
        self.slot = -1  # on the board; none before it is forked
        self.killed = False  # by its node
        self.error: Death | None = None  # why its node gives it up, if it does
        #: Bytes of its own at the last look, and the most that was seen; shared with the zygote, once that is measured.
        self.resident = 0
        self.resident_peak = 0
        self.shared: int | None = None
        self.peak = (
            0  # what the kernel says once it has ended: the most that it had mapped, shared memory too
        )
