"""MultiRLModule: modules by id, one per policy; MultiRLModuleSpec builds one."""

from __future__ import annotations

import copy
import dataclasses
import pprint
from collections.abc import Callable, Collection, ItemsView, Iterator, KeysView, ValuesView
from typing import Any, TypeVar

from skate.rllib.core.rl_module.rl_module import RLModule, RLModuleSpec
from skate.rllib.utils.serialization import (
    deserialize_type,
    gym_space_from_dict,
    gym_space_to_dict,
    serialize_type,
)

T = TypeVar("T")


class MultiRLModule(RLModule):
    """Modules by id. Batches and outputs of its forward methods are dicts by module id.

    Args:
        observation_space: Taken for subclasses that need it.
        action_space: Taken for subclasses that need it.
        inference_only: Build all modules without what only training needs. Default: if all specs are so.
        learner_only: Exists on learners only.
        model_config: Taken for subclasses that need it.
        rl_module_specs: One spec per module id.
    """

    def __init__(
        self,
        config: Any = None,
        *,
        observation_space: Any = None,
        action_space: Any = None,
        inference_only: bool | None = None,
        learner_only: bool | None = None,
        model_config: Any = None,
        rl_module_specs: dict[str, RLModuleSpec] | None = None,
        **kwargs: Any,
    ) -> None:
        specs = {module_id: copy.copy(spec) for module_id, spec in (rl_module_specs or {}).items()}
        for module_id, spec in specs.items():
            if not isinstance(spec, RLModuleSpec):
                raise ValueError(
                    f"the spec of module {module_id!r} is a {type(spec).__name__}, not an RLModuleSpec"
                )
        if inference_only is None:
            inference_only = all(spec.inference_only for spec in specs.values())
        for spec in specs.values():
            spec.inference_only = spec.inference_only or inference_only
        self.rl_module_specs = specs
        super().__init__(
            config,
            observation_space=observation_space,
            action_space=action_space,
            inference_only=inference_only,
            learner_only=bool(learner_only),
            model_config=model_config,
            **kwargs,
        )

    def setup(self) -> None:
        self._rl_modules: dict[str, Any] = {}
        for module_id, spec in self.rl_module_specs.items():
            module = spec.build()
            self._check_framework(module_id, module)
            self._rl_modules[module_id] = module

    def _check_framework(self, module_id: str, module: Any) -> None:
        if self.framework is None:
            self.framework = module.framework
        elif module.framework not in (None, self.framework):
            raise ValueError(
                f"module {module_id!r} is of framework {module.framework!r}, but the others are of {self.framework!r}"
            )

    def _forward(self, batch: dict[str, Any], **kwargs: Any) -> dict[str, Any]:
        return {i: self._rl_modules[i]._forward(batch[i], **kwargs) for i in batch if i in self._rl_modules}

    def _forward_inference(self, batch: dict[str, Any], **kwargs: Any) -> dict[str, Any]:
        return {
            i: self._rl_modules[i].forward_inference(batch[i], **kwargs)
            for i in batch
            if i in self._rl_modules
        }

    def _forward_exploration(self, batch: dict[str, Any], **kwargs: Any) -> dict[str, Any]:
        return {
            i: self._rl_modules[i].forward_exploration(batch[i], **kwargs)
            for i in batch
            if i in self._rl_modules
        }

    def _forward_train(self, batch: dict[str, Any], **kwargs: Any) -> dict[str, Any]:
        return {
            i: self._rl_modules[i].forward_train(batch[i], **kwargs) for i in batch if i in self._rl_modules
        }

    def get_initial_state(self) -> Any:
        return {module_id: module.get_initial_state() for module_id, module in self._rl_modules.items()}

    def is_stateful(self) -> bool:
        return any(module.is_stateful() for module in self._rl_modules.values())

    def add_module(self, module_id: str, module: Any, *, override: bool = False) -> None:
        """Add a module.

        Args:
            module_id: Its id.
            module: The module.
            override: Replace a module that has the id already.

        Raises:
            ValueError: the id is taken.
        """
        if module_id in self._rl_modules and not override:
            raise ValueError(f"module {module_id!r} exists already; pass override=True to replace it")
        self._check_framework(module_id, module)
        if not module.inference_only:
            self.inference_only = False
        self._rl_modules[module_id] = module
        self.rl_module_specs[module_id] = RLModuleSpec.from_module(module.unwrapped())

    def remove_module(self, module_id: str, *, raise_err_if_not_found: bool = True) -> None:
        """Remove a module.

        Args:
            module_id: Its id.
            raise_err_if_not_found: Raise KeyError if no module has the id.
        """
        if raise_err_if_not_found:
            self[module_id]
        self._rl_modules.pop(module_id, None)
        self.rl_module_specs.pop(module_id, None)

    def foreach_module(
        self, func: Callable[..., T], *, return_dict: bool = False, **kwargs: Any
    ) -> list[T] | dict[str, T]:
        """Call ``func(module_id, module, **kwargs)`` for every module.

        Args:
            func: The function.
            return_dict: Return the results by module id, not as a list.
        """
        results = {i: func(i, module.unwrapped(), **kwargs) for i, module in self._rl_modules.items()}
        return results if return_dict else list(results.values())

    def __contains__(self, item: object) -> bool:
        return item in self._rl_modules

    def __getitem__(self, module_id: str) -> Any:
        try:
            return self._rl_modules[module_id]
        except KeyError:
            known = ", ".join(map(repr, self._rl_modules)) or "none"
            raise KeyError(f"no module {module_id!r}; there are {known}") from None

    def __iter__(self) -> Iterator[str]:
        return iter(self._rl_modules)

    def get(self, module_id: str, default: Any = None) -> Any:
        """Return the module of an id, or the default."""
        return self._rl_modules.get(module_id, default)

    def items(self) -> ItemsView[str, Any]:
        """Return pairs of id and module."""
        return self._rl_modules.items()

    def keys(self) -> KeysView[str]:
        """Return the ids."""
        return self._rl_modules.keys()

    def values(self) -> ValuesView[Any]:
        """Return the modules."""
        return self._rl_modules.values()

    def __len__(self) -> int:
        return len(self._rl_modules)

    def __repr__(self) -> str:
        return f"MultiRLModule({pprint.pformat(self._rl_modules)})"

    def get_state(
        self,
        components: str | Collection[str] | None = None,
        *,
        not_components: str | Collection[str] | None = None,
        inference_only: bool = False,
        **kwargs: Any,
    ) -> dict[str, Any]:
        return {
            module_id: module.get_state(
                components=self._get_subcomponents(module_id, components),
                not_components=self._get_subcomponents(module_id, not_components),
                inference_only=inference_only,
            )
            for module_id, module in self._rl_modules.items()
            if self._check_component(module_id, components, not_components)
        }

    def set_state(self, state: dict[str, Any]) -> None:
        for module_id, module_state in state.items():
            if module_id in self:
                self._rl_modules[module_id].set_state(module_state)

    def get_ctor_args_and_kwargs(self) -> tuple[tuple[Any, ...], dict[str, Any]]:
        return (), {
            "observation_space": self.observation_space,
            "action_space": self.action_space,
            "inference_only": self.inference_only,
            "learner_only": self.learner_only,
            "model_config": self.model_config,
            "rl_module_specs": self.rl_module_specs,
        }

    def get_checkpointable_components(self) -> list[tuple[str, Any]]:
        return list(self._rl_modules.items())

    def as_multi_rl_module(self) -> MultiRLModule:
        return self


