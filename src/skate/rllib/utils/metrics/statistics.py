"""The ways in which logged values become one value: mean, ema, min, max, sum, lifetime_sum, item, item_series, percentiles.

A statistic of a runner or a learner is shipped once per round and forgets what it shipped; the statistic at the root
merges what arrives. A window is the number of newest values that count; at the root it spans rounds.
"""

from __future__ import annotations

import math
import time
from abc import abstractmethod
from collections import deque
from collections.abc import Iterable, Sequence
from typing import Any, ClassVar, SupportsFloat

import numpy as np

from skate.rllib.utils.metrics import logged_values
from skate.rllib.utils.metrics.logged_values import NUMBERS, SHIPPED, detached, is_nan, plain, plain_list

DEFAULT_EMA_COEFF = 0.01
DEFAULT_PERCENTILES = (0, 50, 75, 90, 95, 99, 100)


class Statistic:
    """Values logged under one key, and how they become one; not made by `ABCMeta`, whose instances are slow to tell apart.

    Args:
        root: True where results are made, False in a runner or a learner that ships its statistics there.
    """

    kind: ClassVar[str]

    def __init__(self, *, root: bool = False) -> None:
        self.root = root
        self.is_merged = False

    @property
    @abstractmethod
    def is_empty(self) -> bool:
        """True if no value has come since the last reduction that forgot."""

    @abstractmethod
    def push(self, value: Any) -> None:
        """Add one value."""

    def extend(self, values: Iterable[Any]) -> None:
        """Add several values."""
        for value in values:
            self.push(value)

    @abstractmethod
    def merge(self, others: Sequence[Any]) -> None:
        """Add what other statistics of this kind hold."""

    def absorb(self, other: Any) -> None:
        """Do what `merge([other.ship()])` does."""
        self.merge((other.ship(),))

    @abstractmethod
    def peek(self) -> Any:
        """Return the value as of now; NaN if there is none."""

    @abstractmethod
    def ship(self) -> Statistic:
        """Return a copy for the root, and forget what the copy holds."""

    def reduce(self) -> Any:
        """Return the value as of now, and begin the next round."""
        value = self.peek()
        if not self.root:
            self.ship()
        return value

    @abstractmethod
    def settings(self) -> dict[str, Any]:
        """Return the arguments that a statistic like this one is made with."""

    def like(self, *, root: bool) -> Any:
        """Return an empty statistic with the same settings."""
        return type(self)(**self.settings(), root=root)

    def _copied(self) -> Any:
        """Return what `copy.copy()` does, which takes most of the time of a training step with one small update."""
        shipped = object.__new__(type(self))
        shipped.__dict__.update(self.__dict__)
        shipped.root = False
        return shipped

    @abstractmethod
    def held(self) -> Any:
        """Return the values that are held, for the state."""

    @abstractmethod
    def hold(self, held: Any) -> None:
        """Replace what is held by what `held` returned elsewhere."""

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.peek()})"

    # -- as a number, its value as of now

    def __float__(self) -> float:
        value = self.peek()
        if isinstance(value, list | tuple):
            raise ValueError(f"{self} has several values; it is no number")
        return float(value)

    def __int__(self) -> int:
        return int(float(self))

    def __format__(self, spec: str) -> str:
        return format(float(self), spec) if spec else repr(self)

    def __hash__(self) -> int:
        return id(self)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, SupportsFloat):
            return NotImplemented
        return float(self) == float(other)

    def __lt__(self, other: SupportsFloat) -> bool:
        return float(self) < float(other)

    def __le__(self, other: SupportsFloat) -> bool:
        return float(self) <= float(other)

    def __gt__(self, other: SupportsFloat) -> bool:
        return float(self) > float(other)

    def __ge__(self, other: SupportsFloat) -> bool:
        return float(self) >= float(other)

    def __add__(self, other: SupportsFloat) -> float:
        return float(self) + float(other)

    def __sub__(self, other: SupportsFloat) -> float:
        return float(self) - float(other)

    def __mul__(self, other: SupportsFloat) -> float:
        return float(self) * float(other)


