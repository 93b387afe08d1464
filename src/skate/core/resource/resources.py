"""Resources: amounts of CPU, GPU, memory and custom resources.

Amounts are integers in units of 1/10000, so that sums are exact: a thousand releases of 0.1 CPU return
exactly what a thousand requests took. A resource set is a plain ``dict[str, int]``. A request has no zero
entries; a node's set keeps its zeros, since "has none left" and "never had any" are different answers.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    GpuId = int | str

#: Resources, besides GPU, whose whole units are numbered devices.
DEVICES = ("TPU", "NPU", "HPU", "neuron_cores", "RBLN", "FURIOSA", "TTNPU", "MBLT")

UNIT = 10_000
"""Units in one whole."""

# Allowance for rounding errors of floats: 0.57 * 10000 is 5699.999999999999 and means 5700.
_SLACK = 1e-6

_BYTE_STEPS = ((1024**4, "TiB"), (1024**3, "GiB"), (1024**2, "MiB"), (1024, "KiB"))


def to_units(value: float, name: str = "a resource") -> int:
    """Return `value` in units of 1/10000, rounded down, so that n requests of 1/n always fit into one whole.

    Raise ValueError for negative, infinite or NaN amounts and for those between 0 and 0.0001.
    """
    if isinstance(value, int):
        units = value * UNIT
    else:
        scaled = value * UNIT
        # NaN fails both comparisons.
        if not -float("inf") < scaled < float("inf"):
            raise ValueError(f"{name}={value} is not an amount; use a number of 0 or more")
        units = int(scaled + _SLACK) if scaled >= 0 else -1
    if units < 0:
        raise ValueError(
            f"The quantity of resource {name} cannot be negative: {name}={value} is negative; use a number of 0 or more"
        )
    if units == 0 and value != 0:
        raise ValueError(
            f"The precision of the fractional quantity of resource {name} cannot go beyond 0.0001: "
            f"{name}={value} is too fine; the smallest amount is 0.0001"
        )
    return units


def to_amounts(units: Mapping[str, int]) -> dict[str, float]:
    """Return a set as amounts for users: ``{'CPU': 1.0}``."""
    return {name: amount / UNIT for name, amount in units.items()}


def human_amount(units: int) -> str:
    """Format an amount without trailing zeros: 4, 0.5."""
    whole, rest = divmod(units, UNIT)
    return f"{whole}.{rest:04d}".rstrip("0") if rest else str(whole)


def human_bytes(count: int) -> str:
    """Format a number of bytes in the largest unit that gives at least 1: 1.5 GiB."""
    for size, suffix in _BYTE_STEPS:
        if count >= size:
            return f"{count / size:.1f}".removesuffix(".0") + f" {suffix}"
    return f"{count} bytes"


def format_request(request: Mapping[str, int]) -> str:
    """Format a request as one line, ``CPU=1, GPU=0.5``; "nothing" if it is empty."""
    return ", ".join(f"{name}={human_amount(units)}" for name, units in request.items()) or "nothing"


def fits(request: Mapping[str, int], available: Mapping[str, int]) -> bool:
    """Return True if `available` covers `request`."""
    for name, units in request.items():  # noqa: SIM110  a generator costs twice as much here
        if available.get(name, 0) < units:
            return False
    return True


def subtract(available: dict[str, int], request: Mapping[str, int]) -> None:
    """Subtract `request` from `available`, in place. Callers check `fits` first unless an overdraft is intended."""
    for name, units in request.items():
        available[name] = available.get(name, 0) - units


def add(available: dict[str, int], request: Mapping[str, int]) -> None:
    """Add `request` to `available`, in place."""
    for name, units in request.items():
        available[name] = available.get(name, 0) + units


def total_of(sets: Iterable[Mapping[str, int]]) -> dict[str, int]:
    """Return the sum of several sets."""
    total: dict[str, int] = {}
    for one in sets:
        add(total, one)
    return total


def check(available: Mapping[str, int], total: Mapping[str, int]) -> None:
    """Check that no amount is negative or above the total, and that every resource is part of the total.

    A worker that resumes and takes its CPU back may overdraw; a node that allows this checks with the debt added.
    """
    for name, units in available.items():
        assert name in total, f"{name} is available but was never declared"
        assert 0 <= units <= total[name], f"{name}: {units} units available of {total[name]}"
    for name in total:
        assert name in available, f"{name} was declared but is lost from the books"


class GpuPool:
    """The GPUs of one node, and how much of each is held.

    Whole GPUs are allocated in the order of their ids. A fraction goes to the fullest GPU that still has
    room, so that whole GPUs stay free for requests that need them."""

    __slots__ = ("_free", "_total")

    def __init__(self, held: Iterable[tuple[GpuId, int]]) -> None:
        """Make a pool of the GPUs and units in `held`, as another pool's `allocate` returned them."""
        # In the order of their ids.
        self._total: dict[GpuId, int] = dict(held)
        self._free = dict(self._total)

    def __len__(self) -> int:
        return len(self._free)

    def __repr__(self) -> str:
        return (
            f"GpuPool({', '.join(f'{id_}: {human_amount(free)} free' for id_, free in self._free.items())})"
        )

    @property
    def free_units(self) -> int:
        """Return the free units of all GPUs together; fractions of several GPUs do not make a whole one."""
        return sum(self._free.values())

    @property
    def most_free(self) -> int:
        """Return the free units of the GPU that has most."""
        return max(self._free.values(), default=0)

    def fits_after(self, units: int, released: Iterable[Iterable[tuple[GpuId, int]]]) -> bool:
        """Return True if `units` fit once these holders have released what `allocate` had given them."""
        trial = GpuPool(())
        trial._total, trial._free = self._total, dict(self._free)
        for held in released:
            trial.free(held)
        return trial.allocate(units) is not None

    def allocate(self, units: int) -> list[tuple[GpuId, int]] | None:
        """Allocate `units` and return their GPUs, or None if they do not fit now.

        More than one GPU is given as whole GPUs and a fraction of another one; only bundles may request that.
        """
        if units <= 0:
            return []
        if units < UNIT:
            return self._allocate_fraction(units)
        count, rest = divmod(units, UNIT)
        whole = [(id_, UNIT) for id_, free in self._free.items() if free == UNIT][:count]
        if len(whole) < count:
            return None
        for id_, _ in whole:
            self._free[id_] = 0
        if rest:
            fraction = self._allocate_fraction(rest)
            if fraction is None:
                self.free(whole)
                return None
            whole += fraction
        return whole

    def _allocate_fraction(self, units: int) -> list[tuple[GpuId, int]] | None:
        best: GpuId | None = None
        best_free = UNIT + 1
        for id_, free in self._free.items():
            if units <= free < best_free:
                best, best_free = id_, free
        if best is None:
            return None
        self._free[best] -= units
        return [(best, units)]

    def free(self, held: Iterable[tuple[GpuId, int]]) -> None:
        """Release units that `allocate` returned."""
        for id_, units in held:
            self._free[id_] += units

    def check(self) -> None:
        """Check that no GPU is held more than once or freed more than it was held."""
        for id_, free in self._free.items():
            total = self._total[id_]
            assert 0 <= free <= total, f"GPU {id_}: {free} units free of {total}"
