"""Specs of the modules that a configuration describes."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

from skate.rllib.algorithms.algorithm_config.fluent import FluentMethods
from skate.rllib.algorithms.algorithm_config.sizes import BatchSizes

DEFAULT_MODULE = "default_policy"


class ModuleSpecs(BatchSizes, FluentMethods):
    """The part of a configuration that says which networks there are."""

    @property
    def is_multi_agent(self) -> bool:
        """True if there are several modules, or one of another name than the default."""
        return list(self.policies) != [DEFAULT_MODULE]

    @property
    def model_config(self) -> dict[str, Any]:
        """The settings of networks: the algorithm's own, under what `rl_module(model_config=...)` has set."""
        given = self._model_config
        if dataclasses.is_dataclass(given) and not isinstance(given, type):
            given = dataclasses.asdict(given)
        return {**self._model_config_auto_includes, **self.model, **(given or {})}

    @property
    def _model_config_auto_includes(self) -> dict[str, Any]:
        return {}

    @property
    def rl_module_spec(self) -> Any:
        """The spec that `rl_module(rl_module_spec=...)` has set, over the algorithm's default."""
        default = self.get_default_rl_module_spec()
        given = self._rl_module_spec
        if given is None:
            return default
        if _is_multi(given):
            return given
        merged = dataclasses.replace(given)
        for name in ("module_class", "catalog_class"):
            if getattr(merged, name, None) is None:
                setattr(merged, name, getattr(default, name, None))
        return merged

    def get_default_rl_module_spec(self) -> Any:
        """Return the spec of the algorithm's default module.

        Raises:
            NotImplementedError: the algorithm has none.
        """
        raise NotImplementedError(
            f"{type(self).__name__} has no default module; set rl_module(rl_module_spec=...)"
        )

    def get_default_learner_class(self) -> Any:
        """Return the class of the algorithm's learner.

        Raises:
            NotImplementedError: the algorithm has none.
        """
        raise NotImplementedError(
            f"{type(self).__name__} has no default learner; set learners(learner_class=...)"
        )

    @property
    def learner_class(self) -> Any:
        """The class of learners."""
        return self._learner_class or self.get_default_learner_class()

    def get_rl_module_spec(
        self,
        env: Any = None,
        spaces: Mapping[str, Any] | None = None,
        inference_only: bool | None = None,
    ) -> Any:
        """Return the spec of the only module, with spaces and settings filled in.

        Args:
            env: an environment (a vector of them, or one) to take the spaces from.
            spaces: a dict with `default_policy: (observation_space, action_space)`, instead of an environment.
            inference_only: True for a module without the parts that only learning needs.

        Raises:
            ValueError: there are several modules.
        """
        spec = self.rl_module_spec
        if _is_multi(spec):
            if len(spec.rl_module_specs) != 1:
                raise ValueError(
                    f"there are several modules ({', '.join(spec.rl_module_specs)}); use get_multi_rl_module_spec"
                )
            spec = next(iter(spec.rl_module_specs.values()))
        policy, both = self.policies.get(DEFAULT_MODULE), self._spaces_of(DEFAULT_MODULE, env, spaces)
        made = self._filled(spec, DEFAULT_MODULE, policy, both)
        if inference_only is not None:
            made.inference_only = inference_only
        return made

    def get_multi_rl_module_spec(
        self,
        *,
        env: Any = None,
        spaces: Mapping[str, Any] | None = None,
        inference_only: bool = False,
        policy_dict: Mapping[str, Any] | None = None,
        single_agent_rl_module_spec: Any = None,
    ) -> Any:
        """Return the specs of all modules, with spaces and settings filled in.

        Args:
            env: an environment to take the spaces from.
            spaces: observation and action space of each module, or of `__env_single__` for all.
            inference_only: True for modules without the parts that only learning needs.
            policy_dict: the modules; None for those of the configuration.
            single_agent_rl_module_spec: a spec for modules that have no other.
        """
        # Imported here so that a configuration can be written without loading torch.
        from skate.rllib.core.rl_module.multi_rl_module import MultiRLModuleSpec

        given = self.rl_module_spec
        multi = given if _is_multi(given) else None
        common = single_agent_rl_module_spec or (self.get_default_rl_module_spec() if multi else given)
        names = list(policy_dict or (multi.rl_module_specs if multi else None) or self.policies)
        if multi and self.is_multi_agent:
            names = [*dict.fromkeys([*self.policies, *multi.rl_module_specs])]
        specs = {}
        for name in names:
            spec = (multi.rl_module_specs if multi else {}).get(name) or common
            if inference_only and spec.learner_only:
                continue
            policy = (policy_dict or self.policies).get(name)
            specs[name] = self._filled(spec, name, policy, self._spaces_of(name, env, spaces))
            if inference_only:
                specs[name].inference_only = True
        result = MultiRLModuleSpec(rl_module_specs=specs)
        for field in dataclasses.fields(multi) if multi else ():
            if field.name != "rl_module_specs":
                setattr(result, field.name, getattr(multi, field.name))
        return result

    def _filled(
        self,
        spec: Any,
        module_id: str,
        policy: Any,
        spaces: tuple[Any, Any],
    ) -> Any:
        spec = dataclasses.replace(spec)
        if spec.module_class is None:
            default = self.get_default_rl_module_spec()
            spec.module_class, spec.catalog_class = (
                default.module_class,
                spec.catalog_class or default.catalog_class,
            )
        observations, actions = spaces
        spec.observation_space = (
            spec.observation_space or getattr(policy, "observation_space", None) or observations
        )
        spec.action_space = spec.action_space or getattr(policy, "action_space", None) or actions
        spec.model_config = self._model_config_of(spec, module_id)
        return spec

    def _model_config_of(self, spec: Any, module_id: str) -> dict[str, Any]:
        """Return the settings of a module's networks: those of its spec over those of its config."""
        own = spec.model_config
        if dataclasses.is_dataclass(own) and not isinstance(own, type):
            own = dataclasses.asdict(own)
        return {**self.get_config_for_module(module_id).model_config, **(own or {})}

    def _spaces_of(self, module_id: str, env: Any, spaces: Mapping[str, Any] | None) -> tuple[Any, Any]:
        for name in (module_id, "__env_single__", "__env__"):
            if spaces and name in spaces:
                observations, actions = spaces[name]
                return observations, actions
        if env is None:
            return self.observation_space, self.action_space
        single = getattr(env, "single_observation_space", None)
        if single is not None:
            return self.observation_space or single, self.action_space or env.single_action_space
        observations, actions = env.observation_space, env.action_space
        by_agent = list((getattr(env, "observation_spaces", None) or {}).values())
        if observations is None and by_agent and all(each == by_agent[0] for each in by_agent):
            # Agents that are all alike, and one module for them.
            observations, actions = by_agent[0], actions or next(iter(env.action_spaces.values()))
        return self.observation_space or observations, self.action_space or actions

    def get_config_for_module(self, module_id: str) -> Any:
        """Return the configuration of one module: this one, with the module's own settings over it.

        A frozen configuration makes each of them once.
        """
        made = vars(self).get("_configs_of_modules") if self._is_frozen else None
        if made is not None and module_id in made:
            return made[module_id]
        own = self.algorithm_config_overrides_per_module.get(module_id)
        policy = self.policies.get(module_id)
        extra = getattr(policy, "config", None)
        if not own and not extra:
            return self
        config = self.copy(copy_frozen=False)
        for each in (extra, own):
            if each:
                config.update_from_dict(each)
        if self._is_frozen:
            config.freeze()
            vars(self).setdefault("_configs_of_modules", {})[module_id] = config
        return config


def _is_multi(spec: Any) -> bool:
    return hasattr(spec, "rl_module_specs")
