"""Readings of this machine as Ray's metrics `ray_node_*`: CPUs, memory, disk and network, read from /proc.

Rates and the use of the CPUs are those since the last reading, so the first one has none.
"""

from __future__ import annotations

import contextlib
import os
import threading
import time
from typing import Any

from skate import procfs
from skate.util.exposition import Row

_DESCRIPTIONS = {
    "node_cpu_count": "CPUs of the machine.",
    "node_cpu_utilization": "Use of the CPUs since the last reading, in percent.",
    "node_mem_total": "Bytes of memory.",
    "node_mem_available": "Bytes of memory that programs can still get.",
    "node_mem_used": "Bytes of memory in use.",
    "node_mem_shared_bytes": "Bytes of shared memory.",
    "node_mem_used_host": "Bytes of memory in use on the machine, whatever the limit of a container is.",
    "node_mem_total_host": "Bytes of memory of the machine, whatever the limit of a container is.",
    "node_cgroup_mem_used": "Bytes of memory in use in the container.",
    "node_cgroup_mem_total": "Bytes of memory that the container may use; those of the machine if it has no limit.",
    "node_swap_used": "Used bytes of swap space.",
    "node_swap_total": "Bytes of swap space.",
    "node_disk_free": "Free bytes of the root file system.",
    "node_disk_usage": "Used bytes of the root file system.",
    "node_network_sent": "Bytes sent since the start of the machine.",
    "node_network_received": "Bytes received since the start of the machine.",
    "node_network_send_speed": "Bytes sent a second since the last reading.",
    "node_network_receive_speed": "Bytes received a second since the last reading.",
    "node_disk_io_read": "Bytes read from disks since the start of the machine.",
    "node_disk_io_write": "Bytes written to disks since the start of the machine.",
    "node_disk_io_read_count": "Reads from disks since the start of the machine.",
    "node_disk_io_write_count": "Writes to disks since the start of the machine.",
    "node_disk_io_read_speed": "Bytes read from disks a second since the last reading.",
    "node_disk_io_write_speed": "Bytes written to disks a second since the last reading.",
    "node_disk_read_iops": "Reads from disks a second since the last reading.",
    "node_disk_write_iops": "Writes to disks a second since the last reading.",
}
#: Totals whose increase a second is a metric as well, by the name of that.
_SPEEDS = {
    "node_network_send_speed": "node_network_sent",
    "node_network_receive_speed": "node_network_received",
    "node_disk_io_read_speed": "node_disk_io_read",
    "node_disk_io_write_speed": "node_disk_io_write",
    "node_disk_read_iops": "node_disk_io_read_count",
    "node_disk_write_iops": "node_disk_io_write_count",
}
#: The amounts of memory that are read, by the names of the kernel.
_MEMORY = ("MemTotal", "MemAvailable", "Shmem", "SwapTotal", "SwapFree")
#: Sectors of /proc/diskstats have this size on every disk.
_SECTOR_BYTES = 512
#: How long a list of disks is used.
_DISKS_SECONDS = 60.0
#: From this value on, a limit of a container means that it has none.
_NO_LIMIT = 1 << 60


