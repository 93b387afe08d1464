"""Learner: updates modules from samples."""

from __future__ import annotations

import copy
import logging
from collections.abc import Collection, Hashable, Sequence
from pathlib import Path
from typing import Any

from skate.rllib.connectors.learner.learner_connector_pipeline import build_learner_pipeline
from skate.rllib.core import (
    ALL_MODULES,
    COMPONENT_METRICS_LOGGER,
    COMPONENT_OPTIMIZER,
    COMPONENT_RL_MODULE,
)
from skate.rllib.core.learner.optimizers import DEFAULT_OPTIMIZER, Optimizers
from skate.rllib.core.rl_module.apis import SelfSupervisedLossAPI
from skate.rllib.core.rl_module.multi_rl_module import MultiRLModule, MultiRLModuleSpec
from skate.rllib.utils.checkpoints import Checkpointable
from skate.rllib.utils.metrics import NUM_ENV_STEPS_SAMPLED_LIFETIME
from skate.rllib.utils.metrics.metrics_logger import MetricsLogger

__all__ = ["DEFAULT_OPTIMIZER", "LR_KEY", "Learner"]

LR_KEY = "learning_rate"
POLICY_LOSS_KEY = "policy_loss"
VF_LOSS_KEY = "vf_loss"
ENTROPY_KEY = "entropy"

_log = logging.getLogger(__name__)