@dataclasses.dataclass
class MultiRLModuleSpec:
    """Everything that is needed to build the modules of all policies.

    Args:
        multi_rl_module_class: The class that holds the modules.
        observation_space: Passed to that class.
        action_space: Passed to that class.
        inference_only: Leave out what only training needs. Default: if all specs do.
        model_config: Passed to that class.
        rl_module_specs: One spec per module id.
        load_state_path: Folder of a saved MultiRLModule whose state is loaded after building.
        modules_to_load: Ids of the modules to load from there. Default: all.

    Raises:
        ValueError: ``rl_module_specs`` is no dict.
    """

    multi_rl_module_class: Any = MultiRLModule
    observation_space: Any = None
    action_space: Any = None
    inference_only: bool | None = None
    model_config: Any = None
    rl_module_specs: dict[str, RLModuleSpec] | None = None
    load_state_path: str | None = None
    modules_to_load: set[str] | None = None
    #: An older name of rl_module_specs, for programs that read it.
    module_specs: Any = None

    def __post_init__(self) -> None:
        if not isinstance(self.rl_module_specs, dict):
            raise ValueError(
                "rl_module_specs of MultiRLModuleSpec must be a dict of RLModuleSpecs by module id, not "
                f"{type(self.rl_module_specs).__name__}; for one module pass the RLModuleSpec itself"
            )
        if self.inference_only is None:
            self.inference_only = all(spec.inference_only for spec in self.rl_module_specs.values())
        self.module_specs = self.rl_module_specs

    @property
    def specs(self) -> dict[str, RLModuleSpec]:
        """The specs by module id."""
        assert self.rl_module_specs is not None
        return self.rl_module_specs

    def build(self, module_id: str | None = None) -> Any:
        """Build all modules.

        Args:
            module_id: Build only this one and return it alone.

        Returns:
            An instance of ``multi_rl_module_class``.
        """
        if module_id is not None:
            return self.specs[module_id].build()
        config = self.model_config
        if dataclasses.is_dataclass(config) and not isinstance(config, type):
            config = dataclasses.asdict(config)
        return self.multi_rl_module_class(
            observation_space=self.observation_space,
            action_space=self.action_space,
            inference_only=self.inference_only,
            model_config=config,
            rl_module_specs=self.specs,
        )

    def add_modules(self, module_specs: dict[str, RLModuleSpec], override: bool = True) -> None:
        """Add specs.

        Args:
            module_specs: Specs by module id.
            override: Replace specs whose ids exist; else update these with the new ones.
        """
        for module_id, spec in module_specs.items():
            if override or module_id not in self.specs:
                self.inference_only = bool(self.inference_only) and spec.inference_only
                self.specs[module_id] = spec
            else:
                self.specs[module_id].update(spec)

    def remove_modules(self, module_ids: str | Collection[str]) -> None:
        """Remove the specs of the given module ids."""
        for module_id in [module_ids] if isinstance(module_ids, str) else module_ids:
            self.specs.pop(module_id, None)

    @classmethod
    def from_module(cls, module: Any) -> MultiRLModuleSpec:
        """Return a spec that builds modules like those of the given MultiRLModule."""
        return cls(
            multi_rl_module_class=type(module),
            observation_space=module.observation_space,
            action_space=module.action_space,
            inference_only=module.inference_only,
            model_config=module.model_config or None,
            rl_module_specs={i: RLModuleSpec.from_module(m.unwrapped()) for i, m in module.items()},
        )

    def to_dict(self) -> dict[str, Any]:
        """Return this spec as a dict of plain values; see `RLModuleSpec.to_dict`."""
        return {
            "multi_rl_module_class": serialize_type(self.multi_rl_module_class),
            "observation_space": gym_space_to_dict(self.observation_space),
            "action_space": gym_space_to_dict(self.action_space),
            "inference_only": self.inference_only,
            "model_config": self.model_config,
            "rl_module_specs": {module_id: spec.to_dict() for module_id, spec in self.specs.items()},
        }

    @classmethod
    def from_dict(cls, d: dict[str, Any]) -> MultiRLModuleSpec:
        """Return the spec that `to_dict` made a dict of.

        Args:
            d: The dict.

        Raises:
            ValueError: It names a class that does not exist.
        """
        return cls(
            multi_rl_module_class=deserialize_type(d["multi_rl_module_class"], error=True),
            observation_space=gym_space_from_dict(d.get("observation_space")),
            action_space=gym_space_from_dict(d.get("action_space")),
            inference_only=d["inference_only"],
            model_config=d.get("model_config"),
            rl_module_specs={
                module_id: RLModuleSpec.from_dict(spec) for module_id, spec in d["rl_module_specs"].items()
            },
        )

    def update(self, other: MultiRLModuleSpec | RLModuleSpec, override: bool = False) -> None:
        """Take over what another spec has set.

        Args:
            other: A spec of all modules, or of one that fills in every module's.
            override: Replace specs of the same ids.
        """
        if isinstance(other, RLModuleSpec):
            for spec in self.specs.values():
                spec.update(other, override=False)
            self.inference_only = bool(self.inference_only) and other.inference_only
        else:
            self.add_modules(other.specs, override=override)

    def as_multi_rl_module_spec(self) -> MultiRLModuleSpec:
        """Return this spec."""
        return self

    def __contains__(self, item: object) -> bool:
        return item in self.specs

    def __getitem__(self, item: str) -> RLModuleSpec:
        return self.specs[item]


RLModule._multi_class = MultiRLModule
RLModule._multi_spec_class = MultiRLModuleSpec