class Machine:
    """The readings of this machine, which is that of the session's head.

    Args: root: the folder that has `proc` and `sys`.
    """

    def __init__(self, root: str = "/") -> None:
        self._root = root
        self._proc = os.path.join(root, "proc")
        self._lock = threading.Lock()
        self._groups = procfs.cgroup_folders("memory", root)
        self._disk_names: frozenset[str] = frozenset()
        self._disks_read_at = -_DISKS_SECONDS
        #: Time, busy and all ticks of the CPUs, and the totals at the last reading.
        self._last: tuple[float, int, int, dict[str, int]] | None = None

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
        used = memory["MemTotal"] - memory["MemAvailable"]
        return {
            "node_cpu_count": os.cpu_count() or 1,
            "node_mem_total": memory["MemTotal"],
            "node_mem_available": memory["MemAvailable"],
            "node_mem_used": used,
            "node_mem_total_host": memory["MemTotal"],
            "node_mem_used_host": used,
            "node_mem_shared_bytes": memory["Shmem"],
            "node_swap_total": memory["SwapTotal"],
            "node_swap_used": memory["SwapTotal"] - memory["SwapFree"],
            "node_disk_free": disk.f_bavail * disk.f_frsize,
            "node_disk_usage": (disk.f_blocks - disk.f_bfree) * disk.f_frsize,
            **self._container(memory["MemTotal"]),
        }

    def _rates(self) -> dict[str, Any]:
        busy, ticks = self._ticks()
        totals = {**self._network(), **self._disks()}
        now = time.monotonic()
        with self._lock:
            last, self._last = self._last, (now, busy, ticks, totals)
        found: dict[str, Any] = {**totals}
        if last is None:
            return {**found, **dict.fromkeys(_SPEEDS, 0.0)}
        seconds = max(now - last[0], 1e-6)
        for name, total in _SPEEDS.items():
            found[name] = max(0.0, (totals[total] - last[3][total]) / seconds)
        if ticks > last[2]:
            found["node_cpu_utilization"] = 100 * (busy - last[1]) / (ticks - last[2])
        return found

    def _container(self, total: int) -> dict[str, int]:
        """Return memory and limit of the innermost control group that has a limit, or of the first one if none has."""
        found: dict[str, int] = {}
        for folder, version in self._groups:
            names = (
                ("memory.current", "memory.max")
                if version == 2
                else ("memory.usage_in_bytes", "memory.limit_in_bytes")
            )
            used, limit = (procfs.read(f"{folder}/{name}").strip() for name in names)
            if used.isdigit() and limit.isdigit() and int(limit) < _NO_LIMIT:
                return {"node_cgroup_mem_used": int(used), "node_cgroup_mem_total": int(limit)}
            if used.isdigit() and not found:
                found = {"node_cgroup_mem_used": int(used), "node_cgroup_mem_total": total}
        return found

    def _memory(self) -> dict[str, int]:
        """Return the amounts of memory in bytes, by the names of the kernel."""
        text = procfs.read(f"{self._proc}/meminfo")
        return {name: 1024 * (procfs.field(text, f"{name}:".encode()) or 0) for name in _MEMORY}

    def _ticks(self) -> tuple[int, int]:
        """Return the busy and all ticks of all CPUs."""
        with open(f"{self._proc}/stat") as file:
            fields = [int(word) for word in file.readline().split()[1:9]]
        return sum(fields) - fields[3] - fields[4], sum(fields)

    def _network(self) -> dict[str, int]:
        """Return the bytes sent and received by all devices but the loopback."""
        sent = received = 0
        with open(f"{self._proc}/net/dev") as file:
            for line in file.readlines()[2:]:
                name, _, rest = line.partition(":")
                if name.strip() != "lo":
                    fields = rest.split()
                    received += int(fields[0])
                    sent += int(fields[8])
        return {"node_network_sent": sent, "node_network_received": received}

    def _disks(self) -> dict[str, int]:
        """Return what all disks have read and written; their partitions are not counted again."""
        if time.monotonic() - self._disks_read_at >= _DISKS_SECONDS:
            self._disks_read_at = time.monotonic()
            with contextlib.suppress(OSError):  # some containers have none
                names = os.listdir(os.path.join(self._root, "sys/block"))
                self._disk_names = frozenset(name for name in names if not name.startswith(("loop", "ram")))
        reads = read = writes = written = 0
        for line in procfs.read(f"{self._proc}/diskstats").decode().splitlines():
            words = line.split(None, 10)
            if len(words) > 9 and words[2] in self._disk_names:
                reads += int(words[3])
                read += int(words[5]) * _SECTOR_BYTES
                writes += int(words[7])
                written += int(words[9]) * _SECTOR_BYTES
        return {
            "node_disk_io_read": read,
            "node_disk_io_write": written,
            "node_disk_io_read_count": reads,
            "node_disk_io_write_count": writes,
        }
