"""Readings of the machine, from files like those of the kernel."""

from __future__ import annotations

import os
from pathlib import Path

from skate.dashboard.machine import Machine

DEVICES = "Inter-|\n face |\n    lo: 900 0 0 0 0 0 0 0 900 0\n  eth0: {} 0 0 0 0 0 0 0 {} 0\n"


DISKS = "8 0 sda {0} 0 {1} 0 {0} 0 {1} 0\n8 1 sda1 {0} 0 {1} 0 {0} 0 {1} 0\n7 0 loop0 9 0 9 0 9 0 9 0\n"


def write(root: Path, busy: int, idle: int, received: int, sent: int, reads: int) -> None:
    folder = root / "proc"
    (folder / "net").mkdir(exist_ok=True, parents=True)
    (folder / "self").mkdir(exist_ok=True)
    for disk in ("sda", "loop0"):
        (root / "sys" / "block" / disk).mkdir(exist_ok=True, parents=True)
    (folder / "stat").write_text(f"cpu  {busy} 0 0 {idle} 0 0 0 0 0 0\ncpu0 1 2 3 4\n")
    (folder / "meminfo").write_text("MemTotal: 100 kB\nMemFree: 1 kB\nMemAvailable: 30 kB\nShmem: 2 kB\n")
    (folder / "net" / "dev").write_text(DEVICES.format(received, sent))
    (folder / "diskstats").write_text(DISKS.format(reads, 8 * reads))


def values(machine: Machine) -> dict[str, float]:
    return {row["name"]: row["series"][0][1] for row in machine.rows("127.0.0.1")}


def test_amounts_and_rates(tmp_path: Path) -> None:
    machine = Machine(str(tmp_path))
    write(tmp_path, busy=100, idle=100, received=1000, sent=500, reads=10)
    first = values(machine)
    assert first["node_mem_total"] == 100 * 1024 and first["node_mem_used"] == 70 * 1024
    assert first["node_mem_used_host"] == 70 * 1024 and "node_cgroup_mem_total" not in first
    assert first["node_network_received"] == 1000 and first["node_network_receive_speed"] == 0
    assert first["node_disk_io_read"] == 80 * 512 and first["node_disk_io_write_count"] == 10
    assert "node_cpu_utilization" not in first and first["node_cpu_count"] == os.cpu_count()
    write(tmp_path, busy=130, idle=110, received=3000, sent=500, reads=20)
    second = values(machine)
    assert second["node_cpu_utilization"] == 75.0
    assert second["node_network_receive_speed"] > 0 and second["node_network_send_speed"] == 0
    assert second["node_disk_io_read_speed"] / second["node_disk_read_iops"] == 8 * 512


def test_a_container_has_its_own_limit(tmp_path: Path) -> None:
    write(tmp_path, busy=1, idle=1, received=1, sent=1, reads=1)
    group = tmp_path / "sys" / "fs" / "cgroup" / "inner"
    group.mkdir(parents=True)
    (group.parent / "cgroup.controllers").touch()
    (tmp_path / "proc" / "self" / "cgroup").write_text("0::/inner\n")
    (group / "memory.current").write_text("600\n")
    (group / "memory.max").write_text("1000\n")
    found = values(Machine(str(tmp_path)))
    assert (found["node_cgroup_mem_used"], found["node_cgroup_mem_total"]) == (600, 1000)
    assert found["node_mem_total_host"] == 100 * 1024
    (group / "memory.max").write_text("max\n")
    assert values(Machine(str(tmp_path)))["node_cgroup_mem_total"] == 100 * 1024


def test_this_machine_can_be_read() -> None:
    found = values(Machine())
    assert 0 < found["node_mem_used"] < found["node_mem_total"] and found["node_disk_usage"] > 0