class Learner(Optimizers, Checkpointable):
    """Updates modules from samples: a loss per module, gradients, and a step of every optimizer.

    Subclasses of an algorithm write ``compute_loss_for_module``. Users override it, or
    ``configure_optimizers_for_module``, ``postprocess_gradients_for_module``, ``before_gradient_based_update`` and
    ``after_gradient_based_update``.

    Args:
        config: The algorithm's config.
        module_spec: Spec of one module or of several. Default: the config's.
        module: A module to update, instead of building one.
    """

    framework: str = "torch"
    TOTAL_LOSS_KEY = "total_loss"

    def __init__(self, *, config: Any, module_spec: Any = None, module: Any = None) -> None:
        Optimizers.__init__(self)
        self.config: Any = config.copy(copy_frozen=False) if hasattr(config, "copy") else config
        self._module_spec: Any = module_spec
        self._module_obj = module
        self._module: Any = None
        self._device: Any = None
        self._is_built = False
        self._learner_index = 0
        self._weights_seq_no = 0
        self._learner_connector: Any = None
        #: The classes of the default connectors, once they have been looked at.
        self._default_connectors: list[type] | None = None
        self.metrics = MetricsLogger(root=False)

    def build(self) -> None:
        """Build modules and optimizers; has no effect the second time."""
        if self._is_built:
            return
        self._module = self._make_module()
        self._learner_connector = self._make_learner_connector()
        self.configure_optimizers()
        self._log_trainable_parameters()
        self._is_built = True

    def shutdown(self) -> None:
        """Release what the learner holds."""

    @property
    def module(self) -> Any:
        """The :class:`MultiRLModule` that is updated."""
        return self._module

    @property
    def device(self) -> Any:
        """The device that modules and batches are on."""
        return self._device

    @property
    def distributed(self) -> bool:
        """True if several learners update together."""
        return int(getattr(self.config, "num_learners", 0) or 0) > 1

    def _make_module(self) -> MultiRLModule:
        if self._module_obj is not None:
            module = self._module_obj
        elif self._module_spec is not None:
            module = self._module_spec.build()
        else:
            module = self.config.get_multi_rl_module_spec().build()
        multi: MultiRLModule = module.as_multi_rl_module()
        self._module_spec = MultiRLModuleSpec.from_module(multi)
        return multi

    def _make_learner_connector(self, own: bool = True) -> Any:
        """Return the connectors from episodes to batches.

        Args:
            own: False for the default ones alone, without those of the config.
        """
        only = next(iter(self.module.values())) if len(self.module) == 1 else None
        spaces = getattr(only, "observation_space", None), getattr(only, "action_space", None)
        build = getattr(self.config, "build_learner_connector", None)
        if own and build is not None:
            return build(*spaces, self._device)
        return build_learner_pipeline(self.config, *spaces, self._device, own)

    def add_connectors(self, pipeline: Any) -> None:
        """Add the connectors that the algorithm needs to the pipeline from episodes to batches.

        An algorithm's ``build()`` calls it at its end, as Ray's do: a learner whose ``build()`` leaves that one out adds
        its own.

        Args:
            pipeline: The user's connectors with the default ones after them.
        """

    @property
    def _wants_default_connectors(self) -> bool:
        return bool(getattr(self.config, "add_default_connectors_to_learner_pipeline", True))

    @property
    def has_own_connectors(self) -> bool:
        """True if the pipeline has connectors besides the default ones, so that it has to be given episodes."""
        if self._default_connectors is None:
            made = self._make_learner_connector(own=False)
            if self._wants_default_connectors:
                self.add_connectors(made)
            self._default_connectors = [type(each) for each in made.connectors]
        return [type(each) for each in self._learner_connector.connectors] != self._default_connectors

    @property
    def num_steps_back(self) -> int:
        """The number of steps before their own that episodes have to remember for the connectors."""
        return max(
            (getattr(each, "num_steps_back", 0) for each in self._learner_connector.connectors), default=0
        )

    def config_of(self, module_id: str) -> Any:
        """Return the config with the overrides of a module."""
        overrides = getattr(self.config, "get_config_for_module", None)
        return self.config if overrides is None else overrides(module_id)

    # -- optimizers and losses

    def configure_optimizers(self) -> None:
        """Make the optimizers of all modules that can be updated."""
        for module_id in self.module.keys():  # noqa: SIM118  a MultiRLModule is no dict
            if self.rl_module_is_compatible(self.module[module_id]):
                self.configure_optimizers_for_module(module_id=module_id, config=self.config_of(module_id))

    def configure_optimizers_for_module(self, module_id: str, config: Any = None) -> None:
        """Make the optimizers of a module with :meth:`register_optimizer`.

        Args:
            module_id: The module.
            config: The config with its overrides.
        """
        raise NotImplementedError

    def compute_losses(self, *, fwd_out: dict[str, Any], batch: dict[str, Any]) -> dict[str, Any]:
        """Return one loss per module.

        Args:
            fwd_out: What the modules' ``forward_train`` returned, by module id.
            batch: The minibatches, by module id.
        """
        losses = {}
        for module_id, module_out in fwd_out.items():
            module = self._module[module_id].unwrapped()
            arguments: dict[str, Any] = {
                "module_id": module_id,
                "config": self.config_of(module_id),
                "batch": batch[module_id],
                "fwd_out": module_out,
            }
            if isinstance(module, SelfSupervisedLossAPI):
                losses[module_id] = module.compute_self_supervised_loss(learner=self, **arguments)
            else:
                losses[module_id] = self.compute_loss_for_module(**arguments)
        return losses

    def compute_loss_for_module(
        self, *, module_id: str, config: Any, batch: dict[str, Any], fwd_out: dict[str, Any]
    ) -> Any:
        """Return the loss of a module, a tensor of one element.

        Args:
            module_id: The module.
            config: The config with its overrides.
            batch: Columns of the minibatch.
            fwd_out: What its ``forward_train`` returned.
        """
        # A subclass that has one may call this one as well.
        if type(self).compute_loss_for_module is Learner.compute_loss_for_module:
            raise NotImplementedError(f"{type(self).__name__} has to write compute_loss_for_module()")
        return None

    def compute_gradients(self, loss_per_module: dict[str, Any], **kwargs: Any) -> dict[Hashable, Any]:
        """Return gradients by parameter."""
        raise NotImplementedError

    def postprocess_gradients(self, gradients_dict: dict[Hashable, Any]) -> dict[Hashable, Any]:
        """Change the gradients of all modules, by default with :meth:`postprocess_gradients_for_module`."""
        processed: dict[Hashable, Any] = {}
        for module_id in self._module.keys():  # noqa: SIM118
            mine: dict[Hashable, Any] = {}
            for _, optimizer in self.get_optimizers_for_module(module_id):
                mine |= self.filter_param_dict_for_optimizer(gradients_dict, optimizer)
            if mine:
                processed |= self.postprocess_gradients_for_module(
                    module_id=module_id, config=self.config_of(module_id), module_gradients_dict=mine
                )
        return processed

    def postprocess_gradients_for_module(
        self, *, module_id: str, config: Any = None, module_gradients_dict: dict[Hashable, Any]
    ) -> dict[Hashable, Any]:
        """Clip the gradients of a module as ``config.grad_clip`` and ``config.grad_clip_by`` want.

        Args:
            module_id: The module.
            config: The config with its overrides.
            module_gradients_dict: Gradients by parameter.

        Returns:
            Gradients by parameter.
        """
        raise NotImplementedError

    def apply_gradients(self, gradients_dict: dict[Hashable, Any]) -> None:
        """Update the parameters from gradients."""
        raise NotImplementedError

    def before_gradient_based_update(self, *, timesteps: dict[str, Any]) -> None:
        """Run before each update.

        Args:
            timesteps: Counters of steps, such as ``"num_env_steps_sampled_lifetime"``.
        """

    def after_gradient_based_update(self, *, timesteps: dict[str, Any]) -> None:
        """Run after each update; moves the learning rates along their schedules.

        Args:
            timesteps: Counters of steps, such as ``"num_env_steps_sampled_lifetime"``.
        """
        steps = int(timesteps.get(NUM_ENV_STEPS_SAMPLED_LIFETIME, 0) or 0)
        for module_id, names in self._module_optimizers.items():
            for name in names:
                optimizer = self._named_optimizers[name]
                schedule = self._optimizer_lr_schedules.get(optimizer)
                if schedule is not None and schedule.use_schedule:
                    self._set_optimizer_lr(optimizer, schedule.update(steps))
                key = (module_id, f"{name[len(module_id) + 1 :]}_{LR_KEY}")
                self.metrics.log_value(key, self._get_optimizer_lr(optimizer), window=1)

    # -- modules

    def add_module(
        self,
        *,
        module_id: str,
        module_spec: Any,
        config_overrides: dict[str, Any] | None = None,
        new_should_module_be_updated: Any = None,
    ) -> MultiRLModuleSpec:
        """Add a module and its optimizers.

        Args:
            module_id: Its id.
            module_spec: How to build it.
            config_overrides: Settings of the config for this module alone.
            new_should_module_be_updated: Ids of the modules to update from now on, or a function that decides.

        Returns:
            The spec of all modules.
        """
        self._check_is_built()
        spec = copy.copy(module_spec)
        spec.inference_only = False
        self.module.add_module(module_id, spec.build())
        if config_overrides is not None:
            with self.config.thawed() as config:
                config.multi_agent(algorithm_config_overrides_per_module={module_id: config_overrides})
        self._set_modules_to_update(new_should_module_be_updated)
        if self.rl_module_is_compatible(self.module[module_id]):
            self.configure_optimizers_for_module(module_id=module_id, config=self.config_of(module_id))
        self._log_trainable_parameters()
        specs = MultiRLModuleSpec.from_module(self.module)
        self._module_spec = specs
        return specs

    def remove_module(self, module_id: str, *, new_should_module_be_updated: Any = None) -> MultiRLModuleSpec:
        """Remove a module and its optimizers.

        Args:
            module_id: Its id.
            new_should_module_be_updated: Ids of the modules to update from now on, or a function that decides.

        Returns:
            The spec of the modules that are left.
        """
        self._check_is_built()
        self._forget_optimizers(module_id)
        self.module.remove_module(module_id)
        self._set_modules_to_update(new_should_module_be_updated)
        self.metrics.stats.pop(module_id, None)
        specs = MultiRLModuleSpec.from_module(self.module)
        self._module_spec = specs
        return specs

    def _set_modules_to_update(self, which: Any) -> None:
        if which is not None:
            with self.config.thawed() as config:
                config.multi_agent(policies_to_train=which)

    def should_module_be_updated(self, module_id: str, multi_agent_batch: Any = None) -> bool:
        """Return True if ``config.policies_to_train`` has the module."""
        which = getattr(self.config, "policies_to_train", None)
        if which is None:
            return True
        return bool(which(module_id, multi_agent_batch)) if callable(which) else module_id in which

    @classmethod
    def rl_module_required_apis(cls) -> list[type]:
        """Return the interfaces that a module needs to be updated."""
        return []

    def rl_module_is_compatible(self, module: Any) -> bool:
        """Return True if a module can be updated."""
        return all(isinstance(module.unwrapped(), api) for api in self.rl_module_required_apis())

    # -- updates

    def update(
        self,
        rollouts: Any = None,
        *,
        episodes: Sequence[Any] | None = None,
        batch: Any = None,
        timesteps: dict[str, Any] | None = None,
        num_epochs: int = 1,
        minibatch_size: int | None = None,
        shuffle_batch_per_epoch: bool = False,
        num_total_minibatches: int = 0,
        **kwargs: Any,
    ) -> Any:
        """Update the modules from samples.

        Args:
            rollouts: Fragments of columns, a list or a dict of lists by module id; or what ``batch`` takes.
            episodes: Episodes, instead of fragments; the learner's connectors make the batch of them.
            batch: Columns of rows by module id, or of the only module, instead of fragments.
            timesteps: Counters of steps, such as ``"num_env_steps_sampled_lifetime"``.
            num_epochs: How often every row is used.
            minibatch_size: Steps in a minibatch. Default: the whole batch.
            shuffle_batch_per_epoch: Use the rows of every epoch in a new order.
            num_total_minibatches: Number of minibatches, whatever the number of epochs.

        Returns:
            What was measured, by module id.
        """
        raise NotImplementedError

    def get_parameters(self, module: Any) -> Sequence[Any]:
        """Return the parameters of a module."""
        raise NotImplementedError

    def _update(self, batch: dict[str, Any], **kwargs: Any) -> tuple[Any, Any, Any]:
        """Do one step on a minibatch."""
        raise NotImplementedError

    def update_from_batch(self, batch: Any, **kwargs: Any) -> Any:
        """Call `update(batch=...)`, by an older name."""
        return self.update(batch=batch, **kwargs)

    def update_from_episodes(self, episodes: Sequence[Any], **kwargs: Any) -> Any:
        """Call `update(episodes=...)`, by an older name."""
        return self.update(episodes=episodes, **kwargs)

    # -- state

    def get_state(
        self,
        components: str | Collection[str] | None = None,
        *,
        not_components: str | Collection[str] | None = None,
        **kwargs: Any,
    ) -> dict[str, Any]:
        self._check_is_built()
        state: dict[str, Any] = {
            "should_module_be_updated": getattr(self.config, "policies_to_train", None),
            "weights_seq_no": self._weights_seq_no,
        }
        if self._check_component(COMPONENT_RL_MODULE, components, not_components):
            state[COMPONENT_RL_MODULE] = self.module.get_state(
                components=self._get_subcomponents(COMPONENT_RL_MODULE, components),
                not_components=self._get_subcomponents(COMPONENT_RL_MODULE, not_components),
                **kwargs,
            )
        if self._check_component(COMPONENT_OPTIMIZER, components, not_components):
            state[COMPONENT_OPTIMIZER] = self._get_optimizer_state()
            state["schedules"] = {
                name: self._optimizer_lr_schedules[optimizer].get_current_value()
                for name, optimizer in self._named_optimizers.items()
                if optimizer in self._optimizer_lr_schedules
            }
        if self._check_component(COMPONENT_METRICS_LOGGER, components, not_components):
            state[COMPONENT_METRICS_LOGGER] = self.metrics.get_state()
        return state

    def set_state(self, state: dict[str, Any]) -> None:
        self._check_is_built()
        if COMPONENT_RL_MODULE in state:
            self.module.set_state(state[COMPONENT_RL_MODULE])
        if COMPONENT_OPTIMIZER in state:
            self._set_optimizer_state(state[COMPONENT_OPTIMIZER])
        for name, value in state.get("schedules", {}).items():
            schedule = self._optimizer_lr_schedules.get(self._named_optimizers.get(name))
            if schedule is not None:
                schedule.restore(value)
        if not getattr(self.config, "_torch_lr_scheduler_classes", None):
            self._set_fixed_rates()
        self._weights_seq_no = int(state.get("weights_seq_no", self._weights_seq_no))
        if state.get("should_module_be_updated") is not None:
            self._set_modules_to_update(state["should_module_be_updated"])
        if COMPONENT_METRICS_LOGGER in state:
            self.metrics.set_state(state[COMPONENT_METRICS_LOGGER])

    def read_from(self, folder: Path) -> None:
        if not self._is_built:
            self.build()
        super().read_from(folder)

    def get_ctor_args_and_kwargs(self) -> tuple[tuple[Any, ...], dict[str, Any]]:
        return (), {"config": self.config, "module_spec": self._module_spec}

    def get_checkpointable_components(self) -> list[tuple[str, Any]]:
        if not self._is_built:
            self.build()
        return [(COMPONENT_RL_MODULE, self.module)]

    def _check_is_built(self) -> None:
        if not self._is_built:
            raise ValueError(f"{type(self).__name__} is not built; call build() first")

    def _log_trainable_parameters(self) -> None:
        """Log how many parameters there are."""

    def _get_optimizer_state(self) -> dict[str, Any]:
        raise NotImplementedError

    def _set_optimizer_state(self, state: dict[str, Any]) -> None:
        raise NotImplementedError

    @staticmethod
    def _get_optimizer_lr(optimizer: Any) -> float:
        raise NotImplementedError

    def _log_steps_trained(self, module_steps: dict[str, int], env_steps: int) -> None:
        """Log how many rows were used since the last call."""
        sums: dict[str, Any] = {"reduce": "sum"}
        lifetime: dict[str, Any] = {"reduce": "lifetime_sum"}
        for module_id, steps in module_steps.items():
            self.metrics.log_value((module_id, "weights_seq_no"), self._weights_seq_no, window=1)
            self.metrics.log_value((module_id, "num_module_steps_trained"), steps, **sums)
            self.metrics.log_value((module_id, "num_module_steps_trained_lifetime"), steps, **lifetime)
            self.metrics.log_value((ALL_MODULES, "num_module_steps_trained"), steps, **sums)
            self.metrics.log_value((ALL_MODULES, "num_module_steps_trained_lifetime"), steps, **lifetime)
        self.metrics.log_value((ALL_MODULES, "num_env_steps_trained"), env_steps, **sums)
        self.metrics.log_value((ALL_MODULES, "num_env_steps_trained_lifetime"), env_steps, **lifetime)
