"""Resource amounts and limits of a run, and execution options."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

INFINITE = float("inf")
_FIELDS = ("cpu", "gpu", "object_store_memory", "memory")
_UNITS = ("B", "KiB", "MiB", "GiB", "TiB")


class ExecutionResources:
    """Amounts of CPUs, GPUs, bytes of the object store and bytes of heap memory; None means unspecified, and
    counts as 0.

    Raises ValueError for amounts below 0.
    """

    __slots__ = ("_amounts",)

    def __init__(
        self,
        cpu: float | None = None,
        gpu: float | None = None,
        object_store_memory: float | None = None,
        memory: float | None = None,
    ) -> None:
        given = (cpu, gpu, object_store_memory, memory)
        for name, value in zip(_FIELDS, given, strict=True):
            if value is not None and value < 0:
                raise ValueError(f"{name} of ExecutionResources must be >= 0, got {value}")
        self._amounts: tuple[float | None, ...] = given

    @classmethod
    def _of(cls, amounts: Iterable[float | None]) -> ExecutionResources:
        """Build from amounts without checks: the result of a subtraction may be below 0."""
        found = cls.__new__(cls)
        found._amounts = tuple(amounts)
        return found

    @classmethod
    def for_limits(
        cls,
        cpu: float | None = None,
        gpu: float | None = None,
        object_store_memory: float | None = None,
        memory: float | None = None,
    ) -> ExecutionResources:
        """Build limits: an amount that is not given is unlimited."""
        given = (cpu, gpu, object_store_memory, memory)
        return cls(*(INFINITE if value is None else value for value in given))

    @classmethod
    def from_resource_dict(cls, resource_dict: dict[str, float]) -> ExecutionResources:
        """Build from amounts by the names that `cluster_resources` uses."""
        named = (resource_dict.get(name) for name in ("CPU", "GPU", "object_store_memory", "memory"))
        return cls(*named)

    @classmethod
    def zero(cls) -> ExecutionResources:
        """Return amounts of 0."""
        return cls(0, 0, 0, 0)

    @classmethod
    def inf(cls) -> ExecutionResources:
        """Return unlimited amounts."""
        return cls.for_limits()

    @classmethod
    def combine(
        cls, resources: Iterable[ExecutionResources], fn: Callable[[float, float], float]
    ) -> ExecutionResources | None:
        """Combine several by a function of two numbers, amount by amount; None for an empty list."""
        found: ExecutionResources | None = None
        for each in resources:
            found = each if found is None else found._with(each, fn)
        return found

    @classmethod
    def combine_sum(cls, resources: Iterable[ExecutionResources]) -> ExecutionResources:
        """Add up several."""
        return cls.combine(resources, lambda left, right: left + right) or cls.zero()

    @property
    def cpu(self) -> float:
        """The number of CPUs."""
        return self._amounts[0] or 0

    @property
    def gpu(self) -> float:
        """The number of GPUs."""
        return self._amounts[1] or 0

    @property
    def object_store_memory(self) -> float:
        """The bytes of the object store."""
        return self._amounts[2] or 0

    @property
    def memory(self) -> float:
        """The bytes of heap memory."""
        return self._amounts[3] or 0

    def to_resource_dict(self) -> dict[str, float]:
        """Return the amounts by the names that `cluster_resources` uses."""
        return dict(zip(("CPU", "GPU", "object_store_memory", "memory"), self._numbers(), strict=True))

    def copy(
        self,
        cpu: float | None = None,
        gpu: float | None = None,
        memory: float | None = None,
        object_store_memory: float | None = None,
    ) -> ExecutionResources:
        """Return a copy with the given amounts replaced."""
        given = (cpu, gpu, object_store_memory, memory)
        return self._of(mine if new is None else new for mine, new in zip(self._amounts, given, strict=True))

    def is_zero(self) -> bool:
        """True if every amount is 0."""
        return not any(self._numbers())

    def is_non_negative(self) -> bool:
        """True if no amount is below 0."""
        return all(value >= 0 for value in self._numbers())

    def object_store_memory_str(self) -> str:
        """Return the bytes of the object store in readable form."""
        return _size(self.object_store_memory)

    def memory_str(self) -> str:
        """Return the bytes of heap memory in readable form."""
        return _size(self.memory)

    def add(self, other: ExecutionResources) -> ExecutionResources:
        """Return the sum, amount by amount."""
        return self._with(other, lambda left, right: left + right)

    def subtract(self, other: ExecutionResources) -> ExecutionResources:
        """Return the difference, amount by amount; it may be below 0."""
        return self._with(other, lambda left, right: left - right)

    def max(self, other: ExecutionResources) -> ExecutionResources:
        """Return the larger of each amount."""
        return self._with(other, max)

    def min(self, other: ExecutionResources) -> ExecutionResources:
        """Return the smaller of each amount."""
        return self._with(other, min)

    def scale(self, f: float) -> ExecutionResources:
        """Multiply each amount by a factor."""
        return self._of(value * f for value in self._numbers())

    def floordiv(self, other: ExecutionResources) -> ExecutionResources:
        """Divide each amount by another's; infinite where that is 0."""
        return self._with(other, lambda left, right: left // right if right else INFINITE)

    def satisfies_limit(self, limit: ExecutionResources, *, ignore_object_store_memory: bool = False) -> bool:
        """True if no amount is above that of a limit."""
        pairs = zip(_FIELDS, self._numbers(), limit._numbers(), strict=True)
        return all(
            mine <= most or (ignore_object_store_memory and name == "object_store_memory")
            for name, mine, most in pairs
        )

    def _numbers(self) -> tuple[float, ...]:
        return tuple(value or 0 for value in self._amounts)

    def _with(self, other: ExecutionResources, fn: Callable[[float, float], float]) -> ExecutionResources:
        return self._of(map(fn, self._numbers(), other._numbers()))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ExecutionResources) and self._numbers() == other._numbers()

    def __hash__(self) -> int:
        return hash(self._numbers())

    def __reduce__(self) -> Any:
        return ExecutionResources._of, (self._amounts,)

    def __repr__(self) -> str:
        values = {
            name: value for name, value in zip(_FIELDS, self._amounts, strict=True) if value is not None
        }
        return f"ExecutionResources({', '.join(f'{name}={value:g}' for name, value in values.items())})"


