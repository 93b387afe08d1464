"""HyperOpt's tree of Parzen estimators."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from typing import Any

from skate.installed import missing
from skate.tune.search.flat_space import Flat, as_flat, flat_space, has_domains, no_space, undefined
from skate.tune.search.search_generator import nest
from skate.tune.search.searcher import Searcher
from skate.tune.space.domain import Categorical, Domain, Integer
from skate.tune.space.variants import Path, grids_of, has_open, open_leaves


def _hyperopt() -> Any:
    try:
        import hyperopt  # loaded when a searcher is created
    except ImportError:
        raise missing("HyperOpt", "HyperOptSearch", "hyperopt") from None
    return hyperopt


class HyperOptSearch(Searcher):
    """Suggests configurations with HyperOpt.

    Args:
        space: a space of HyperOpt, or of ray.tune; the `param_space` by default.
        metric, mode: the objective.
        points_to_evaluate: configurations to try first.
        n_initial_points: the number of random draws before the model is used.
        random_state_seed: the seed of random draws.
        gamma: the fraction of results that counts as good.

    Raises:
        ImportError: HyperOpt is not installed.
        ValueError: the space has a domain that HyperOpt does not support.
    """

    def __init__(
        self,
        space: dict[str, Any] | None = None,
        metric: str | None = None,
        mode: str | None = None,
        points_to_evaluate: list[dict[str, Any]] | None = None,
        n_initial_points: int = 20,
        random_state_seed: int | None = None,
        gamma: float = 0.25,
    ) -> None:
        hyperopt = _hyperopt()
        import numpy as np  # a dependency of HyperOpt

        super().__init__(metric, mode)
        self._algo = functools.partial(hyperopt.tpe.suggest, n_startup_jobs=n_initial_points, gamma=gamma)
        self._points = list(points_to_evaluate or [])
        self._random = np.random.default_rng(random_state_seed)
        self._jobs: dict[str, tuple[int, Any]] = {}
        self._trials = hyperopt.Trials()
        self._space: Any = None
        self._tunes: dict[str, Any] | None = None  # the space, if it is one of ray.tune
        self._whole = bool(space)  # proposals of a space given here have its constants as well
        self._domain: Any = None
        if space:
            self._tunes = space if has_domains(space) else None
            self._set_space(self.convert_search_space(space) if has_domains(space) else space)

    def _set_space(self, space: Any) -> None:
        hyperopt = _hyperopt()
        self._space = space
        self._domain = hyperopt.Domain(_nothing, space)

    def set_search_properties(self, metric: Any, mode: Any, config: dict[str, Any], **spec: Any) -> bool:
        """Set metric, mode and space; False if the space is already set.

        Raises:
            RuntimeError: the space has only constants, or there is no mode.
        """
        if self._domain is not None and has_domains(config):
            return False
        if self._domain is None:
            if not has_domains(config):
                raise RuntimeError(
                    f"{no_space('HyperOptSearch')}. This issue can also come up with HyperOpt when all parameters are "
                    "constants: then leave out the searcher"
                )
            self._tunes = config
            self._set_space(self.convert_search_space(config))
        self._metric = self._metric or metric or "_metric"
        self._mode = self._mode or mode
        if self._mode is None:
            raise undefined("HyperOptSearch", self._metric, self._mode)
        return True

    def suggest(self, trial_id: str) -> dict[str, Any] | str | None:
        """Return HyperOpt's next proposal."""
        if self._domain is None:
            raise no_space("HyperOptSearch")
        if not self._metric or not self._mode:
            raise undefined("HyperOptSearch", self._metric, self._mode)
        hyperopt = _hyperopt()
        from hyperopt.fmin import generate_trials_to_calculate  # imported only if used

        if self._points:
            point = self._points.pop(0)
            seeded = generate_trials_to_calculate([self._indexed(point)])
            document = seeded._dynamic_trials[0]
            [tid] = self._trials.new_trial_ids(1)
            document["tid"] = tid
            document["misc"]["tid"] = tid
            document["misc"]["idxs"] = {name: [tid] for name in document["misc"]["vals"]}
        else:
            [tid] = self._trials.new_trial_ids(1)
            self._trials.refresh()
            [document] = self._algo([tid], self._domain, self._trials, int(self._random.integers(2**31 - 1)))
        self._trials.insert_trial_docs([document])
        self._trials.refresh()
        tid = document["tid"]
        self._jobs[trial_id] = (tid, document)
        config = hyperopt.base.spec_from_misc(document["misc"])
        control = hyperopt.base.Ctrl(self._trials, current_trial=document)
        memo = self._domain.memo_from_config(config)
        hyperopt.utils.use_obj_for_literal_in_memo(self._domain.expr, control, hyperopt.base.Ctrl, memo)
        found = hyperopt.pyll.rec_eval(self._domain.expr, memo=memo, print_node_on_error=False)
        if self._tunes is not None and not self._whole:
            leaves = list(open_leaves(self._tunes))
            return nest({"/".join(map(str, path)): _plain(_at(found, path)) for path, _ in leaves})
        return nest(_plain(found)) if isinstance(found, Mapping) else found

    def _indexed(self, point: dict[str, Any]) -> dict[str, Any]:
        """Convert a point to HyperOpt's form: flat, with the positions of choices.

        Raises:
            ValueError: the point lacks a parameter, or has a value that is no choice.
        """
        flat = as_flat(point)
        space = self._tunes if self._tunes is not None else self._space
        names = {"/".join(map(str, path)): path for path, _ in open_leaves(space)}
        if self._tunes is None:
            names.update((name, (name,)) for name in flat)
        found = {}
        for name, path in names.items():
            try:
                value = flat[name] if name in flat else _at(point, path)
            except (LookupError, TypeError):
                raise ValueError(
                    f"HyperOpt needs a value of each parameter in points_to_evaluate, but {name!r} is missing in {point!r:.200}"
                ) from None
            found[name] = self._position(name, path, value)
        return found

    def _position(self, name: str, path: Path, value: Any) -> Any:
        try:
            node: Any = _at(self._space, path)
        except (LookupError, TypeError):
            return value
        if getattr(node, "name", "") != "switch":
            return value
        choices = [getattr(each, "obj", each) for each in node.pos_args[1:]]
        for position, each in enumerate(choices):
            if each is value or each == value:
                return position
        raise ValueError(
            f"points_to_evaluate has {value!r:.80} for {name!r}, which is none of its choices: {choices!r:.200}"
        )

    def on_trial_result(self, trial_id: str, result: dict[str, Any]) -> None:
        """Mark the trial as running."""
        job = self._jobs.get(trial_id)
        if job is not None:
            job[1]["state"] = _hyperopt().JOB_STATE_RUNNING

    def on_trial_complete(
        self, trial_id: str, result: dict[str, Any] | None = None, error: bool = False
    ) -> None:
        """Pass the result to HyperOpt."""
        job = self._jobs.pop(trial_id, None)
        if job is None:
            return
        hyperopt = _hyperopt()
        document = next(each for each in self._trials._dynamic_trials if each["tid"] == job[0])
        value = (result or {}).get(self._metric)
        if error or value is None:
            document["state"] = hyperopt.JOB_STATE_ERROR
            document["misc"]["error"] = ("", "the trial failed")
        else:
            document["state"] = hyperopt.JOB_STATE_DONE
            document["result"] = {
                "loss": float(value) if self._mode == "min" else -float(value),
                "status": "ok",
            }
        self._trials.refresh()

    @staticmethod
    def convert_search_space(spec: dict[str, Any], prefix: str = "") -> dict[str, Any]:
        """Return HyperOpt's space for a space of ray.tune, with its constants. Choices may have domains within them.

        Raises:
            ValueError: the space has a domain that HyperOpt does not support.
        """
        flat_space(spec, "HyperOptSearch", nested=True)
        found: dict[str, Any] = _converted(spec, (prefix,) if prefix else ())
        return found


