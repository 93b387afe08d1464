"""RLModule: what turns observations into actions and into what losses need; RLModuleSpec builds one."""

from __future__ import annotations

import dataclasses
from collections.abc import Collection
from typing import TYPE_CHECKING, Any, ClassVar

from skate.rllib.core import DEFAULT_MODULE_ID
from skate.rllib.utils.checkpoints import Checkpointable
from skate.rllib.utils.serialization import (
    deserialize_type,
    gym_space_from_dict,
    gym_space_to_dict,
    serialize_type,
)

if TYPE_CHECKING:
    import gymnasium as gym


@dataclasses.dataclass
class RLModuleConfig:
    """The arguments of a module, as older programs read them from its ``config``."""

    observation_space: Any = None
    action_space: Any = None
    inference_only: bool = False
    learner_only: bool = False
    model_config_dict: Any = dataclasses.field(default_factory=dict)
    catalog_class: Any = None


class RLModule(Checkpointable):
    """One policy's networks with three ways through them: inference, exploration and training.

    Subclasses write ``setup()`` and ``_forward()``, or one of its three variants.

    Args:
        observation_space: Space of what the module sees, after connectors.
        action_space: Space of the actions.
        inference_only: Leave out what only training needs.
        learner_only: Exists on learners only, not on environment runners.
        model_config: A ``DefaultModelConfig``, or a dict for modules of your own.
        catalog_class: Chooses the networks of default modules.
    """

    framework: str | None = None
    STATE_FILE_NAME = "module_state"
    # The class of modules by id; set when multi_rl_module, which imports this file, is loaded.
    _multi_class: ClassVar[Any] = None
    _multi_spec_class: ClassVar[Any] = None

    def __init__(
        self,
        config: Any = None,
        *,
        observation_space: gym.Space[Any] | None = None,
        action_space: gym.Space[Any] | None = None,
        inference_only: bool | None = None,
        learner_only: bool = False,
        model_config: Any = None,
        catalog_class: Any = None,
        **kwargs: Any,
    ) -> None:
        if config is not None:
            raise ValueError(
                f"{type(self).__name__}(config) is gone; pass observation_space=, action_space=, inference_only=, "
                "learner_only= and model_config="
            )
        self.observation_space: Any = observation_space
        self.action_space: Any = action_space
        self.inference_only = bool(inference_only)
        self.learner_only = learner_only
        self.model_config: Any = model_config if model_config is not None else {}
        self.config: Any = RLModuleConfig(
            observation_space,
            action_space,
            self.inference_only,
            learner_only,
            self.model_config,
            catalog_class,
        )
        self.catalog: Any = None
        self.action_dist_cls: Any = None
        if catalog_class is not None:
            self.catalog = catalog_class(
                observation_space=observation_space,
                action_space=action_space,
                model_config_dict=self.model_config,
            )
            self.action_dist_cls = self.catalog.get_action_dist_cls(framework=self.framework or "torch")
        self._is_stateful: bool | None = None
        self.setup()

    def setup(self) -> None:
        """Make the networks; spaces and ``self.model_config`` are set already."""

    def forward_inference(self, batch: dict[str, Any], **kwargs: Any) -> dict[str, Any]:
        """Return what chooses actions when the policy is used, without exploration.

        Args:
            batch: Columns; at least ``"obs"``, and ``"state_in"`` for modules with memory.

        Returns:
            Columns such as ``"action_dist_inputs"``, ``"actions"`` or ``"state_out"``.
        """
        return self._forward_inference(batch, **kwargs)

    def forward_exploration(self, batch: dict[str, Any], **kwargs: Any) -> dict[str, Any]:
        """Return what chooses actions while samples are collected; see :meth:`forward_inference`."""
        return self._forward_exploration(batch, **kwargs)

    def forward_train(self, batch: dict[str, Any], **kwargs: Any) -> dict[str, Any]:
        """Return what the loss needs; see :meth:`forward_inference`.

        Raises:
            RuntimeError: the module was built with ``inference_only=True``.
        """
        if self.inference_only:
            raise RuntimeError(
                f"forward_train() of {type(self).__name__}, which was built with inference_only=True; build it "
                "with inference_only=False"
            )
        return self._forward_train(batch, **kwargs)

    def _forward(self, batch: dict[str, Any], **kwargs: Any) -> dict[str, Any]:
        """Write this one if all three ways are the same."""
        return {}

    def _forward_inference(self, batch: dict[str, Any], **kwargs: Any) -> dict[str, Any]:
        return self._forward(batch, **kwargs)

    def _forward_exploration(self, batch: dict[str, Any], **kwargs: Any) -> dict[str, Any]:
        return self._forward(batch, **kwargs)

    def _forward_train(self, batch: dict[str, Any], **kwargs: Any) -> dict[str, Any]:
        return self._forward(batch, **kwargs)

    def _default_input_specs(self) -> Any:
        """Return nothing: inputs and outputs are not checked, so that specs are only what a subclass says of itself."""
        return None

    input_specs_inference = input_specs_exploration = input_specs_train = _default_input_specs
    output_specs_inference = output_specs_exploration = output_specs_train = _default_input_specs

    def get_inference_action_dist_cls(self) -> Any:
        """Return the class of action distributions for :meth:`forward_inference`."""
        raise NotImplementedError(f"{type(self).__name__} has to write get_inference_action_dist_cls()")

    def get_exploration_action_dist_cls(self) -> Any:
        """Return the class of action distributions for :meth:`forward_exploration`."""
        raise NotImplementedError(f"{type(self).__name__} has to write get_exploration_action_dist_cls()")

    def get_train_action_dist_cls(self) -> Any:
        """Return the class of action distributions for :meth:`forward_train`."""
        raise NotImplementedError(f"{type(self).__name__} has to write get_train_action_dist_cls()")

    def get_initial_state(self) -> Any:
        """Return the recurrent state at the start of an episode, without batch dimension; {} without memory."""
        return {}

    def is_stateful(self) -> bool:
        """Return True if the module has recurrent state."""
        if self._is_stateful is None:
            state = self.get_initial_state()
            if not isinstance(state, dict):
                kind = type(state).__name__
                raise TypeError(
                    f"get_initial_state() of {type(self).__name__} has to return a dict, not {kind}"
                )
            self._is_stateful = bool(state)
        return self._is_stateful

    def get_state(
        self,
        components: str | Collection[str] | None = None,
        *,
        not_components: str | Collection[str] | None = None,
        inference_only: bool = False,
        **kwargs: Any,
    ) -> dict[str, Any]:
        return {}

    def set_state(self, state: dict[str, Any]) -> None:
        return None

    def get_ctor_args_and_kwargs(self) -> tuple[tuple[Any, ...], dict[str, Any]]:
        return (), {
            "observation_space": self.observation_space,
            "action_space": self.action_space,
            "inference_only": self.inference_only,
            "learner_only": self.learner_only,
            "model_config": self.model_config,
            "catalog_class": None if self.catalog is None else type(self.catalog),
        }

    def as_multi_rl_module(self) -> Any:
        """Return a :class:`MultiRLModule` with this module as its only one."""
        wrapper = self._multi_class(rl_module_specs={})
        wrapper.add_module(DEFAULT_MODULE_ID, self)
        wrapper.inference_only = self.inference_only
        return wrapper

    def unwrapped(self) -> Any:
        """Return the module itself, without a wrapper for distributed training."""
        return self


