"""Random draws and grids."""

from __future__ import annotations

import base64
import glob
import json
import os
import pickle
import uuid
from collections.abc import Iterator
from typing import Any

from skate.tune.experiment.experiment import experiments_of
from skate.tune.search.search_algorithm import SearchAlgorithm
from skate.tune.space import variants
from skate.tune.space.variants import Path, assigned, copied, format_vars, generate_variants


class BasicVariantGenerator(SearchAlgorithm):
    """Runs all grid points of a space `num_samples` times and draws everything else each time.

    Args:
        points_to_evaluate: configurations, or parts of them, to try first.
        max_concurrent: the most trials at a time; 0 for as many as resources allow.
        constant_grid_search: draw once for all points of the grids.
        random_state: a seed or a numpy generator; by default one seeded from numpy's global generator.
    """

    CKPT_FILE_TMPL = "basic-variant-state-{}.json"

    def __init__(
        self,
        points_to_evaluate: list[dict[str, Any]] | None = None,
        max_concurrent: int = 0,
        constant_grid_search: bool = False,
        random_state: Any = None,
    ) -> None:
        self.points_to_evaluate = list(points_to_evaluate or [])
        for point in self.points_to_evaluate:
            if not isinstance(point, dict):
                raise ValueError(
                    f"points_to_evaluate must be a list of configurations, each a dict, got {point!r:.80}"
                )
        self.max_concurrent = max_concurrent
        self.constant_grid_search = constant_grid_search
        self._random_state = random_state
        self._made = 0
        self._total = 0
        self._live: set[str] = set()
        self._prefix = uuid.uuid4().hex[:5]
        self._seed: Any = None
        self._variants: Iterator[tuple[Any, dict[Path, Any], dict[str, Any]]] | None = None
        self._experiments: list[Any] = []

    @property
    def total_samples(self) -> int:
        """The total number of trials."""
        return self._total

    def add_configurations(self, experiments: Any) -> None:
        """Add experiments to create trials from.

        Raises:
            ValueError: grids cannot be combined with an unlimited number of samples.
        """
        for experiment in experiments_of(experiments):
            self._experiments.append(experiment)
            space = experiment.config
            grid = variants.count(space)
            points = [_with_point(space, point) for point in self.points_to_evaluate]
            samples = experiment.num_samples
            if samples < 0:
                self._total = 2**31
                continue
            rest = max(0, samples - len(points))
            self._total += sum(variants.count(point) for point in points[:samples]) + rest * grid
        if self._variants is None:
            self._variants = self._all()

    def _generator(self) -> Any:
        """Return the random generator; created on first use, because numpy takes time to load."""
        if self._seed is None:
            import numpy as np  # imported only if used

            given = self._random_state
            if given is None:
                given = int(np.random.randint(2**31))
            self._seed = np.random.default_rng(given) if isinstance(given, int) else given
        return self._seed

    def _all(self) -> Iterator[tuple[Any, dict[Path, Any], dict[str, Any]]]:
        for experiment in list(self._experiments):
            space = experiment.config
            source = self._generator() if _draws(space) else None
            count = experiment.num_samples
            for number in range(count) if count >= 0 else iter(int, 1):
                if number < len(self.points_to_evaluate) and count >= 0:
                    given = _with_point(space, self.points_to_evaluate[number])
                else:
                    given = space
                for found, config in generate_variants(given, self.constant_grid_search, source):
                    yield experiment, found, config

    def next_trial(self) -> Any:
        """Return the next trial; None if there is none now."""
        if self.max_concurrent and len(self._live) >= self.max_concurrent:
            return None
        made = self._next()
        if made is None:
            return None
        experiment, found, config = made
        number = self._made - 1
        trial_id = f"{self._prefix}_{number:05d}"
        tag = f"{number}_{format_vars(found)}".rstrip("_")
        self._live.add(trial_id)
        return experiment.trial(config, trial_id, tag, variants.resolved_names(found))

    def _next(self) -> Any:
        if self._finished or self._variants is None:
            return None
        made = next(self._variants, None)
        if made is None:
            self._finished = True
            return None
        self._made += 1
        return made

    def on_trial_complete(
        self, trial_id: str, result: dict[str, Any] | None = None, error: bool = False
    ) -> None:
        """Record the end of a trial; another may start."""
        self._live.discard(trial_id)

    def replay(self, trial_id: str, number: int) -> None:
        """Repeat the creation of trials up to this number, of which `trial_id` is the last."""
        self._prefix = trial_id.rpartition("_")[0] or self._prefix
        while self._made <= number and self._next() is not None:
            pass
        self._live.add(trial_id)

    # -- save and restore

    def get_state(self) -> dict[str, Any]:
        """Return the number of created trials and the prefix of their ids."""
        return {"made": self._made, "prefix": self._prefix, "live": sorted(self._live)}

    def set_state(self, state: dict[str, Any]) -> None:
        """Restore a saved state by repeating the draws since the start."""
        self._prefix = state["prefix"]
        while self._made < state["made"] and self._next() is not None:
            pass
        self._live = set(state["live"])

    def begin_state(self) -> str | None:
        """The random state of the first draw, so that a restored search draws the same; None if nothing is drawn."""
        if not any(_draws(experiment.config) for experiment in self._experiments):
            return None
        return base64.b64encode(pickle.dumps(self._generator())).decode()

    def set_begin_state(self, state: str | None) -> None:
        """Use the initial random state of another generator."""
        if state is not None:
            self._seed = pickle.loads(base64.b64decode(state))

    def save_to_dir(self, dirpath: str, session_str: str = "default", **kwargs: Any) -> None:
        """Save the state to a folder."""
        path = os.path.join(dirpath, self.CKPT_FILE_TMPL.format(session_str))
        with open(path + ".writing", "w") as file:
            json.dump(self.get_state(), file)
        os.replace(path + ".writing", path)

    def has_checkpoint(self, dirpath: str) -> bool:
        """True if a folder has a saved state."""
        return bool(self._states(dirpath))

    def _states(self, dirpath: str) -> list[str]:
        found = glob.glob(os.path.join(dirpath, self.CKPT_FILE_TMPL.format("*")))
        return sorted(found, key=os.path.getmtime)

    def restore_from_dir(self, dirpath: str) -> None:
        """Load the newest state from a folder.

        Raises:
            RuntimeError: there is none.
        """
        found = self._states(dirpath)
        if not found:
            raise RuntimeError(f"there is no saved state of a BasicVariantGenerator in {dirpath!r}")
        with open(found[-1]) as file:
            self.set_state(json.load(file))


def _draws(space: Any) -> bool:
    return any(not isinstance(leaf, dict) for _, leaf in variants.open_leaves(space)) or any(
        _draws(value)
        for _, leaf in variants.open_leaves(space)
        if isinstance(leaf, dict)
        for value in leaf["grid_search"]
    )


def _with_point(space: dict[str, Any], point: dict[str, Any]) -> dict[str, Any]:
    found = copied(space)
    for name, value in point.items():
        path: Path = (name,) if name in space or "/" not in name else tuple(name.split("/"))
        if path[0] not in space:
            raise ValueError(
                f"points_to_evaluate has a value for {name!r}, but the search space has only "
                f"{', '.join(map(repr, space)) or 'no parameters'}; add it to param_space"
            )
        nested = (
            isinstance(value, dict)
            and isinstance(found.get(name), dict)
            and not variants.is_grid(found[name])
        )
        if nested:
            found[name] = _with_point(found[name], value)
        elif len(path) == 1:
            found[name] = value
        else:
            found = assigned(found, path, value)
    return dict(found)
