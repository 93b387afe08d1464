"""A switch between taps that delays and loses frames, for kernels without netem.

`python -m tests.cluster.tap_switch PID...` opens a tap named eth0 in the network namespace of each process and passes frames
between them. Commands come on stdin: "delay SECONDS", "loss SHARE". Each is answered by "ok". The switch ends with its stdin.
"""

from __future__ import annotations

import ctypes
import fcntl
import heapq
import os
import random
import select
import struct
import sys
import time

TUNSETIFF, IFF_TAP, IFF_NO_PI = 0x400454CA, 2, 0x1000
CLONE_NEWNET = 0x40000000
FRAME_BYTES = 65_536
BATCH = 64


def open_tap(pid: int) -> int:
    """Open a tap in the network namespace of a process. This process stays in that namespace."""
    namespace = os.open(f"/proc/{pid}/ns/net", os.O_RDONLY)
    if ctypes.CDLL(None, use_errno=True).setns(namespace, CLONE_NEWNET):
        raise OSError(ctypes.get_errno(), f"setns to the network of {pid}")
    os.close(namespace)
    tap = os.open("/dev/net/tun", os.O_RDWR | os.O_NONBLOCK)
    fcntl.ioctl(tap, TUNSETIFF, struct.pack("16sH22x", b"eth0", IFF_TAP | IFF_NO_PI))
    return tap


class Switch:
    """Learns which address is behind which tap, and delivers each frame after the delay."""

    def __init__(self, taps: list[int]) -> None:
        self.taps = taps
        self.delay_s = 0.0
        self.loss = 0.0
        self.random = random.Random(1)
        self.places: dict[bytes, int] = {}
        self.waiting: list[tuple[float, int, int, bytes]] = []
        self.count = 0

    def read(self, tap: int) -> None:
        """Take frames from a tap; those for one machine go there, others to all."""
        for _ in range(BATCH):
            try:
                frame = os.read(tap, FRAME_BYTES)
            except BlockingIOError:
                return
            self.places[frame[6:12]] = tap
            place = self.places.get(frame[:6])
            for to in self.taps if place is None else (place,):
                if to == tap or (self.loss and self.random.random() < self.loss):
                    continue
                self.count += 1
                heapq.heappush(self.waiting, (time.monotonic() + self.delay_s, self.count, to, frame))

    def write(self) -> float | None:
        """Deliver all frames that are due; return the seconds until the next one, None if there is none."""
        while self.waiting:
            remaining = self.waiting[0][0] - time.monotonic()
            if remaining > 0:
                return remaining
            _, _, tap, frame = heapq.heappop(self.waiting)
            try:
                os.write(tap, frame)
            except OSError:
                # The tap is down or its queue is full; a real switch drops the frame as well.
                continue
        return None


def main() -> None:
    switch = Switch([open_tap(int(pid)) for pid in sys.argv[1:]])
    poll = select.poll()
    for fd in (0, *switch.taps):
        poll.register(fd, select.POLLIN)
    print("ok", flush=True)
    while True:
        wait_s = switch.write()
        ready = {fd for fd, _ in poll.poll(None if wait_s is None else wait_s * 1000)}
        if 0 in ready:
            line = os.read(0, 1000).decode()
            if not line:
                return
            word, value = line.split()
            setattr(switch, {"delay": "delay_s", "loss": "loss"}[word], float(value))
            print("ok", flush=True)
        for tap in ready - {0}:
            switch.read(tap)


if __name__ == "__main__":
    main()
