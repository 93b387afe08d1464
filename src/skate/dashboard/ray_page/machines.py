"""Nodes in Ray's shape, with what runs on them: readings of the machine, of its workers and of its actors.

A dashboard reads the machine on which it runs. Of others it knows what their nodes and processes report.
"""

from __future__ import annotations

import os
import socket
import time
from typing import Any

from skate.dashboard.machine import Machine
from skate.util import exposition, state

Row = dict[str, Any]
_machine = Machine()
CPU, RESIDENT, SHARED = "component_cpu_percentage", "component_rss_bytes", "component_shared_bytes"
OBJECTS = "object_store_memory"
#: Where bytes of objects are that take up memory of the store.
IN_MEMORY = ("MMAP_SHM",)


class Readings:
    """The reports of the processes of the session: by address of the node, and by its process ids."""

    def __init__(self) -> None:
        self.processes: dict[tuple[str, int], dict[str, Any]] = {}
        self.objects: dict[str, float] = {}
        for row in exposition.rows():
            for labels, value, *_ in row["series"]:
                tags = dict(map(tuple, labels))
                if row["name"] in (CPU, RESIDENT, SHARED) and tags.get("pid", "").isdecimal():
                    one = self.processes.setdefault((row["node_ip"], int(tags["pid"])), {})
                    one[row["name"]], one["name"] = value, tags.get("Component", "")
                elif row["name"] == OBJECTS and tags.get("Location") in IN_MEMORY:
                    self.objects[row["node_ip"]] = self.objects.get(row["node_ip"], 0.0) + value

    def of_process(self, ip: str, pid: int) -> Row:
        """Return the readings of a process in Ray's shape."""
        one = self.processes.get((ip, pid), {})
        resident = one.get(RESIDENT, 0.0)
        return {
            "pid": pid,
            "cmdline": [one.get("name", ""), "", "", "", ""],
            "cpuPercent": round(one.get(CPU, 0.0), 1),
            "cpuTimes": {"user": 0.0, "system": 0.0, "childrenUser": 0.0, "childrenSystem": 0.0},
            "createTime": 0.0,
            "memoryInfo": {"rss": resident, "vms": resident, "shared": one.get(SHARED, 0.0)},
        }


def described(node: Row, readings: Readings) -> Row:
    """Return a node."""
    total = node["Resources"]
    ip = node["NodeManagerAddress"]
    used = readings.objects.get(ip, 0.0)
    here = _of_this_machine(ip) if node["NodeManagerHostname"] == socket.gethostname() else {}
    return {
        "now": time.time(),
        "hostname": node["NodeManagerHostname"],
        "ip": ip,
        "cpu": 0.0,
        "cpus": [0, 0],
        "mem": [0, 0, 0.0, 0],
        "shm": 0,
        "bootTime": 0,
        "loadAvg": [[0.0, 0.0, 0.0], [0.0, 0.0, 0.0]],
        "disk": {},
        "diskIo": [0, 0, 0, 0],
        "diskIoSpeed": [0.0, 0.0, 0.0, 0.0],
        "network": [0, 0],
        "networkSpeed": [0.0, 0.0],
        "gpus": [],
        "tpus": [],
        "cmdline": [],
        **here,
        "workers": [],
        "raylet": {
            "nodeId": node["NodeID"],
            "nodeManagerAddress": ip,
            "nodeManagerHostname": node["NodeManagerHostname"],
            "nodeName": node["NodeName"],
            "resourcesTotal": total,
            "objectStoreUsedMemory": used,
            "objectStoreAvailableMemory": max(0.0, total.get("object_store_memory", 0.0) - used),
            "isHeadNode": "node:__internal_head__" in total,
            "labels": node["Labels"],
            "state": "ALIVE" if node["Alive"] else "DEAD",
            "stateMessage": node["DeathReasonMessage"] or None,
        },
    }


def with_details(node: Row, readings: Readings, actors: list[Row]) -> Row:
    """Return a node with its workers, and with those of the given actors that are on it."""
    node_id, ip = node["NodeID"], node["NodeManagerAddress"]
    workers = [
        {
            **readings.of_process(ip, row.pid),
            "language": "PYTHON",
            "coreWorkerStats": [
                {"workerId": row.worker_id, "ipAddress": ip, "pid": row.pid, "workerType": row.worker_type}
            ],
        }
        for row in state.list_workers(filters=[("node_id", "=", node_id)], limit=10_000)
        if row.is_alive
    ]
    here = {each["actorId"]: each for each in actors if each["address"]["nodeId"] == node_id}
    return {**described(node, readings), "workers": workers, "actors": here}


def _of_this_machine(ip: str) -> Row:
    found = {row["name"]: row["series"][0][1] for row in _machine.rows(ip)}
    total, available = found["node_mem_total"], found["node_mem_available"]
    free, used = found["node_disk_free"], found["node_disk_usage"]
    cpus = os.cpu_count() or 1
    load = os.getloadavg()
    return {
        "cpu": round(found.get("node_cpu_utilization", 0.0), 1),
        "cpus": [cpus, cpus],
        "mem": [total, available, round(100 * (total - available) / total, 1), total - available],
        "shm": found["node_mem_shared_bytes"],
        "bootTime": time.time() - time.clock_gettime(time.CLOCK_BOOTTIME),
        "loadAvg": [load, [round(each / cpus, 2) for each in load]],
        "disk": {
            "/": {
                "total": free + used,
                "used": used,
                "free": free,
                "percent": round(100 * used / (free + used), 1),
            }
        },
        "network": [found["node_network_sent"], found["node_network_received"]],
        "networkSpeed": [found["node_network_send_speed"], found["node_network_receive_speed"]],
    }
