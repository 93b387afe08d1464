"""Gives trials more resources during the search."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable
from typing import Any

from skate.resources import Resources
from skate.tune.experiment.trial import Trial
from skate.tune.placement import PlacementGroupFactory, request_of
from skate.tune.schedulers.trial_scheduler import FIFOScheduler, TrialScheduler


class DistributeResources:
    """Divides the resources of the cluster evenly among the trials that have not ended.

    Args:
        add_bundles: add whole bundles instead of enlarging them.
        increase_by: the step, such as {"CPU": 1}; by default the resources of a trial's bundle.
        increase_by_times: the most steps; -1 for no limit.
        reserve_resources: resources left for others.
    """

    def __init__(
        self,
        add_bundles: bool = False,
        increase_by: dict[str, float] | None = None,
        increase_by_times: int = -1,
        reserve_resources: dict[str, float] | None = None,
    ) -> None:
        self.add_bundles = add_bundles
        self.increase_by = dict(Resources(increase_by).without_zeros())
        self.increase_by_times = increase_by_times
        self.reserve_resources = reserve_resources or {}

    def _shares(self, controller: Any, trial: Trial) -> int:
        return max(1, len(controller.get_live_trials()))

    def __call__(
        self, tune_controller: Any, trial: Trial, result: dict[str, Any], scheduler: ResourceChangingScheduler
    ) -> PlacementGroupFactory | None:
        base = scheduler.base_trial_resources or trial.placement_group_factory
        step = Resources(self.increase_by or base.required_resources).without_zeros()
        if not step:
            return None
        total = tune_controller.total_resources()
        shares = self._shares(tune_controller, trial)
        share = (Resources(total) - self.reserve_resources) * (1 / shares)
        return self._grown(base, step, share - base.required_resources)

    def _grown(self, base: PlacementGroupFactory, step: Resources, spare: Resources) -> PlacementGroupFactory:
        most = self.increase_by_times if self.increase_by_times >= 0 else sys.maxsize
        count = step.times(spare, most) if step else 0
        bundles = base.bundles
        if self.add_bundles:
            bundles += [dict(step) for _ in range(count)]
        else:
            bundles[0] = dict(Resources(bundles[0]) + step * count)
        head: list[dict[str, float]] = [{}] if base.head_bundle_is_empty else []
        return PlacementGroupFactory([*head, *bundles], base.strategy)


class DistributeResourcesToTopJob(DistributeResources):
    """Gives all spare resources to the best trial.

    Args:
        metric, mode: compare trials; those of the scheduler by default.
        add_bundles, increase_by, increase_by_times, reserve_resources: as in `DistributeResources`.
    """

    def __init__(
        self,
        add_bundles: bool = False,
        increase_by: dict[str, float] | None = None,
        increase_by_times: int = -1,
        reserve_resources: dict[str, float] | None = None,
        metric: str | None = None,
        mode: str | None = None,
    ) -> None:
        super().__init__(add_bundles, increase_by, increase_by_times, reserve_resources)
        self.metric, self.mode = metric, mode

    def __call__(
        self, tune_controller: Any, trial: Trial, result: dict[str, Any], scheduler: ResourceChangingScheduler
    ) -> PlacementGroupFactory | None:
        metric = self.metric or scheduler.metric or "_metric"
        mode = self.mode or scheduler._base._mode
        known = [
            (history.last, each)
            for each in tune_controller.get_live_trials()
            if (history := each.histories.by_name.get(metric)) is not None
        ]
        base = scheduler.base_trial_resources or trial.placement_group_factory
        if not known:
            return None
        best = (min if mode == "min" else max)(known, key=lambda each: each[0])[1]
        if best is not trial:
            return base
        step = Resources(self.increase_by or base.required_resources).without_zeros()
        held = Resources.total(
            each.placement_group_factory.required_resources
            for each in tune_controller.get_live_trials()
            if each is not trial
        )
        spare = Resources(tune_controller.total_resources()) - held - self.reserve_resources
        return self._grown(base, step, spare - base.required_resources)


Allocation = Callable[[Any, Trial, dict[str, Any], "ResourceChangingScheduler"], Any]


class ResourceChangingScheduler(TrialScheduler):
    """Wraps another scheduler, and changes the resources of trials between two results; they continue from a
    checkpoint.

    Args:
        base_scheduler: decides which trials continue; all by default.
        resources_allocation_function: called with the search, a trial, its result and this; returns the new
            resources, or None.

    Raises:
        TypeError: the base is not a scheduler, or is one of these.
    """

    reuses_actors = False

    def __init__(
        self,
        base_scheduler: TrialScheduler | None = None,
        resources_allocation_function: Allocation | None = DistributeResources(),
    ) -> None:
        self._base = base_scheduler or FIFOScheduler()
        if not isinstance(self._base, TrialScheduler) or isinstance(self._base, ResourceChangingScheduler):
            raise TypeError(
                f"base_scheduler must be another kind of TrialScheduler, got {type(base_scheduler).__name__}"
            )
        if resources_allocation_function is None:
            warnings.warn(
                "`resources_allocation_function` is None. No resource requirements will be changed at any time: pass a function "
                "such as DistributeResources()",
                stacklevel=2,
            )
        self._allocate = resources_allocation_function
        self._base_trial_resources: PlacementGroupFactory | None = None

    @property
    def metric(self) -> str | None:
        """The metric of the base scheduler."""
        return self._base.metric

    @property
    def base_trial_resources(self) -> PlacementGroupFactory | None:
        """The resources of trials before any change."""
        return self._base_trial_resources

    def set_search_properties(self, metric: str | None, mode: str | None, **spec: Any) -> bool:
        """Pass the metric and mode to the base scheduler."""
        return self._base.set_search_properties(metric, mode, **spec)

    def on_trial_add(self, tune_controller: Any, trial: Trial, **kwargs: Any) -> None:
        """Add a trial.

        Raises:
            RuntimeError: it requests other resources than the first one.
        """
        request = trial.placement_group_factory
        if self._base_trial_resources is None:
            self._base_trial_resources = request
        elif request != self._base_trial_resources and not trial.results:
            raise RuntimeError(
                "ResourceChangingScheduler doesn't support trials with varying base resources. First trial had "
                f"{self._base_trial_resources}, trial {trial} has {request}"
            )
        self._base.on_trial_add(tune_controller, trial)

    def on_trial_error(self, tune_controller: Any, trial: Trial, **kwargs: Any) -> None:
        """Handle a failed trial."""
        self._base.on_trial_error(tune_controller, trial)

    def on_trial_result(self, tune_controller: Any, trial: Trial, result: dict[str, Any]) -> str:
        """Return the base scheduler's decision; a continuing trial that gets other resources is paused for that."""
        decision = self._base.on_trial_result(tune_controller, trial, result)
        if decision != TrialScheduler.CONTINUE:
            return decision
        wanted = self.reallocate_trial_resources_if_needed(tune_controller, trial, result)
        if wanted is None:
            return decision
        tune_controller.pause_trial(trial)
        self.set_trial_resources(trial, wanted)
        return TrialScheduler.NOOP

    def on_trial_complete(
        self, tune_controller: Any, trial: Trial, result: dict[str, Any], **kwargs: Any
    ) -> None:
        """Handle a trial that has ended."""
        self._base.on_trial_complete(tune_controller, trial, result)

    def on_trial_remove(self, tune_controller: Any, trial: Trial, **kwargs: Any) -> None:
        """Handle a removed trial."""
        self._base.on_trial_remove(tune_controller, trial)

    def choose_trial_to_run(self, tune_controller: Any, **kwargs: Any) -> Trial | None:
        """Return the base scheduler's choice."""
        return self._base.choose_trial_to_run(tune_controller)

    def set_trial_resources(self, trial: Trial, new_resources: Any) -> bool:
        """Change a trial's resource request; return True if it differs."""
        wanted = request_of(new_resources, trial.config)
        if wanted == trial.placement_group_factory:
            return False
        trial.placement_group_factory = wanted
        return True

    def reallocate_trial_resources_if_needed(
        self, tune_controller: Any, trial: Trial, result: dict[str, Any]
    ) -> Any:
        """Return the new resources of a trial; None if nothing changes."""
        if self._allocate is None:
            return None
        wanted = self._allocate(tune_controller, trial, result, self)
        if wanted is None:
            return None
        wanted = request_of(wanted, trial.config)
        return None if wanted == trial.placement_group_factory else wanted

    def debug_string(self) -> str:
        """Describe the base scheduler."""
        return f"(ResourceChangingScheduler) {self._base.debug_string()}"