@dataclasses.dataclass
class RLModuleSpec:
    """Everything that is needed to build one module.

    Args:
        module_class: The class. Default: the algorithm's own.
        observation_space: Space of what the module sees. Default: by environment and connectors.
        action_space: Space of the actions. Default: the environment's.
        inference_only: Leave out what only training needs.
        learner_only: Build it on learners only.
        model_config: A ``DefaultModelConfig``, or a dict for modules of your own.
        catalog_class: Chooses the networks of default modules.
        load_state_path: Folder of a saved module whose state is loaded after building.
    """

    module_class: Any = None
    observation_space: Any = None
    action_space: Any = None
    inference_only: bool = False
    learner_only: bool = False
    model_config: Any = None
    catalog_class: Any = None
    load_state_path: str | None = None
    # An older name of model_config; only Ray's pickles have it.
    model_config_dict: Any = None

    def __post_init__(self) -> None:
        if self.model_config_dict is not None:
            raise ValueError(
                "RLModuleSpec(model_config_dict=...) is gone; use RLModuleSpec(model_config=...)"
            )

    def build(self) -> Any:
        """Build the module.

        Returns:
            An instance of ``module_class``.

        Raises:
            ValueError: no class or no observation space is set.
        """
        if self.module_class is None:
            raise ValueError(
                "RLModuleSpec.build() without a module_class; set RLModuleSpec(module_class=...)"
            )
        if self.observation_space is None:
            raise ValueError(
                "RLModuleSpec.build() without an observation_space; set RLModuleSpec(observation_space=...)"
            )
        return self.module_class(
            observation_space=self.observation_space,
            action_space=self.action_space,
            inference_only=self.inference_only,
            learner_only=self.learner_only,
            model_config=self._get_model_config(),
            catalog_class=self.catalog_class,
        )

    @classmethod
    def from_module(cls, module: Any) -> RLModuleSpec:
        """Return a spec that builds modules like the given one."""
        if RLModule._multi_class is not None and isinstance(module, RLModule._multi_class):
            raise ValueError(
                "RLModuleSpec.from_module() of a MultiRLModule; use MultiRLModuleSpec.from_module()"
            )
        return cls(
            module_class=type(module),
            observation_space=module.observation_space,
            action_space=module.action_space,
            inference_only=module.inference_only,
            learner_only=module.learner_only,
            model_config=module.model_config,
            catalog_class=None if module.catalog is None else type(module.catalog),
        )

    def to_dict(self) -> dict[str, Any]:
        """Return this spec as a dict of plain values: classes by their paths, spaces as dicts.

        Raises:
            ValueError: No class is set.
        """
        if self.module_class is None:
            raise ValueError(
                "RLModuleSpec.to_dict() without a module_class; set RLModuleSpec(module_class=...)"
            )
        return {
            "module_class": serialize_type(self.module_class),
            "observation_space": gym_space_to_dict(self.observation_space),
            "action_space": gym_space_to_dict(self.action_space),
            "inference_only": self.inference_only,
            "learner_only": self.learner_only,
            "model_config": self._get_model_config(),
            "catalog_class": None if self.catalog_class is None else serialize_type(self.catalog_class),
        }

    @classmethod
    def from_dict(cls, d: dict[str, Any]) -> RLModuleSpec:
        """Return the spec that `to_dict` made a dict of.

        Args:
            d: The dict.

        Raises:
            ValueError: It names a class that does not exist.
        """
        catalog = d["catalog_class"]
        return cls(
            module_class=deserialize_type(d["module_class"], error=True),
            observation_space=gym_space_from_dict(d["observation_space"]),
            action_space=gym_space_from_dict(d["action_space"]),
            inference_only=d["inference_only"],
            learner_only=d["learner_only"],
            model_config=d["model_config"],
            catalog_class=None if catalog is None else deserialize_type(catalog, error=True),
        )

    def update(self, other: RLModuleSpec, override: bool = True) -> None:
        """Take over what another spec has set.

        Args:
            other: The other spec.
            override: Replace what is set here; else fill in only what is not.
        """
        if not isinstance(other, RLModuleSpec):
            raise ValueError(
                f"an RLModuleSpec can be updated with another one only, not with {type(other).__name__}"
            )
        for name in (
            "module_class", "observation_space", "action_space", "model_config", "catalog_class", "load_state_path",
        ):  # fmt: skip
            mine, theirs = getattr(self, name), getattr(other, name)
            first, second = (theirs, mine) if override else (mine, theirs)
            setattr(self, name, first if _is_set(first) else second)
        if override:
            self.inference_only = other.inference_only or self.inference_only
            self.learner_only = other.learner_only and self.learner_only

    def as_multi_rl_module_spec(self) -> Any:
        """Return a :class:`MultiRLModuleSpec` with this spec as ``"default_policy"``."""
        return RLModule._multi_spec_class(
            rl_module_specs={DEFAULT_MODULE_ID: self}, load_state_path=self.load_state_path
        )

    def _get_model_config(self) -> Any:
        config = self.model_config
        if dataclasses.is_dataclass(config) and not isinstance(config, type):
            return dataclasses.asdict(config)
        return config or {}


def _is_set(value: Any) -> bool:
    return value is not None and value != {}
