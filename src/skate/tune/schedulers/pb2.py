"""PB2: population based training whose changes a Gaussian process proposes (Parker-Holder et al., NeurIPS 2020).

The process is written out with numpy: a squared exponential kernel over configurations, fading with time, and the upper
confidence bound of the improvement it expects, maximized over random candidates.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from typing import Any

from skate.tune.error import TuneError
from skate.tune.experiment.trial import Trial
from skate.tune.schedulers.pbt import PopulationBasedTraining, State
from skate.tune.space.variants import assigned, at, copied

_CANDIDATES = 1000
_REMEMBERED = 200


class PB2(PopulationBasedTraining):
    """Population based training for numbers within bounds.

    Args:
        hyperparam_bounds: {"lr": [1e-4, 1e-1], ...}, nested or not: the parameters to change, with their bounds.
        time_attr, metric, mode, perturbation_interval, quantile_fraction, log_config, require_attrs, synch,
            custom_explore_fn: as in `PopulationBasedTraining`.

    Raises:
        TuneError: there are no bounds.
        TypeError, ValueError: a bound is not a pair of numbers, the smaller first.
    """

    def __init__(
        self,
        time_attr: str = "time_total_s",
        metric: str | None = None,
        mode: str | None = None,
        perturbation_interval: float = 60.0,
        hyperparam_bounds: dict[str, Any] | None = None,
        quantile_fraction: float = 0.25,
        log_config: bool = True,
        require_attrs: bool = True,
        synch: bool = False,
        custom_explore_fn: Callable[[dict[str, Any]], dict[str, Any]] | None = None,
    ) -> None:
        if not hyperparam_bounds:
            raise TuneError(
                "`hyperparam_bounds` must be specified to use PB2 scheduler; it lists the parameters to change and their bounds"
            )
        bounds = _paths(hyperparam_bounds)
        for path, pair in bounds.items():
            _check_bounds("/".join(path), pair)
        super().__init__(
            time_attr=time_attr,
            metric=metric,
            mode=mode,
            perturbation_interval=perturbation_interval,
            hyperparam_mutations=_drawers(hyperparam_bounds),
            quantile_fraction=quantile_fraction,
            resample_probability=0,
            custom_explore_fn=custom_explore_fn,
            log_config=log_config,
            require_attrs=require_attrs,
            synch=synch,
        )
        self._bounds = {path: (float(pair[0]), float(pair[1])) for path, pair in bounds.items()}
        #: Observations: time, configuration scaled to the unit cube, previous score, improvement.
        self._seen: list[tuple[float, list[float], float, float]] = []
        self._before: dict[str, float] = {}

    def _scaled(self, config: dict[str, Any]) -> list[float]:
        return [
            (float(at(config, path)) - low) / max(high - low, 1e-12)
            for path, (low, high) in self._bounds.items()
        ]

    def _note_score(self, trial: Trial, state: State, result: dict[str, Any]) -> None:
        assert state.score is not None
        before = self._before.get(trial.trial_id)
        if before is not None:
            self._seen.append((state.trained_until, self._scaled(trial.config), before, state.score - before))
            del self._seen[:-_REMEMBERED]
        self._before[trial.trial_id] = state.score

    def _explored(self, donor: Trial, trial: Trial) -> dict[str, Any]:
        found = copied(donor.config)
        self._before[trial.trial_id] = self._states[donor.trial_id].score or 0.0
        if len(self._seen) < 3:
            point = [random.random() for _ in self._bounds]
        else:
            state = self._states[donor.trial_id]
            point = propose(self._seen, state.trained_until, state.score or 0.0, random.getrandbits(32))
        for (path, (low, high)), value in zip(self._bounds.items(), point, strict=True):
            moved = low + value * (high - low)
            assigned(found, path, round(moved) if isinstance(at(found, path), int) else moved)
        return self._custom_explore_fn(found) if self._custom_explore_fn else found


def _paths(bounds: Mapping[str, Any], path: tuple[str, ...] = ()) -> dict[tuple[str, ...], Any]:
    """Flatten nested bounds to a dict of paths."""
    found: dict[tuple[str, ...], Any] = {}
    for name, each in bounds.items():
        found.update(_paths(each, (*path, name)) if isinstance(each, Mapping) else {(*path, name): each})
    return found


def _check_bounds(name: str, pair: Any) -> None:
    if not isinstance(pair, (list, tuple)):
        raise TypeError(f"`hyperparam_bounds` needs a pair of numbers for {name!r}, got {pair!r:.80}")
    if len(pair) != 2 or not all(isinstance(each, (int, float)) for each in pair):
        raise ValueError(
            f"`hyperparam_bounds` values must either be a list or tuple of size 2, of numbers, but got {pair!r} instead for "
            f"the param {name!r}"
        )
    if pair[0] > pair[1]:
        raise ValueError(
            f"`hyperparam_bounds` values must be of the form [low, high] where low <= high, but got {pair!r} instead for "
            f"param {name!r}"
        )


def _drawers(bounds: Mapping[str, Any]) -> dict[str, Any]:
    return {
        name: _drawers(each) if isinstance(each, Mapping) else _Between(*each)
        for name, each in bounds.items()
    }


class _Between:
    def __init__(self, low: float, high: float) -> None:
        self.low, self.high = low, high

    def __call__(self) -> float:
        if isinstance(self.low, int) and isinstance(self.high, int):
            return random.randint(self.low, self.high)
        return random.uniform(self.low, self.high)


def propose(
    seen: list[tuple[float, list[float], float, float]], at: float, score: float, seed: int
) -> list[float]:
    """Return the point of the unit cube with the largest upper confidence bound of the improvement.

    Args:
        seen: time, point, score before and improvement of each observation.
        at, score: the time and the score at which the point will be tried.
        seed: the seed of the candidates.
    """
    import numpy as np  # only PB2 needs it

    source = np.random.default_rng(seed)
    times = np.array([each[0] for each in seen], dtype=float)
    spread = max(float(np.ptp(times)), 1e-9)
    scores = np.array([each[2] for each in seen], dtype=float)
    around = max(float(scores.std()), 1e-9)
    points = np.column_stack(
        [np.array([each[1] for each in seen], dtype=float), (scores - scores.mean()) / around]
    )
    gains = np.array([each[3] for each in seen], dtype=float)
    gains = (gains - gains.mean()) / max(float(gains.std()), 1e-9)

    def kernel(one: Any, other: Any, when: Any, then: Any) -> Any:
        far = ((one[:, None, :] - other[None, :, :]) ** 2).sum(axis=2)
        return np.exp(-far / (2 * 0.3**2)) * 0.9 ** (
            np.abs(when[:, None] - then[None, :]) / spread * len(seen) ** 0.5
        )

    inner = kernel(points, points, times, times) + 0.1 * np.eye(len(seen))
    inverse = np.linalg.inv(inner)
    candidates = source.random((_CANDIDATES, points.shape[1] - 1))
    candidate_points = np.column_stack([candidates, np.full(_CANDIDATES, (score - scores.mean()) / around)])
    across = kernel(candidate_points, points, np.full(_CANDIDATES, at), times)
    mean = across @ inverse @ gains
    variance = np.maximum(1.0 - np.einsum("ij,jk,ik->i", across, inverse, across), 1e-9)
    best = int(np.argmax(mean + 1.96 * np.sqrt(variance)))
    found: list[float] = candidates[best].tolist()
    return found
