"""Summaries of the tasks of a job: by function, and as a tree of which task has submitted which."""

from __future__ import annotations

from typing import Any

from skate.util.state.summary import COUNTED

Row = dict[str, Any]
#: The order of siblings: what runs comes first, then what has failed.
FIRST = ("RUNNING", "FAILED")


def by_name(tasks: list[Row]) -> Row:
    """Return the counts of attempts by function and state."""
    found: dict[str, Row] = {}
    for task in tasks:
        one = found.setdefault(
            task["name"], {"func_or_class_name": task["name"], "type": task["type"], "state_counts": {}}
        )
        _count(one["state_counts"], task["state"])
    return {"summary": found, **_totals(tasks), "summary_by": "func_name"}


def by_lineage(tasks: list[Row], actors: list[Row]) -> Row:
    """Return tasks below those that have submitted them, and methods below their actors.

    What was submitted by a task that is forgotten comes first, as what a driver has submitted.
    """
    groups: dict[str, Row] = {}
    names = {each["actor_id"]: each["repr_name"] or each["class_name"] for each in actors}
    makers: dict[str, str] = {}
    latest: dict[str, Row] = {}
    for task in tasks:
        before = latest.get(task["task_id"])
        if before is None or before["attempt_number"] <= task["attempt_number"]:
            latest[task["task_id"]] = task
        if task["type"] == "ACTOR_CREATION_TASK":
            makers[task["actor_id"]] = task["parent_task_id"] or ""
    for task_id, task in latest.items():
        groups[task_id] = _group(
            task["name"], task_id, task["type"], task["creation_time_ms"], ("task", task_id)
        )
        groups[task_id]["state_counts"] = {task["state"]: 1}
    top: list[Row] = []
    for task_id, task in latest.items():
        parent = task["parent_task_id"]
        if task["type"] != "NORMAL_TASK" and task["actor_id"]:
            parent = f"actor:{task['actor_id']}"
            if parent not in groups:
                actor_id = task["actor_id"]
                name = names.get(actor_id) or task["name"].partition(".")[0]
                groups[parent] = _group(name, parent, "ACTOR", task["creation_time_ms"], ("actor", actor_id))
                (groups.get(makers.get(actor_id, "")) or {"children": top})["children"].append(groups[parent])
        (groups.get(parent) or {"children": top})["children"].append(groups[task_id])
    return {"summary": _merged(top), **_totals(tasks), "summary_by": "lineage"}


def _group(name: str, key: str, kind: str, timestamp: object, link: tuple[str, str] | None) -> Row:
    return {
        "name": name,
        "key": key,
        "type": kind,
        "timestamp": timestamp,
        "state_counts": {},
        "children": [],
        "link": None if link is None else {"type": link[0], "id": link[1]},
    }


def _merged(siblings: list[Row]) -> list[Row]:
    """Return siblings with those of equal names in one group, and with the counts of all below them."""
    by_name: dict[str, list[Row]] = {}
    for each in siblings:
        each["children"] = _merged(each["children"])
        _add_children(each)
        by_name.setdefault(each["name"], []).append(each)
    found = []
    for name, alike in by_name.items():
        if len(alike) > 1:
            ordered = sorted(alike, key=_order)
            group = _group(name, f"group:{ordered[0]['key']}", "GROUP", ordered[0]["timestamp"], None)
            group["children"] = ordered
            _add_children(group)
            found.append(group)
        else:
            found += alike
    return sorted(found, key=_order)


def _add_children(group: Row) -> None:
    for child in group["children"]:
        for state, count in child["state_counts"].items():
            _count(group["state_counts"], state, count)


def _order(group: Row) -> tuple[Any, ...]:
    return (*(-group["state_counts"].get(state, 0) for state in FIRST), group["timestamp"] or 0)


def _count(counts: dict[str, int], state: str, number: int = 1) -> None:
    counts[state] = counts.get(state, 0) + number


def _totals(tasks: list[Row]) -> dict[str, int]:
    found = dict.fromkeys(COUNTED.values(), 0)
    for task in tasks:
        found[COUNTED[task["type"]]] += 1
    return found
