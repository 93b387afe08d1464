"""Readings of the machine, from files like those of the kernel."""

from __future__ import annotations

import os
from pathlib import Path

from skate.dashboard.machine import Machine

DEVICES = "Inter-|\n face |\n    lo: 900 0 0 0 0 0 0 0 900 0\n  eth0: {} 0 0 0 0 0 0 0 {} 0\n"


def write(folder: Path, busy: int, idle: int, received: int, sent: int) -> None:
    (folder / "net").mkdir(exist_ok=True)
    (folder / "stat").write_text(f"cpu  {busy} 0 0 {idle} 0 0 0 0 0 0\ncpu0 1 2 3 4\n")
    (folder / "meminfo").write_text("MemTotal: 100 kB\nMemFree: 1 kB\nMemAvailable: 30 kB\nShmem: 2 kB\n")
    (folder / "net" / "dev").write_text(DEVICES.format(received, sent))


def values(machine: Machine) -> dict[str, float]:
    return {row["name"]: row["series"][0][1] for row in machine.rows("127.0.0.1")}


def test_amounts_and_rates(tmp_path: Path) -> None:
    machine = Machine(str(tmp_path))
    write(tmp_path, busy=100, idle=100, received=1000, sent=500)
    first = values(machine)
    assert first["node_mem_total"] == 100 * 1024 and first["node_mem_used"] == 70 * 1024
    assert first["node_network_received"] == 1000 and first["node_network_receive_speed"] == 0
    assert "node_cpu_utilization" not in first and first["node_cpu_count"] == os.cpu_count()
    write(tmp_path, busy=130, idle=110, received=3000, sent=500)
    second = values(machine)
    assert second["node_cpu_utilization"] == 75.0
    assert second["node_network_receive_speed"] > 0 and second["node_network_send_speed"] == 0


def test_this_machine_can_be_read() -> None:
    found = values(Machine())
    assert 0 < found["node_mem_used"] < found["node_mem_total"] and found["node_disk_usage"] > 0
