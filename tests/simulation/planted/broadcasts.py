"""Values that many nodes read at the same time: readers that wait for what never comes, or are never answered."""

from __future__ import annotations

from tests.simulation.planted.bug import Bug

BROADCAST = ("broadcast",)
#: What needs reads that fail in a certain order: only a long run is sure to notice.
RARE = {"nodes wait for each other's reads whatever their ranks are"}

BUGS = tuple(
    Bug(name, where, old, new, BROADCAST, name in RARE)
    for name, where, old, new in (
        (
            "those who wait for a value that does not come are not answered",
            "skate.fabric.arrivals:Arrivals.end",
            "waits, arrival.waits = arrival.waits, []",
            "waits, arrival.waits = (arrival.waits if success else []), []",
        ),
        (
            "nodes wait for each other's reads whatever their ranks are",
            "skate.fabric.arrivals:Arrivals.read",
            "arrival.rank < visit.rank",
            "visit.rank",
        ),
        (
            "an owner that reads a value itself gives no place to others",
            "skate.core.cluster.remote_objects:RemoteObjects.deliver_early",
            "self._send_source(cid, record, remote.place)",
            "pass",
        ),
    )
)