class Series(Statistic):
    """A statistic that keeps its values, the newest ``window`` of them.

    Args:
        window: Number of newest values that count; all of the round if None.
        root: See `Statistic`.
    """

    combine: ClassVar[Any]

    def __init__(self, window: int | None = None, *, root: bool = False) -> None:
        super().__init__(root=root)
        self.window = None if window is None or math.isinf(window) else int(window)
        self.values: deque[Any] = deque(maxlen=self.window)
        self.spans_rounds = False

    @property
    def is_empty(self) -> bool:
        return not self.values

    def push(self, value: Any) -> None:
        self.values.append(value if type(value) in NUMBERS else detached(value))

    def extend(self, values: Iterable[Any]) -> None:
        self.values.extend([value if type(value) in NUMBERS else detached(value) for value in values])

    def merge(self, others: Sequence[Any]) -> None:
        self.spans_rounds = self.spans_rounds or self.window is not None
        incoming = [value for other in others for value in other.values]
        if self.window is not None:
            # A window is of each of the others; all that they have to say of this round counts.
            size = max(self.window, len(incoming))
            if size != self.values.maxlen:
                self.values = deque(self.values, maxlen=size)
        self.values.extend(incoming)

    def absorb(self, other: Any) -> None:
        fits = self.window is None or len(other.values) <= self.window == self.values.maxlen
        if fits and type(self).merge is Series.merge and SHIPPED.issuperset(map(type, other.values)):
            self.spans_rounds = self.spans_rounds or self.window is not None
            self.values.extend(other.values)
            other.values.clear()
        else:
            super().absorb(other)

    def peek(self) -> Any:
        return logged_values.reduced(type(self).combine, self.values)

    def reduce(self) -> Any:
        value = self.peek()
        if not (self.root and self.spans_rounds):
            self.values.clear()
        return value

    def ship(self) -> Statistic:
        shipped: Series = self._copied()
        shipped.spans_rounds = False
        if not SHIPPED.issuperset(map(type, self.values)):
            shipped.values = deque(plain_list(self.values), maxlen=self.window)
        self.values = deque(maxlen=self.window)
        return shipped

    def settings(self) -> dict[str, Any]:
        return {"window": self.window}

    def held(self) -> Any:
        return {"values": plain_list(self.values), "spans_rounds": self.spans_rounds}

    def hold(self, held: Any) -> None:
        self.values = deque(held["values"], maxlen=self.window)
        self.spans_rounds = held["spans_rounds"]


class Mean(Series):
    """The mean of the values."""

    kind = "mean"
    combine = staticmethod(np.mean)


class Min(Series):
    """The least of the values."""

    kind = "min"
    combine = staticmethod(np.min)


class Max(Series):
    """The largest of the values."""

    kind = "max"
    combine = staticmethod(np.max)


class Sum(Series):
    """The sum of the values of one round.

    Args:
        window: Number of newest values that count; all of the round if None.
        with_throughput: True to keep the sum per second as well.
        root: See `Statistic`.
    """

    kind = "sum"
    combine = staticmethod(np.sum)

    def __init__(
        self, window: int | None = None, with_throughput: bool = False, *, root: bool = False
    ) -> None:
        super().__init__(window, root=root)
        self.with_throughput = with_throughput
        self._since = time.perf_counter()

    @property
    def throughput(self) -> float:
        """The sum per second since the last reduction."""
        value = self.peek()
        return 0.0 if is_nan(value) else float(value) / max(time.perf_counter() - self._since, 1e-9)

    def reduce(self) -> Any:
        self._since = time.perf_counter()
        return super().reduce()

    def settings(self) -> dict[str, Any]:
        return {"window": self.window, "with_throughput": self.with_throughput}


class LifetimeSum(Statistic):
    """The sum over all rounds; a runner ships only what is new.

    Args:
        with_throughput: True to keep the growth per second as well.
        root: See `Statistic`.
    """

    kind = "lifetime_sum"

    def __init__(self, with_throughput: bool = False, *, root: bool = False) -> None:
        super().__init__(root=root)
        self.with_throughput = with_throughput
        self.total: Any = 0
        self._at_last_reduction: Any = 0
        self._since = time.perf_counter()

    @property
    def is_empty(self) -> bool:
        return False

    @property
    def throughput(self) -> float:
        """The growth per second since the last reduction."""
        grown = float(plain(self.total)) - float(plain(self._at_last_reduction))
        return grown / max(time.perf_counter() - self._since, 1e-9)

    def push(self, value: Any) -> None:
        if type(value) is int:
            self.total = self.total + value
        elif not is_nan(value):
            self.total = self.total + detached(value)

    def merge(self, others: Sequence[Any]) -> None:
        for other in others:
            self.total = self.total + other.total

    def absorb(self, other: Any) -> None:
        self.total = self.total + plain(other.total)
        other.total = other._at_last_reduction = 0

    def peek(self) -> Any:
        return plain(self.total)

    def reduce(self) -> Any:
        value = self.peek()
        self._since = time.perf_counter()
        if self.root:
            self._at_last_reduction = value
        else:
            self.ship()
        return value

    def ship(self) -> Statistic:
        shipped: LifetimeSum = self._copied()
        shipped.total, shipped._at_last_reduction = plain(self.total), 0
        self.total = self._at_last_reduction = 0
        return shipped

    def settings(self) -> dict[str, Any]:
        return {"with_throughput": self.with_throughput}

    def held(self) -> Any:
        return plain(self.total)

    def hold(self, held: Any) -> None:
        self.total = self._at_last_reduction = held


