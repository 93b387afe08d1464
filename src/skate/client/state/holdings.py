"""The references to each object, collected from nodes and processes: one row for each reason that keeps a value alive.

A reason is a process that has a ref, a view of the value that outlives its ref, a pending task with the ref as an
argument, or a value or function that contains the ref. Each row has the object's size, location and task, and the line
that created it.
"""

from __future__ import annotations

from typing import Any

from skate.core.ids import task_of
from skate.protocol import messages as m

Row = dict[str, Any]
Who = tuple[bytes, int]

KINDS = ("pending", "inline", "arena", "error", "unknown", "remote")
UNKNOWN_SITE = "unknown (the process that created it has no ref to it)"
NOT_RECORDED = "not recorded (set SKATE_RECORD_REF_CREATION_SITES=1)"
PUT = b"\xff" * 4


def parsed(text: str | None) -> Any:
    """Return a runtime environment from its JSON."""
    import json  # only lists of environments and jobs need it

    return json.loads(text) if text else {}


def process_text(process: Row) -> str:
    """Describe a process."""
    what = "driver" if process.get("driver") else "worker"
    name = process.get("name") or ""
    return f"{what} pid={process.get('pid') or '?'}" + (f" ({name})" if name else "")


class Holdings:
    """Collects the references to each object."""

    def __init__(self, parts: list[Row]) -> None:
        self.records: dict[bytes, Row] = {}
        self.copies: dict[bytes, list[tuple[bytes, Row]]] = {}
        #: What else keeps an object alive on a node, by node and object.
        self.references: dict[tuple[bytes, bytes], list[Row]] = {}
        self.processes: dict[Who, Row] = {}
        self.refs: list[tuple[Who, tuple[Any, ...]]] = []
        self.sites: dict[bytes, str] = {}
        self.sizes: dict[bytes, int] = {}
        self.tasks: dict[bytes, Row] = {}
        self.actors: dict[Who, list[tuple[bytes, int]]] = {}
        self.addresses: dict[bytes, str] = {}
        for part in parts:
            self._take(part)
        for process in self.processes.values():
            process.setdefault("name", "")

    def _take(self, part: Row) -> None:
        node = part["node"]
        self.addresses[node] = part["ip"]
        for record in part.get("objects", ()):
            self.copies.setdefault(record["object"], []).append((node, record))
            if record["owner"] == node:
                self.records[record["object"]] = record
        for reference in part.get("references", ()):
            for oid in reference["ids"]:
                self.references.setdefault((node, oid), []).append(reference)
        for task in part.get("tasks", ()):
            self.tasks[task["task"]] = task
        for worker in part.get("workers", ()):
            if worker["alive"]:
                self.processes.setdefault((node, worker["cid"]), {}).update(worker)
        if "refs" in part or "driver" in part:
            who = (node, part["cid"])
            known = self.processes.setdefault(who, {})
            known.update(node=node, cid=part["cid"], pid=part["pid"], driver=part["driver"], answered=True)
            for ref in part.get("refs", ()):
                self.refs.append((who, ref))
                if ref[6]:
                    self.sites.setdefault(ref[0], ref[6])
                if ref[2]:
                    self.sizes[ref[0]] = ref[2]
            self.actors[who] = list(part.get("handles", ()))

    # -- rows

    def rows(self) -> list[Row]:
        """Return one row for each reason that keeps an object alive."""
        found = [*self._refs(), *self._records(), *self._handles()]
        return sorted(found, key=lambda row: -row["object_size"])

    def _refs(self) -> list[Row]:
        rows = []
        for who, (oid, kind, _, count, views, inside, _) in self.refs:
            if count or kind == m.PENDING or not (views or inside):
                rows.append(self._row(oid, kind, "LOCAL_REFERENCE", who, count))
            if views:
                rows.append(self._row(oid, kind, "PINNED_IN_MEMORY", who, views))
            for outer in inside:
                rows.append(self._row(oid, kind, "CAPTURED_IN_OBJECT", who, 1, outer.hex()))
        return rows

    def _records(self) -> list[Row]:
        rows = []
        known_refs = {(who, ref[0]) for who, ref in self.refs}
        for oid, copies in self.copies.items():
            for node, record in copies:
                for cid, grants in record["holders"].items():
                    who = (node, cid)
                    if (who, oid) not in known_refs and who in self.processes:
                        holder = (
                            "has not answered" if not self.processes[who].get("answered") else "in transit"
                        )
                        rows.append(self._row(oid, record["kind"], "LOCAL_REFERENCE", who, grants, holder))
                for each in self.references.get((node, oid), ()):
                    who = (node, each["cid"])
                    rows.append(self._row(oid, record["kind"], each["why"], who, 1, each["holder"]))
        return rows

    def _handles(self) -> list[Row]:
        rows = []
        for who, held in self.actors.items():
            for actor_id, grants in held:
                oid = b"\xff" * 8 + actor_id + b"\1\0\0\0"
                rows.append(self._row(oid, m.INLINE, "ACTOR_HANDLE", who, grants))
        return rows

    def _row(self, oid: bytes, kind: int, why: str, who: Who, count: int, holder: str = "") -> Row:
        process = self.processes.get(who, {})
        record = self.records.get(oid)
        task = self.tasks.get(task_of(oid))
        pending = kind == m.PENDING if record is None else record["kind"] == m.PENDING
        status = "NIL"
        if task is not None and not (pending is False and task["state"] != "FAILED"):
            status = task["state"]
        elif oid[:4] != PUT:
            status = "PENDING_NODE_ASSIGNMENT" if pending else "FINISHED"
        size = self.sizes.get(oid, 0) if record is None else record["size"] or self.sizes.get(oid, 0)
        return {
            "object_id": oid.hex(),
            "object_size": size if size or not pending else -1,
            "task_status": status,
            "attempt_number": 1 if task is None else task["attempt"] + 1,
            "reference_type": why,
            "call_site": self.sites.get(oid, NOT_RECORDED if oid[:4] == PUT else UNKNOWN_SITE),
            "type": "DRIVER" if process.get("driver") else "WORKER",
            "pid": process.get("pid", 0),
            "ip": self.addresses[who[0]],
            "node_id": who[0].hex(),
            "location": self._place(oid, kind, record),
            "owner_node_id": (who[0] if record is None else record["owner"]).hex(),
            "task_name": None if task is None else task["name"],
            "holder": holder or (process_text(process) if process else "node"),
            "count": count,
        }

    def _place(self, oid: bytes, kind: int, record: Row | None) -> str:
        if oid[:8] == b"\xff" * 8 and oid[24:] == b"\1\0\0\0":
            return "actor"
        if record is None:
            return f"in process ({KINDS[kind]})"
        if record["where"] == "elsewhere":
            return f"node {record['place'].hex()[:8]}"
        return str(record["where"])


def rows(parts: list[Row]) -> list[Row]:
    """Return the rows of all objects, the largest first."""
    return Holdings(parts).rows()
