"""Learning curves over seeds: interquartile means and their intervals, as Agarwal et al. (2021) advise, and a picture."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

POINTS = 10
RESAMPLES = 4000


def scores(episodes: Sequence[Sequence[float]], steps: int, points: int = POINTS) -> np.ndarray:
    """Return the mean return of the episodes that ended in each tenth of a training, shape ``(points,)``.

    Args:
        episodes: Steps at the end of each episode, and its return.
        steps: Steps of the training.
        points: Number of parts.

    Raises:
        ValueError: No episode has ended.
    """
    if not len(episodes):
        raise ValueError("no episode has ended yet: there is no curve")
    table = np.asarray(episodes, float)
    part = np.minimum((table[:, 0] - 1) * points // steps, points - 1).astype(int)
    found = np.full(points, np.nan)
    for at in range(points):
        mine = table[part == at, 1]
        # A part in which no episode ended, because they are long, has the score of the part before.
        found[at] = mine.mean() if len(mine) else (found[at - 1] if at else table[0, 1])
    return found


def iqm(values: np.ndarray) -> np.ndarray:
    """Return the mean of the middle half along the first axis: a quarter, rounded down, is left out at each end."""
    left_out = len(values) // 4
    middle: np.ndarray = np.sort(values, axis=0)[left_out : len(values) - left_out].mean(axis=0)
    return middle


def interval(values: np.ndarray, resamples: int = RESAMPLES) -> tuple[np.ndarray, np.ndarray]:
    """Return the bounds of the 95 % interval of the interquartile mean, by resampling seeds.

    Args:
        values: One row for each seed.
        resamples: Number of samples; the random stream is fixed.
    """
    chosen = np.random.default_rng(0).integers(0, len(values), (resamples, len(values)))
    means = iqm(np.moveaxis(values[chosen], 1, 0))
    low, high = np.percentile(means, (2.5, 97.5), axis=0)
    return low, high


@dataclass(frozen=True, slots=True)
class Curve:
    """The curve of one side: interquartile means with intervals, and the mean over the curve.

    Attributes:
        mean: At each point.
        low: Lower bounds.
        high: Upper bounds.
        area: Mean over all points, with its bounds.
        seeds: Number of seeds.
    """

    mean: np.ndarray
    low: np.ndarray
    high: np.ndarray
    area: tuple[float, float, float]
    seeds: int


def curve_of(values: np.ndarray) -> Curve:
    """Return the curve of scores of shape ``(seeds, points)``."""
    areas = values.mean(axis=1)
    low, high = interval(areas)
    return Curve(iqm(values), *interval(values), (float(iqm(areas)), float(low), float(high)), len(values))


def points_below(ours: Curve, other: Curve) -> list[int]:
    """Return the points at which our mean is below the other's interval; `len(mean)` stands for the area."""
    below = [at for at, value in enumerate(ours.mean) if value < other.low[at]]
    return below + ([len(ours.mean)] if ours.area[0] < other.area[1] else [])


def draw(curves: Mapping[str, tuple[int, Mapping[str, Curve]]], file: Path) -> None:
    """Draw a panel for each task.

    Args:
        curves: By task: its steps, and the curve of each side.
        file: An SVG or PNG to write.
    """
    import matplotlib  # only pictures need it

    matplotlib.use("agg")
    # Letters as text and names from a fixed salt: the file is small, and equal curves give an equal file.
    matplotlib.rcParams |= {"svg.fonttype": "none", "svg.hashsalt": "curves"}
    from matplotlib import pyplot

    colours = {"skate": "#1f6feb", "sb3": "#8b949e"}
    names = {"skate": "Skate", "sb3": "Stable-Baselines3"}
    columns = min(3, len(curves))
    rows = -(-len(curves) // columns)
    figure, grid = pyplot.subplots(rows, columns, figsize=(4 * columns, 3 * rows), squeeze=False)
    axes: list[Any] = list(grid.flat)
    for axis, (task, (steps, sides)) in zip(axes, curves.items(), strict=False):
        for side, curve in sides.items():
            at = np.arange(1, len(curve.mean) + 1) * steps / len(curve.mean)
            axis.plot(at, curve.mean, color=colours[side], label=f"{names[side]}, {curve.seeds} seeds")
            axis.fill_between(at, curve.low, curve.high, color=colours[side], alpha=0.2, linewidth=0)
        axis.set_title(task.replace("_", " "), fontsize=10)
        axis.tick_params(labelsize=8)
        axis.set_xlabel("steps", fontsize=8)
        axis.set_ylabel("return", fontsize=8)
    axes[0].legend(fontsize=8, frameon=False)
    for axis in axes[len(curves) :]:
        axis.set_visible(False)
    figure.tight_layout()
    file.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(file, metadata={"Date": None} if file.suffix == ".svg" else None)
    pyplot.close(figure)
