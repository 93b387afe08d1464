"""Running statistics of arrays, and their form in states and checkpoints."""

from __future__ import annotations

import base64
import io
import zlib
from dataclasses import dataclass
from typing import Any

import numpy as np


@dataclass
class Moments:
    """Count, sum and squared deviations of arrays (Welford, 1962; merged as by Chan et al., 1979).

    The mean is the sum divided by the count, so that many arrays are added at once with the same bits as one by one.
    """

    count: int
    total: np.ndarray
    squares: np.ndarray

    @classmethod
    def empty(cls, shape: tuple[int, ...]) -> Moments:
        """Return statistics of nothing."""
        return cls(0, np.zeros(shape), np.zeros(shape))

    @property
    def mean(self) -> np.ndarray:
        """The mean; 0 of nothing."""
        mean: np.ndarray = self.total / max(self.count, 1)
        return mean

    def push(self, values: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Add arrays, one after the other.

        Args:
            values: Array of shape ``(N, ...)``, in double precision.

        Returns:
            The count, the mean and the squared deviations after each of them; their first axis has length N.
        """
        size = len(values)
        counts = np.arange(self.count, self.count + size + 1, dtype=np.float64)
        counts = counts.reshape(-1, *[1] * (values.ndim - 1))
        totals = np.concatenate((self.total[None], values)).cumsum(0)
        means = totals / np.maximum(counts, 1.0)
        products = (values - means[:-1]) * (values - means[1:])
        squares = np.concatenate((self.squares[None], products)).cumsum(0)
        self.count, self.total, self.squares = self.count + size, totals[-1], squares[-1]
        return counts[1:], means[1:], squares[1:]

    def merge(self, other: Moments) -> Moments:
        """Return the statistics of both."""
        count = self.count + other.count
        if not count:
            return self
        delta = other.mean - self.mean
        squares = self.squares + other.squares + delta**2 * (self.count * other.count / count)
        return Moments(count, self.total + other.total, squares)

    @property
    def deviation(self) -> np.ndarray:
        """The standard deviation of the sample; zero while there is one value."""
        return deviations(np.array(self.count), self.squares)


def deviations(counts: np.ndarray, squares: np.ndarray) -> np.ndarray:
    """Return standard deviations of samples; zero where there is one value."""
    found: np.ndarray = np.sqrt(np.where(counts > 1, squares / np.maximum(counts - 1, 1), 0.0))
    return found


def packed(seen: Moments, new: Moments) -> dict[str, Any]:
    """Return all that was seen, and the newer part of it, as Ray has them in checkpoints."""
    return {
        "num_pushes": seen.count,
        "num_pushes_delta": new.count,
        "mean_array": text_of(seen.mean),
        "mean_delta_array": text_of(new.mean),
        "sum_sq_diff_array": text_of(seen.squares),
        "sum_sq_diff_delta_array": text_of(new.squares),
        # Ray has no use for the sums; with them a restored filter continues with the same bits.
        "sum_array": text_of(seen.total),
        "sum_delta_array": text_of(new.total),
    }


def unpacked(state: dict[str, Any]) -> tuple[Moments, Moments]:
    """Return what `packed` was given, also from a state of Ray's."""
    return _part(state, ""), _part(state, "_delta")


def _part(state: dict[str, Any], suffix: str) -> Moments:
    count = state[f"num_pushes{suffix}"]
    total = state.get(f"sum{suffix}_array")
    return Moments(
        count,
        array_of(state[f"mean{suffix}_array"]) * count if total is None else array_of(total),
        array_of(state[f"sum_sq_diff{suffix}_array"]),
    )


def text_of(array: np.ndarray) -> str:
    """Return an array as text: the bytes of an npy file, compressed, in base64."""
    file = io.BytesIO()
    np.save(file, array)
    return base64.b64encode(zlib.compress(file.getvalue())).decode("ascii")


def array_of(text: str) -> np.ndarray:
    """Return the array that `text_of` was given."""
    array: np.ndarray = np.load(io.BytesIO(zlib.decompress(base64.b64decode(text))), allow_pickle=False)
    return array


def without(whole: Moments, taken: Moments) -> Moments:
    """Return the statistics of what is in the whole but not in the part."""
    count = whole.count - taken.count
    if count <= 0:
        return Moments.empty(whole.total.shape)
    total = whole.total - taken.total
    delta = taken.mean - total / count
    squares = whole.squares - taken.squares - delta**2 * (count * taken.count / whole.count)
    return Moments(count, total, np.maximum(squares, 0.0))


class RunningStat:
    """Mean and variance of arrays, as the states of `MeanStdFilter` have them: of all arrays, and of the newest ones.

    The newest are those since the last merge with the statistics of others; names with ``_delta`` are of them.

    Args:
        shape: Shape of the arrays.
    """

    def __init__(self, shape: tuple[int, ...] = ()) -> None:
        self.all = Moments.empty(tuple(shape))
        self.newest = Moments.empty(tuple(shape))

    @staticmethod
    def from_state(state: dict[str, Any]) -> RunningStat:
        """Return the statistics of a state, Ray's as well.

        Args:
            state: One item of ``running_stats``.
        """
        made = RunningStat()
        made.all, made.newest = unpacked(state)
        return made

    def to_state(self) -> dict[str, Any]:
        """Return the statistics as one item of ``running_stats``."""
        return packed(self.all, self.newest)

    def copy(self) -> RunningStat:
        """Return the same statistics, which change by themselves."""
        return RunningStat.from_state(self.to_state())

    def push(self, x: Any) -> None:
        """Add an array.

        Args:
            x: The array.

        Raises:
            ValueError: The array has another shape.
        """
        row = np.asarray(x, np.float64)
        if row.shape != self.shape:
            raise ValueError(
                f"these statistics are of arrays of shape {self.shape}, and {x!r} has {row.shape}"
            )
        self.all.push(row[None])
        self.newest.push(row[None])

    def update(self, other: RunningStat) -> None:
        """Add the newest arrays of other statistics.

        Args:
            other: The other statistics.
        """
        self.all = self.all.merge(other.newest)

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of the arrays."""
        return self.all.total.shape

    @property
    def n(self) -> int:
        """The number of arrays."""
        return self.all.count

    @property
    def mean(self) -> np.ndarray:
        """The mean; 0 of nothing."""
        return self.all.mean

    @property
    def var(self) -> np.ndarray:
        """The variance of the sample, in single precision; 0 of one array."""
        found: np.ndarray = np.square(self.all.deviation).astype(np.float32)
        return found

    @property
    def std(self) -> np.ndarray:
        """The standard deviation of the sample, in single precision; 0 of one array."""
        found: np.ndarray = self.all.deviation.astype(np.float32)
        return found

    num_pushes = n
    mean_array = mean

    @property
    def num_pushes_delta(self) -> int:
        """The number of newest arrays."""
        return self.newest.count

    @property
    def mean_delta_array(self) -> np.ndarray:
        """The mean of the newest arrays."""
        return self.newest.mean

    @property
    def sum_sq_diff_array(self) -> np.ndarray:
        """The sum of squared deviations from the mean."""
        return self.all.squares

    @property
    def sum_sq_diff_delta_array(self) -> np.ndarray:
        """The sum of the newest arrays' squared deviations from their mean."""
        return self.newest.squares

    def __repr__(self) -> str:
        return f"RunningStat(n={self.n}, mean={np.mean(self.mean):.6g}, std={np.mean(self.std):.6g})"