def _converted(space: Any, path: Path) -> Any:
    if isinstance(space, Domain):
        return _node("/".join(map(str, path)), Flat("/".join(map(str, path)), space), path)
    if not has_open(space):
        return space
    if isinstance(space, Mapping):
        return {name: _converted(value, (*path, name)) for name, value in space.items()}
    return [_converted(value, (*path, index)) for index, value in enumerate(space)]


def _node(name: str, flat: Flat, path: Path) -> Any:
    """Return HyperOpt's expression for a domain."""
    import numpy as np  # a dependency of HyperOpt

    hyperopt = _hyperopt()
    hp, whole = hyperopt.hp, hyperopt.pyll.scope.int
    domain, q = flat.domain, flat.q
    if isinstance(domain, Categorical):
        return hp.choice(
            name, [_choice(each, (*path, index)) for index, each in enumerate(domain.categories)]
        )
    if flat.normal is not None:
        mean, sd = flat.normal.mean, flat.normal.sd
        return hp.qnormal(name, mean, sd, q) if q else hp.normal(name, mean, sd)
    is_whole = isinstance(domain, Integer)
    if flat.log:
        low, high = np.log(domain.lower), np.log(flat.highest)
        step = q or (1 if is_whole else None)
        found = hp.qloguniform(name, low, high, step) if step else hp.loguniform(name, low, high)
        return whole(found) if is_whole else found
    if q:
        found = hp.quniform(name, domain.lower, flat.highest, q)
        return whole(found) if is_whole else found
    if is_whole:
        return hp.uniformint(name, domain.lower, flat.highest)
    return hp.uniform(name, domain.lower, domain.upper)


def _choice(category: Any, path: Path) -> Any:
    """Return HyperOpt's expression for a choice: one without domains is drawn as the object that it is."""
    if isinstance(category, Domain) or has_open(category):
        if grids_of(category):
            raise ValueError(
                f"HyperOptSearch does not support grids, but {'/'.join(map(str, path))!r} has one"
            )
        return _converted(category, path)
    return _hyperopt().pyll.Literal(category)


def _at(space: Any, path: Path) -> Any:
    for name in path:
        space = space[name]
    return space


def _nothing(config: Any) -> int:
    return 0


def _plain(found: Any) -> Any:
    """Convert numpy's numbers to Python's, also in nested values."""
    if isinstance(found, Mapping):
        return {name: _plain(value) for name, value in found.items()}
    return found.item() if hasattr(found, "item") and getattr(found, "ndim", 1) == 0 else found
