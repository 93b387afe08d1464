"""HyperOpt's tree of Parzen estimators."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from typing import Any

from skate.installed import missing
from skate.tune.search.flat_space import as_flat, flat_space, has_domains, no_space, undefined
from skate.tune.search.search_generator import nest
from skate.tune.search.searcher import Searcher
from skate.tune.space.domain import Categorical, Integer


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
        self._points = [as_flat(point) for point in points_to_evaluate or []]
        self._random = np.random.default_rng(random_state_seed)
        self._jobs: dict[str, tuple[int, Any]] = {}
        self._trials = hyperopt.Trials()
        self._space: Any = None
        self._domain: Any = None
        if space:
            self._set_space(self.convert_search_space(space) if has_domains(space) else space)

    def _set_space(self, space: Any) -> None:
        hyperopt = _hyperopt()
        self._space = space
        self._domain = hyperopt.Domain(_nothing, space)

    def set_search_properties(self, metric: Any, mode: Any, config: dict[str, Any], **spec: Any) -> bool:
        """Set metric, mode and space; False if the space is already set."""
        if self._domain is not None and has_domains(config):
            return False
        if self._domain is None:
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
        return nest(_plain(found)) if isinstance(found, Mapping) else found

    def _indexed(self, point: dict[str, Any]) -> dict[str, Any]:
        """Convert choices to HyperOpt's form: positions."""
        found = {}
        for name, value in point.items():
            node: Any = self._space.get(name) if isinstance(self._space, dict) else None
            if getattr(node, "name", "") == "switch":
                values = [each.obj if hasattr(each, "obj") else each for each in node.pos_args[1:]]
                found[name] = values.index(value)
            else:
                found[name] = value
        return found

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
        """Return HyperOpt's space for a space of ray.tune.

        Raises:
            ValueError: the space has a domain that HyperOpt does not support.
        """
        import numpy as np  # a dependency of HyperOpt

        hp = _hyperopt().hp
        found: dict[str, Any] = {}
        for short, flat in flat_space(spec, "HyperOptSearch").items():
            domain, name, q = flat.domain, f"{prefix}{short}", flat.q
            if isinstance(domain, Categorical):
                found[short] = hp.choice(name, domain.categories)
            elif flat.normal is not None:
                mean, sd = flat.normal.mean, flat.normal.sd
                found[short] = hp.qnormal(name, mean, sd, q) if q else hp.normal(name, mean, sd)
            elif isinstance(domain, Integer) and not flat.log and q is None:
                found[short] = hp.randint(name, domain.lower, domain.upper)
            elif flat.log:
                low, high = np.log(domain.lower), np.log(flat.highest)
                step = q or (1 if isinstance(domain, Integer) else None)
                found[short] = (
                    hp.qloguniform(name, low, high, step) if step else hp.loguniform(name, low, high)
                )
            else:
                found[short] = (
                    hp.quniform(name, domain.lower, flat.highest, q)
                    if q
                    else hp.uniform(name, domain.lower, domain.upper)
                )
            if isinstance(domain, Integer) and (flat.log or q is not None):
                found[short] = _hyperopt().pyll.scope.int(found[short])
        return found


def _nothing(config: Any) -> int:
    return 0


def _plain(found: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value.item() if hasattr(value, "item") else value for name, value in found.items()}
