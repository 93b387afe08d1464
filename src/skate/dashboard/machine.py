"""Readings of this machine as Ray's metrics `ray_node_*`: CPUs, memory, disk and network, read from /proc.

Rates and the use of the CPUs are those since the last reading, so the first one has none.
"""

from __future__ import annotations

import os
import threading
import time
from typing import Any

from skate.util.exposition import Row

_DESCRIPTIONS = {
    "node_cpu_count": "CPUs of the machine.",
    "node_cpu_utilization": "Use of the CPUs since the last reading, in percent.",
    "node_mem_total": "Bytes of memory.",
    "node_mem_available": "Bytes of memory that programs can still get.",
    "node_mem_used": "Bytes of memory in use.",
    "node_mem_shared_bytes": "Bytes of shared memory.",
    "node_disk_free": "Free bytes of the root file system.",
    "node_disk_usage": "Used bytes of the root file system.",
    "node_network_sent": "Bytes sent since the start of the machine.",
    "node_network_received": "Bytes received since the start of the machine.",
    "node_network_send_speed": "Bytes sent a second since the last reading.",
    "node_network_receive_speed": "Bytes received a second since the last reading.",
}


class Machine:
    """The readings of this machine, which is that of the session's head."""

    def __init__(self, proc: str = "/proc") -> None:
        self._proc = proc
        self._lock = threading.Lock()
        #: Time, busy and all ticks of the CPUs, bytes sent and received.
        self._last: tuple[float, int, int, int, int] | None = None

    def rows(self, ip: str) -> list[Row]:
        """Return the current readings as rows of metrics."""
        labels = (("ip", ip), ("IsHeadNode", "true"), ("RayNodeType", "head"))
        return [
            {
                "name": name,
                "kind": "gauge",
                "description": _DESCRIPTIONS[name],
                "boundaries": (),
                "series": ((labels, float(value), (), 0.0),),
                "node_ip": ip,
                "is_head": True,
            }
            for name, value in {**self._amounts(), **self._rates()}.items()
        ]

    def _amounts(self) -> dict[str, Any]:
        memory = self._memory()
        disk = os.statvfs("/")
        return {
            "node_cpu_count": os.cpu_count() or 1,
            "node_mem_total": memory["MemTotal"],
            "node_mem_available": memory["MemAvailable"],
            "node_mem_used": memory["MemTotal"] - memory["MemAvailable"],
            "node_mem_shared_bytes": memory["Shmem"],
            "node_disk_free": disk.f_bavail * disk.f_frsize,
            "node_disk_usage": (disk.f_blocks - disk.f_bfree) * disk.f_frsize,
        }

    def _rates(self) -> dict[str, Any]:
        busy, ticks = self._ticks()
        sent, received = self._network()
        now = time.monotonic()
        with self._lock:
            last, self._last = self._last, (now, busy, ticks, sent, received)
        found: dict[str, Any] = {"node_network_sent": sent, "node_network_received": received}
        if last is None:
            return {**found, "node_network_send_speed": 0.0, "node_network_receive_speed": 0.0}
        seconds = max(now - last[0], 1e-6)
        found["node_network_send_speed"] = max(0.0, (sent - last[3]) / seconds)
        found["node_network_receive_speed"] = max(0.0, (received - last[4]) / seconds)
        if ticks > last[2]:
            found["node_cpu_utilization"] = 100 * (busy - last[1]) / (ticks - last[2])
        return found

    def _memory(self) -> dict[str, int]:
        """Return the amounts of memory in bytes, by the names of the kernel."""
        with open(f"{self._proc}/meminfo") as file:
            lines = [line.split() for line in file]
        return {words[0].rstrip(":"): int(words[1]) * 1024 for words in lines if len(words) > 1}

    def _ticks(self) -> tuple[int, int]:
        """Return the busy and all ticks of all CPUs."""
        with open(f"{self._proc}/stat") as file:
            fields = [int(word) for word in file.readline().split()[1:9]]
        return sum(fields) - fields[3] - fields[4], sum(fields)

    def _network(self) -> tuple[int, int]:
        """Return the bytes sent and received by all devices but the loopback."""
        sent = received = 0
        with open(f"{self._proc}/net/dev") as file:
            for line in file.readlines()[2:]:
                name, _, rest = line.partition(":")
                if name.strip() != "lo":
                    fields = rest.split()
                    received += int(fields[0])
                    sent += int(fields[8])
        return sent, received