class Ema(Statistic):
    """The exponential moving average; at the root the mean of the averages that arrived in the round.

    Args:
        ema_coeff: Weight of a new value, in (0, 1].
        root: See `Statistic`.
    """

    kind = "ema"

    def __init__(self, ema_coeff: float | None = None, *, root: bool = False) -> None:
        super().__init__(root=root)
        self.ema_coeff = DEFAULT_EMA_COEFF if ema_coeff is None else ema_coeff
        self.value: Any = math.nan
        self.arrived: list[float] = []
        self._sum = 0.0

    @property
    def is_empty(self) -> bool:
        return is_nan(self.value)

    def push(self, value: Any) -> None:
        old = self.value
        if type(value) is float and type(old) is float:
            # Seconds of a timer, the usual case; only NaN differs from itself.
            if value == value:
                self.value = self.ema_coeff * value + (1.0 - self.ema_coeff) * old if old == old else value
            return
        if is_nan(value):
            return
        new = detached(value)
        self.value = new if is_nan(old) else self.ema_coeff * new + (1.0 - self.ema_coeff) * old

    def merge(self, others: Sequence[Any]) -> None:
        for other in others:
            self.absorb(other)

    def absorb(self, other: Any) -> None:
        other.arrived.clear()
        value = plain(other.value)
        if not is_nan(value):
            self._sum = self._sum + value if self.arrived else value
            self.arrived.append(value)
            self.value = self._sum / len(self.arrived)

    def peek(self) -> Any:
        return plain(self.value)

    def reduce(self) -> Any:
        self.arrived.clear()
        return self.peek()

    def ship(self) -> Statistic:
        shipped: Ema = self._copied()
        shipped.value, shipped.arrived = plain(self.value), []
        self.arrived.clear()
        return shipped

    def settings(self) -> dict[str, Any]:
        return {"ema_coeff": self.ema_coeff}

    def held(self) -> Any:
        return plain(self.value)

    def hold(self, held: Any) -> None:
        self.value = held


class Item(Statistic):
    """The newest value, of any type."""

    kind = "item"

    def __init__(self, *, root: bool = False) -> None:
        super().__init__(root=root)
        self.values: list[Any] = []

    @property
    def is_empty(self) -> bool:
        return not self.values

    def push(self, value: Any) -> None:
        self.values = [detached(value)]

    def merge(self, others: Sequence[Any]) -> None:
        for other in others:
            self.values = list(other.values) or self.values

    def peek(self) -> Any:
        return plain(self.values[0]) if self.values else math.nan

    def ship(self) -> Statistic:
        shipped: Item = self.like(root=False)
        shipped.values = [plain(value) for value in self.values]
        return shipped

    def settings(self) -> dict[str, Any]:
        return {}

    def held(self) -> Any:
        return [plain(value) for value in self.values]

    def hold(self, held: Any) -> None:
        self.values = list(held)


class ItemSeries(Series):
    """The values themselves, as a list."""

    kind = "item_series"
    combine = staticmethod(np.asarray)

    def merge(self, others: Sequence[Any]) -> None:
        for other in others:
            self.values.extend(other.values)

    def peek(self) -> Any:
        return plain_list(self.values)


class Percentiles(Series):
    """Percentiles of the values, as a dict.

    Args:
        percentiles: Numbers from 0 to 100; True or None for 0, 50, 75, 90, 95, 99 and 100.
        window: Number of newest values that count; all of the round if None.
        root: See `Statistic`.
    """

    kind = "percentiles"
    combine = staticmethod(np.asarray)

    def __init__(
        self,
        percentiles: Iterable[float] | bool | None = None,
        window: int | None = None,
        *,
        root: bool = False,
    ) -> None:
        super().__init__(window, root=root)
        default = percentiles is None or isinstance(percentiles, bool)
        self.percentiles = list(DEFAULT_PERCENTILES if default else percentiles)  # type: ignore[arg-type]

    def peek(self) -> Any:
        values = np.asarray(plain_list(self.values), dtype=float)
        if not len(values):
            return dict.fromkeys(self.percentiles)
        return dict(zip(self.percentiles, np.percentile(values, self.percentiles).tolist(), strict=True))

    def settings(self) -> dict[str, Any]:
        return {"window": self.window, "percentiles": self.percentiles}


KINDS: dict[str, type[Statistic]] = {
    kind.kind: kind for kind in (Mean, Min, Max, Sum, LifetimeSum, Ema, Item, ItemSeries, Percentiles)
}
