"""Resource amounts by name, such as 1 CPU and 0.5 GPU, with the arithmetic that all libraries share."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

#: Tolerance of comparisons, for rounding errors of sums. The smallest amount that a node counts is 0.0001.
_SLACK = 1e-6
#: The number of decimal places to which sums are rounded, so that 0.1 + 0.2 is 0.3.
_DIGITS = 9


class Resources(Mapping[str, float]):
    """An immutable set of amounts by name. Missing names count as 0.

    Args:
        amounts: amounts by name, such as `{"CPU": 1}`.
    """

    __slots__ = ("_amounts",)

    def __init__(self, amounts: Mapping[str, float] | None = None) -> None:
        self._amounts: dict[str, float] = dict(amounts or {})

    @classmethod
    def total(cls, parts: Iterable[Mapping[str, float]]) -> Resources:
        """Return the sum of several sets, such as the bundles of a placement group."""
        found = cls()
        for part in parts:
            found += part
        return found

    @classmethod
    def from_options(cls, options: Mapping[str, Any], default_cpus: float = 0) -> Resources:
        """Return the amounts that options of a task or an actor request, without zeros; `num_cpus` may have a
        default.
        """
        asked = {
            "CPU": options.get("num_cpus", default_cpus),
            "GPU": options.get("num_gpus"),
            "memory": options.get("memory"),
            **(options.get("resources") or {}),
        }
        return cls({name: float(amount) for name, amount in asked.items() if amount})

    def to_options(self) -> dict[str, Any]:
        """Return the options of a task or an actor that requests exactly these amounts."""
        rest = dict(self._amounts)
        options: dict[str, Any] = {"num_cpus": rest.pop("CPU", 0), "num_gpus": rest.pop("GPU", 0)}
        memory = rest.pop("memory", None)
        if memory:
            options["memory"] = memory
        if rest:
            options["resources"] = rest
        return options

    def __getitem__(self, name: str) -> float:
        return self._amounts[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._amounts)

    def __len__(self) -> int:
        return len(self._amounts)

    def __repr__(self) -> str:
        return f"Resources({self._amounts})"

    def __str__(self) -> str:
        return ", ".join(f"{amount:g} {name}" for name, amount in self._amounts.items()) or "nothing"

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Mapping):
            return NotImplemented
        return all(self.get(name, 0) == other.get(name, 0) for name in {*self, *other})

    def __hash__(self) -> int:
        return hash(frozenset((name, amount) for name, amount in self._amounts.items() if amount))

    def __add__(self, other: Mapping[str, float]) -> Resources:
        found = dict(self._amounts)
        for name, amount in other.items():
            found[name] = round(found.get(name, 0.0) + amount, _DIGITS)
        return Resources(found)

    def __sub__(self, other: Mapping[str, float]) -> Resources:
        found = dict(self._amounts)
        for name, amount in other.items():
            found[name] = round(found.get(name, 0.0) - amount, _DIGITS)
        return Resources(found)

    def __mul__(self, count: float) -> Resources:
        return Resources({name: round(amount * count, _DIGITS) for name, amount in self._amounts.items()})

    __rmul__ = __mul__

    def without_zeros(self) -> Resources:
        """Return the nonzero amounts."""
        return Resources({name: amount for name, amount in self._amounts.items() if amount})

    def fits(self, available: Mapping[str, float]) -> bool:
        """Return True if `available` covers each amount."""
        for name, amount in self._amounts.items():  # noqa: SIM110  a generator costs twice as much here
            if available.get(name, 0.0) + _SLACK < amount:
                return False
        return True

    def lacking(self, available: Mapping[str, float]) -> list[str]:
        """Return the names of which `available` has too little."""
        return [name for name, amount in self._amounts.items() if available.get(name, 0.0) + _SLACK < amount]

    def times(self, available: Mapping[str, float], most: int) -> int:
        """Return how many times this fits into `available`, at most `most`."""
        counts = [
            int((available.get(name, 0.0) + _SLACK) / amount)
            for name, amount in self._amounts.items()
            if amount > 0
        ]
        return max(0, min([most, *counts]))
