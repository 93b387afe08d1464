"""Processes of trials: actors, on placement groups if several bundles are requested, and reused if requested."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import skate
from skate.resources import Resources
from skate.train.run_session import with_preload
from skate.tune.execution.actor import TrialActor
from skate.tune.experiment.trial import Trial
from skate.tune.placement import PlacementGroupFactory
from skate.tune.trainable.session import TrialSpec
from skate.util.placement_group import remove_placement_group
from skate.util.scheduling_strategies import PlacementGroupSchedulingStrategy


class Process:
    """The actor of a trial."""

    __slots__ = ("actor", "group", "key")

    def __init__(self, actor: Any, group: Any, key: Any) -> None:
        self.actor, self.group, self.key = actor, group, key


class Processes:
    """Starts and ends the processes of trials.

    Args:
        reuse: keep the processes of ended trials for others with the same requirements.
        preload: modules to preload in the processes.
    """

    def __init__(self, reuse: bool, preload: Sequence[str] = ()) -> None:
        self.reuse = reuse
        self._environment = with_preload(None, preload)
        self._idle: dict[Any, list[Process]] = {}
        self._refs: dict[int, tuple[Any, Any]] = {}
        self._class: Any = None
        self._options: dict[Any, Any] = {}

    def trainable(self, trainable: Any) -> Any:
        """Return a ref to a trainable, which is put into the object store once."""
        found = self._refs.get(id(trainable))
        if found is None:
            found = self._refs[id(trainable)] = (trainable, skate.put(trainable))
        return found[1]

    def start(self, trial: Trial, spec: TrialSpec) -> Process:
        """Start a new process for a trial."""
        request = trial.placement_group_factory
        key = (id(trial.experiment.trainable), request)
        several = len(request.bundles) > 1 or request.strategy != "PACK"
        group = request.to_placement_group() if several and request.reserves else None
        remote = self._options.get(key) if group is None else None
        if remote is None:
            remote = self._with_options(request, group)
            if group is None:
                self._options[key] = remote
        actor = remote.remote(self.trainable(trial.experiment.trainable), spec)
        return Process(actor, group, key)

    def _with_options(self, request: PlacementGroupFactory, group: Any) -> Any:
        if self._class is None:
            self._class = skate.remote(TrialActor)
        own = request.head if group is not None or not request.head_bundle_is_empty else {}
        options = Resources(own).to_options()
        if self._environment is not None:
            options["runtime_env"] = self._environment
        if group is not None:
            options["scheduling_strategy"] = PlacementGroupSchedulingStrategy(
                placement_group=group,
                placement_group_bundle_index=-1 if request.head_bundle_is_empty else 0,
                placement_group_capture_child_tasks=True,
            )
        return self._class.options(**options)

    def take_idle(self, trial: Trial) -> Process | None:
        """Return an idle process of another trial with the same trainable and resources."""
        found = self._idle.get((id(trial.experiment.trainable), trial.placement_group_factory))
        return found.pop() if found else None

    def keep(self, process: Process) -> None:
        """Keep the process of a trial that has ended cleanly."""
        self._idle.setdefault(process.key, []).append(process)

    def end(self, process: Process) -> None:
        """End a process, regardless of its state."""
        skate.kill(process.actor)
        if process.group is not None:
            remove_placement_group(process.group)

    def close(self) -> None:
        """End all idle processes."""
        for kept in self._idle.values():
            for process in kept:
                self.end(process)
        self._idle.clear()
        self._refs.clear()