def _size(size: float) -> str:
    for unit in _UNITS:
        if abs(size) < 1024 or unit == _UNITS[-1] or size == INFINITE:
            return f"{size:.1f}{unit}" if size != INFINITE else "inf"
        size /= 1024
    raise AssertionError("unreachable: the last unit has no upper limit")


class ExecutionOptions:
    """Options of a run: its limits, and the order of blocks (which is always kept here)."""

    def __init__(
        self,
        resource_limits: ExecutionResources | None = None,
        exclude_resources: ExecutionResources | None = None,
        preserve_order: bool = False,
        actor_locality_enabled: bool = True,
        verbose_progress: bool | None = None,
        label_selector: dict[str, str] | None = None,
    ) -> None:
        self.resource_limits = resource_limits or ExecutionResources.for_limits()
        self.exclude_resources = exclude_resources or ExecutionResources.zero()
        self.locality_with_output: Any = False
        self.preserve_order = preserve_order
        self.actor_locality_enabled = actor_locality_enabled
        self.verbose_progress = True if verbose_progress is None else verbose_progress
        self.label_selector = label_selector
        #: CPUs that the workers of a training run hold, for which tasks of its datasets do not wait.
        self._held_cpus = 0.0

    @property
    def _unavailable_cpus(self) -> float:
        """The CPUs that a run must not use: excluded ones, and those of the training run that it feeds."""
        return self.exclude_resources.cpu + self._held_cpus

    @property
    def resource_limits(self) -> ExecutionResources:
        """The most resources that a run may use; amounts that were not given are unlimited."""
        return self._resource_limits

    @resource_limits.setter
    def resource_limits(self, limits: ExecutionResources) -> None:
        if not isinstance(limits, ExecutionResources):
            raise TypeError(
                f"resource_limits must be an ExecutionResources, got {type(limits).__name__}: {limits!r}"
            )
        self._resource_limits = ExecutionResources.for_limits(*limits._amounts)

    def is_resource_limits_default(self) -> bool:
        """True if there are no limits."""
        return self._resource_limits == ExecutionResources.inf()

    def validate(self) -> None:
        """Raise ValueError for amounts that are both limited and excluded."""
        for name in ("cpu", "gpu", "object_store_memory"):
            limit = getattr(self.resource_limits, name)
            if limit != INFINITE and getattr(self.exclude_resources, name):
                raise ValueError(f"{name} has both a limit and an excluded amount; set only one of them")

    def __repr__(self) -> str:
        return (
            f"ExecutionOptions(resource_limits={self.resource_limits!r}, exclude_resources={self.exclude_resources!r}, "
            f"preserve_order={self.preserve_order}, actor_locality_enabled={self.actor_locality_enabled}, "
            f"verbose_progress={self.verbose_progress}, label_selector={self.label_selector})"
        )
