"""Modules that come and go while an algorithm trains, as in self-play against earlier versions."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from skate.rllib.policy.policy import PolicySpec


class ModuleChanges:
    """The part of an algorithm that adds and removes modules."""

    config: Any
    learner_group: Any
    env_runner_group: Any
    evaluation: Any

    if TYPE_CHECKING:

        @property
        def eval_env_runner_group(self) -> Any: ...

        def _next_weights(self) -> None: ...

    def add_module(
        self,
        module_id: str,
        module_spec: Any,
        *,
        config_overrides: Mapping[str, Any] | None = None,
        new_agent_to_module_mapping_fn: Callable[..., str] | None = None,
        new_should_module_be_updated: Any = None,
        add_to_learners: bool = True,
        add_to_env_runners: bool = True,
        add_to_eval_env_runners: bool = True,
    ) -> Any:
        """Add a module to an algorithm with several modules.

        Episodes that have begun keep the modules that their agents have.

        Args:
            module_id: Its id.
            module_spec: How to build it, with its spaces; `RLModuleSpec.from_module` makes one like another module.
            config_overrides: Settings for this module alone.
            new_agent_to_module_mapping_fn: The module of an agent from the next episodes on; default as before.
            new_should_module_be_updated: Ids of the modules to update from now on, or a function that decides.
            add_to_learners: False to leave out the learners.
            add_to_env_runners: False to leave out the runners.
            add_to_eval_env_runners: False to leave out the runners of evaluation.

        Returns:
            The spec of all modules.

        Raises:
            RuntimeError: The algorithm has one module without an id.
            ValueError: The id is taken, or the module would be nowhere.
        """
        self._check_place(module_id, add_to_learners or add_to_env_runners or add_to_eval_env_runners)
        settings = self.config._model_config_of(module_spec, module_id)  # as a runner made anew has them
        module_spec = dataclasses.replace(module_spec, model_config=settings)
        specs = None
        if add_to_learners:
            specs = self.learner_group.add_module(
                module_id=module_id,
                module_spec=module_spec,
                config_overrides=config_overrides,
                new_should_module_be_updated=new_should_module_be_updated,
            )
        changes = _changes(new_agent_to_module_mapping_fn, new_should_module_be_updated)
        name = "algorithm_config_overrides_per_module"
        own = {name: {module_id: dict(config_overrides)}} if config_overrides else {}
        for each in self._configs(add_to_eval_env_runners):
            with each.thawed() as config:
                config.multi_agent(policies={**config.policies, module_id: PolicySpec()}, **changes, **own)
                config.rl_module(rl_module_spec=specs) if specs is not None else None
        acting = dataclasses.replace(module_spec, inference_only=True)

        def add(runner: Any) -> Any:
            runner.module.add_module(module_id, acting.build())
            _note(runner, changes)
            return type(specs).from_module(runner.module) if specs is not None else None

        self._in_runners(add, add_to_env_runners, add_to_eval_env_runners)
        return specs

    def _check_place(self, module_id: str, is_somewhere: bool) -> None:
        """Raise an error if this algorithm has no modules by id, or none of its parts is to have the new one."""
        if not self.config.is_multi_agent:
            raise RuntimeError(
                f"add_module({module_id!r}) needs an algorithm with several modules; name them with "
                ".multi_agent(policies={...}, policy_mapping_fn=...)"
            )
        if not is_somewhere:
            raise ValueError(f"module {module_id!r} would be added nowhere; set one of the add_to_ arguments")

    def remove_module(
        self,
        module_id: str,
        *,
        new_agent_to_module_mapping_fn: Callable[..., str] | None = None,
        new_should_module_be_updated: Any = None,
        remove_from_learners: bool = True,
        remove_from_env_runners: bool = True,
        remove_from_eval_env_runners: bool = True,
    ) -> Any:
        """Remove a module; episodes that have begun are dropped.

        Args:
            module_id: Its id.
            new_agent_to_module_mapping_fn: The module of an agent from now on; default as before.
            new_should_module_be_updated: Ids of the modules to update from now on, or a function that decides.
            remove_from_learners: False to leave it in the learners.
            remove_from_env_runners: False to leave it in the runners.
            remove_from_eval_env_runners: False to leave it in the runners of evaluation.

        Returns:
            The spec of the modules that are left.
        """
        specs = None
        if remove_from_learners:
            specs = self.learner_group.remove_module(
                module_id, new_should_module_be_updated=new_should_module_be_updated
            )
        changes = _changes(new_agent_to_module_mapping_fn, new_should_module_be_updated)
        for each in self._configs(remove_from_eval_env_runners):
            with each.thawed() as config:
                left = {name: policy for name, policy in config.policies.items() if name != module_id}
                config.multi_agent(policies=left, **changes)
                if specs is not None:
                    config.rl_module(rl_module_spec=specs)

        def remove(runner: Any) -> None:
            runner.module.remove_module(module_id)
            _note(runner, changes)
            runner._needs_initial_reset = True

        self._in_runners(remove, remove_from_env_runners, remove_from_eval_env_runners)
        return specs

    def _configs(self, evaluating: bool) -> list[Any]:
        """Return the configurations that runners are made anew from: that of training, and that of evaluation."""
        ours = self.evaluation.config if evaluating and self.eval_env_runner_group is not None else None
        return [self.config] if ours is None or ours is self.config else [self.config, ours]

    def _in_runners(self, change: Callable[[Any], Any], training: bool, evaluating: bool) -> None:
        """Change the modules of runners, and send all runners the weights."""

        def changed(runner: Any) -> None:
            if runner.module is not None:
                change(runner)

        if training:
            self.env_runner_group.foreach_env_runner(changed)
        if evaluating and self.eval_env_runner_group is not None:
            self.eval_env_runner_group.foreach_env_runner(changed)
        self._next_weights()


def _changes(mapping: Callable[..., str] | None, updated: Any) -> dict[str, Any]:
    found = {"policy_mapping_fn": mapping, "policies_to_train": updated}
    return {name: value for name, value in found.items() if value is not None}


def _note(runner: Any, changes: dict[str, Any]) -> None:
    if changes:
        with runner.config.thawed() as config:
            config.multi_agent(**changes)
