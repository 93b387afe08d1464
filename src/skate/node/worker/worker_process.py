"""The node's record of a worker process."""

from __future__ import annotations

from skate.node.worker.launcher import Launcher
from skate.protocol.fields import Death
from skate.wire.channel import Channel


class WorkerProcess:
    """One worker: its channel, its pid once it is known, and the state of its end."""

    __slots__ = (
        "cid", "channel", "launcher", "pid", "status", "closed", "kill_wanted", "exited", "slot", "killed", "job",
        "resident", "resident_peak", "shared", "peak", "error",
    )  # fmt: skip

    def __init__(self, cid: int, channel: Channel, job: str = "") -> None:
        self.cid = cid
        self.job = job  # the job of its program, if the node serves several
        self.channel = channel
        self.launcher: Launcher | None = None
        self.pid = 0
        self.status: int | None = None
        self.closed = False
        self.exited = False
        self.kill_wanted = False
        self.slot = -1  # in the status table; -1 before the fork
        self.killed = False  # by its node
        self.error: Death | None = None  # the reason if the node gave it up
        #: Its private bytes at the last check, and their maximum; bytes shared with the zygote, once measured.
        self.resident = 0
        self.resident_peak = 0
        self.shared: int | None = None
        self.peak = 0  # the peak resident size that the kernel reports at the end, including shared memory
