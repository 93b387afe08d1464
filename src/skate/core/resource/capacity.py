"""Resources that can be acquired and released, of a whole node or of a placement group bundle."""

from __future__ import annotations

from skate.core.resource.resources import DEVICES, UNIT, GpuPool

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

    from skate.core.resource.resources import GpuId

    Held = list[tuple[GpuId, int]]


class Lease:
    """Resources acquired from one capacity, with their GPUs and other devices."""

    __slots__ = ("capacity", "request", "gpus", "devices", "cpu_returned")

    def __init__(
        self, capacity: Capacity, request: dict[str, int], gpus: Held, devices: dict[str, Held] | None = None
    ) -> None:
        self.capacity = capacity
        self.request = request
        self.gpus = gpus
        #: Devices by resource name.
        self.devices = devices or {}
        self.cpu_returned = False

    def __repr__(self) -> str:
        return f"<Lease {self.request} gpus={[gpu for gpu, _ in self.gpus]} of {self.capacity.name}>"

    def held_devices(self, name: str) -> Held:
        """Return which numbered devices of a resource are held, and how much of each."""
        return self.gpus if name == "GPU" else (self.devices or {}).get(name, [])


class Capacity:
    """A set of resources in units of 1/10000, with the free part."""

    __slots__ = ("name", "total", "available", "gpus", "devices", "labels")

    def __init__(
        self,
        name: str,
        total: dict[str, int],
        gpus: Iterable[tuple[GpuId, int]] = (),
        labels: dict[str, str] | None = None,
        devices: dict[str, Held] | None = None,
    ) -> None:
        self.name = name
        self.total = dict(total)
        self.available = dict(total)
        self.gpus = GpuPool(gpus)
        if devices is None:
            devices = {
                name: [(number, UNIT) for number in range(total[name] // UNIT)]
                for name in DEVICES
                if name in total
            }
        self.devices = {name: GpuPool(held) for name, held in devices.items()}
        self.labels = labels or {}

    def device_pools(self) -> dict[str, GpuPool]:
        """Return the pools of numbered devices, GPUs first, by the name of the resource."""
        return {"GPU": self.gpus, **self.devices}

    def fits(self, request: dict[str, int]) -> bool:
        """Return True if the request fits now."""
        available = self.available
        for name, units in request.items():
            if units > 0 and available.get(name, 0) < units:
                return False
        return True

    def acquire(self, request: dict[str, int]) -> Lease | None:
        """Acquire resources; return None if they are not all free."""
        available = self.available
        for name, units in request.items():
            if units > 0 and available.get(name, 0) < units:
                return None
        gpus: list[tuple[GpuId, int]] = []
        if "GPU" in request:
            picked = self.gpus.allocate(request["GPU"])
            if picked is None:
                return None
            gpus = picked
        devices: dict[str, Held] | None = None
        if self.devices:
            devices = self._devices(request)
            if devices is None:
                self.gpus.free(gpus)
                return None
        for name, units in request.items():
            available[name] = available.get(name, 0) - units
        return Lease(self, request, gpus, devices)

    def _devices(self, request: dict[str, int]) -> dict[str, Held] | None:
        """Return the devices for a request, or None if there are not enough whole ones."""
        found: dict[str, Held] = {}
        for name in request.keys() & self.devices.keys():
            picked = self.devices[name].allocate(request[name])
            if picked is None:
                self._free(found)
                return None
            found[name] = picked
        return found

    def _free(self, devices: dict[str, Held]) -> None:
        for name, held in devices.items():
            self.devices[name].free(held)

    def release(self, lease: Lease) -> None:
        """Release a lease."""
        available = self.available
        for name, units in lease.request.items():
            if name == "CPU" and lease.cpu_returned:
                continue
            available[name] += units
        if lease.gpus:
            self.gpus.free(lease.gpus)
        if lease.devices:
            self._free(lease.devices)

    def return_cpu(self, lease: Lease) -> None:
        """Free the holder's CPUs while it waits for other tasks."""
        if not lease.cpu_returned:
            lease.cpu_returned = True
            if "CPU" in lease.request:
                self.available["CPU"] += lease.request["CPU"]

    def retake_cpu(self, lease: Lease) -> None:
        """Take the holder's CPUs back at once even if they are in use, so that briefly more tasks run than there are CPUs."""
        if lease.cpu_returned:
            lease.cpu_returned = False
            if "CPU" in lease.request:
                self.available["CPU"] -= lease.request["CPU"]

    def carve(self, name: str, request: dict[str, int]) -> tuple[Capacity, Lease] | None:
        """Reserve resources as a separate capacity for a bundle."""
        lease = self.acquire(request)
        if lease is None:
            return None
        return Capacity(name, request, lease.gpus, self.labels, lease.devices), lease

    def check(self) -> None:
        """Raise AssertionError if more was released than acquired."""
        for name, units in self.available.items():
            assert units <= self.total.get(name, 0), (
                f"{name}: {units} free of {self.total.get(name, 0)} in {self.name}"
            )
        self.gpus.check()
        for pool in self.devices.values():
            pool.check()

    def __repr__(self) -> str:
        return f"<Capacity {self.name} {self.available} of {self.total}>"
