"""Resources that can be taken and given back: a whole node's, or a placement group bundle's."""

from __future__ import annotations

from typing import Any

UNIT = 10_000


class Lease:
    """Resources taken from one capacity, with the GPUs that come with them."""

    __slots__ = ("capacity", "request", "gpus", "cpu_returned")

    def __init__(self, capacity: Capacity, request: dict[str, int], gpus: tuple[tuple[Any, int], ...]) -> None:
        self.capacity = capacity
        self.request = request
        self.gpus = gpus
        self.cpu_returned = False

    def __repr__(self) -> str:
        return f"<Lease {self.request} gpus={[gpu for gpu, _ in self.gpus]} of {self.capacity.name}>"


class Capacity:
    """A set of resources in units of 1/10000, some of them taken."""

    __slots__ = ("name", "total", "available", "gpus", "closed", "labels")

    def __init__(
        self, name: str, total: dict[str, int], gpus: dict[Any, int] | None = None, labels: dict[str, str] | None = None
    ) -> None:
        self.name = name
        self.total = dict(total)
        self.available = dict(total)
        #: Free units of each GPU id.
        self.gpus: dict[Any, int] = dict(gpus or {})
        self.closed = False
        self.labels = labels or {}

    def could(self, request: dict[str, int]) -> bool:
        """True if the request fits when everything is free."""
        total = self.total
        return all(total.get(name, 0) >= units for name, units in request.items())

    def fits(self, request: dict[str, int]) -> bool:
        """True if the request fits now."""
        available = self.available
        for name, units in request.items():
            if units > 0 and available.get(name, 0) < units:
                return False
        return True

    def acquire(self, request: dict[str, int]) -> Lease | None:
        """Take resources, or None if they are not all free."""
        available = self.available
        for name, units in request.items():
            if units > 0 and available.get(name, 0) < units:
                return None
        gpus: tuple[tuple[Any, int], ...] = ()
        wanted = request.get("GPU", 0)
        if wanted:
            picked = self._pick_gpus(wanted)
            if picked is None:
                return None
            gpus = picked
        for name, units in request.items():
            available[name] = available.get(name, 0) - units
        for gpu, units in gpus:
            self.gpus[gpu] -= units
        return Lease(self, request, gpus)

    def _pick_gpus(self, wanted: int) -> tuple[tuple[Any, int], ...] | None:
        if wanted >= UNIT:
            free = [gpu for gpu, units in self.gpus.items() if units == UNIT]
            count = wanted // UNIT
            if len(free) >= count:
                return tuple((gpu, UNIT) for gpu in free[:count])
            return None
        # A fraction goes to the most used GPU that still has room, so that whole ones stay free.
        best = None
        for gpu, units in self.gpus.items():
            if units >= wanted and (best is None or units < self.gpus[best]):
                best = gpu
        return None if best is None else ((best, wanted),)

    def release(self, lease: Lease) -> None:
        """Give a lease back."""
        available = self.available
        for name, units in lease.request.items():
            if name == "CPU" and lease.cpu_returned:
                continue
            available[name] += units
        for gpu, units in lease.gpus:
            self.gpus[gpu] += units

    def return_cpu(self, lease: Lease) -> None:
        """The holder waits for others: its CPUs can be used meanwhile."""
        if not lease.cpu_returned:
            lease.cpu_returned = True
            if "CPU" in lease.request:
                self.available["CPU"] += lease.request["CPU"]

    def retake_cpu(self, lease: Lease) -> None:
        """The holder goes on, at once, even if others took its CPUs: briefly more run than there are CPUs."""
        if lease.cpu_returned:
            lease.cpu_returned = False
            if "CPU" in lease.request:
                self.available["CPU"] -= lease.request["CPU"]

    def carve(self, name: str, request: dict[str, int]) -> tuple[Capacity, Lease] | None:
        """Set resources apart as a capacity of their own, for a bundle."""
        lease = self.acquire(request)
        if lease is None:
            return None
        return Capacity(name, request, dict(lease.gpus), self.labels), lease

    def check(self) -> None:
        """Raise AssertionError if more was given back than taken."""
        for name, units in self.available.items():
            assert units <= self.total.get(name, 0), f"{name}: {units} free of {self.total.get(name, 0)} in {self.name}"
        for gpu, units in self.gpus.items():
            assert 0 <= units <= UNIT, f"GPU {gpu}: {units} units free"

    def __repr__(self) -> str:
        return f"<Capacity {self.name} {self.available} of {self.total}>"
