"""The graph around a task: what its arguments wait for, who waits for its values, and its bounds."""

from __future__ import annotations

from typing import Any

from skate.core.state import argument_graph
from skate.protocol import messages as m
from tests.core.rig import Rig, first

Edges = set[tuple[str, str, str, bool]]


def around(rig: Rig, task_id: bytes) -> tuple[dict[str, dict[str, Any]], Edges]:
    """Return the entries by name, and the edges with names for ids."""
    rows = [row for row in rig.core.inventory.scan("arguments", {"task": task_id}, False) if row is not None]
    entries = {row["name"] or row["kind"]: row for row in rows if "id" in row}
    names = {row["id"]: name for name, row in entries.items()}
    edges = {
        (names[row["from"]], names[row["to"]], row["how"], row["there"]) for row in rows if "from" in row
    }
    return entries, edges


def test_a_chain_is_followed_in_both_directions() -> None:
    rig = Rig(cpus=1)
    source = rig.submit(name="source")
    ready = rig.oid()
    rig.send(1, m.PUBLISH, ready, m.INLINE, b"value", (), True)
    middle = rig.submit(first(source), ready, name="middle")
    rig.submit(first(middle), name="after")
    entries, edges = around(rig, middle)
    assert {name: row["depth"] for name, row in entries.items()} == {
        "middle": 0,
        "source": -1,
        "value": -1,
        "after": 1,
    }
    assert entries["value"]["kind"] == "value", "nobody has made it"
    assert entries["source"]["state"] == "RUNNING" and "still computed" in entries["middle"]["why"]
    assert entries["value"]["state"] == "inline"
    assert edges == {
        ("middle", "source", "argument", False),
        ("middle", "value", "argument", True),
        ("after", "middle", "argument", False),
    }


def test_a_value_has_the_name_of_its_task() -> None:
    rig = Rig(cpus=1)
    source = rig.submit(name="source")
    rig.send(1, m.ESCAPE, first(source))
    rig.done(rig.worker_of(source), source)
    blocked = rig.submit(name="blocked")
    rig.submit(first(source), first(blocked), name="user")
    last = next(iter(reversed(rig.core.tables.tasks)))
    entries, edges = around(rig, last)
    assert entries["source"]["kind"] == "value" and ("user", "source", "argument", True) in edges


def test_a_get_is_an_edge() -> None:
    rig = Rig(cpus=2)
    source, caller = rig.submit(name="source"), rig.submit(name="caller")
    worker = rig.worker_of(caller)
    rig.send(worker, m.BLOCKED, caller)
    rig.send(worker, m.WAITS, 1, (first(source),), 1, caller, {})
    rig.send(1, m.WAITS, 1, (first(caller),), 1, b"", {})
    entries, edges = around(rig, source)
    assert edges == {("caller", "source", "get", False), ("process", "caller", "get", False)}
    assert entries["process"]["depth"] == 2
    assert around(rig, caller)[1] == edges, "the same from the middle"


def test_a_graph_has_bounds() -> None:
    rig = Rig(cpus=1)
    blocked = rig.submit(name="blocked")
    layer = [rig.submit(first(blocked), name="wide") for _ in range(100)]
    last = rig.submit(*map(first, layer), name="last")
    chain = last
    for _ in range(200):
        chain = rig.submit(first(chain), name="deep")
    rows = list(rig.core.inventory.scan("arguments", {"task": last}, False))
    entries = [row for row in rows if row is not None and "id" in row]
    assert len(entries) == argument_graph.ENTRIES_MAX
    assert entries[0]["name"] == "last" and entries[0]["more"] == 100 - argument_graph.EACH_MAX
    assert sum(row["name"] == "deep" for row in entries) > 50


def test_an_unknown_task_has_no_graph() -> None:
    assert list(Rig().core.inventory.scan("arguments", {"task": bytes(24)}, False)) == []
