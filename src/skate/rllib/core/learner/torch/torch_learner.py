"""TorchLearner: a learner whose modules are torch modules."""

from __future__ import annotations

import logging
from collections.abc import Collection, Hashable, Mapping, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from skate.rllib.connectors.learner.learner_connector_pipeline import batches_of_episodes
from skate.rllib.core import ALL_MODULES, COMPONENT_OPTIMIZER
from skate.rllib.core.learner.batches import (
    Batch,
    by_module,
    is_batch,
    joined,
    length_of,
    minibatches,
    numeric,
    rows_of,
    steps_in,
)
from skate.rllib.core.learner.learner import Learner
from skate.rllib.core.learner.torch.adam_steps import step_all
from skate.rllib.core.learner.torch.gradients import clip_gradients, global_norm
from skate.rllib.core.learner.torch.plain_step import can_step_plainly, leaves_gradients_alone, plain_step
from skate.rllib.core.rl_module.torch.torch_rl_module import TorchRLModule, to_tensors
from skate.rllib.env.sampling.sequence_rows import sequence_length
from skate.rllib.policy.sample_batch import MultiAgentBatch
from skate.rllib.utils.metrics.logged_values import Deferred

_log = logging.getLogger(__name__)


class TorchLearner(Learner):
    """Updates torch modules; see :class:`Learner`."""

    framework = "torch"

    def __init__(self, *, config: Any, module_spec: Any = None, module: Any = None) -> None:
        super().__init__(config=config, module_spec=module_spec, module=module)
        self._generator = torch.Generator()
        self._statistics: dict[str, dict[str, Any]] = {}
        self._lr_schedulers: dict[str, list[Any]] = {}
        #: Averages gradients over several learners; None if there is one.
        self.gradient_group: Any = None

    def build(self) -> None:
        if self._is_built:
            return
        self._device = device_of(self.config)
        seed = getattr(self.config, "seed", None)
        if seed is None:
            self._generator.seed()
        else:
            # Modules and minibatches have streams of their own; programs that draw from torch are not disturbed.
            self._generator.manual_seed(int(np.random.SeedSequence((int(seed), 77)).generate_state(1)[0]))
        super().build()

    def _get_tensor_variable(
        self, value: Any, dtype: torch.dtype | None = None, trainable: bool = False
    ) -> Tensor:
        """Return a value as a tensor where this learner computes; Ray's name, which learners of one's own use.

        Args:
            value: A number or an array.
            dtype: Its type; float32 if None.
            trainable: True to compute gradients of it.
        """
        made = torch.as_tensor(value, dtype=dtype or torch.float32, device=self._device)
        return made.clone().requires_grad_(trainable)

    def _make_module(self) -> Any:
        seed = getattr(self.config, "seed", None)
        if seed is None:
            module = super()._make_module()
        else:
            with torch.random.fork_rng(devices=[]):
                torch.manual_seed(int(seed))
                module = super()._make_module()
        for part in module.values():
            if isinstance(part, nn.Module):
                part.to(self._device)
        return module

    # -- optimizers

    def configure_optimizers_for_module(self, module_id: str, config: Any = None) -> None:
        params = self.get_parameters(self.module[module_id])
        fused = self._device.type == "cpu" and all(p.is_floating_point() for p in params)
        self.register_optimizer(
            module_id=module_id,
            optimizer=torch.optim.Adam(params, fused=fused or None),
            params=params,
            lr_or_lr_schedule=(config or self.config).lr,
        )

    def get_parameters(self, module: Any) -> list[Tensor]:
        """Return the parameters of a module."""
        return list(module.parameters())

    def get_param_ref(self, param: Any) -> Hashable:
        ref: Hashable = param
        return ref

    def rl_module_is_compatible(self, module: Any) -> bool:
        return isinstance(module, nn.Module) and super().rl_module_is_compatible(module)

    def _check_registered_optimizer(self, optimizer: Any, params: Sequence[Any]) -> None:
        super()._check_registered_optimizer(optimizer, params)
        if not isinstance(optimizer, torch.optim.Optimizer):
            raise ValueError(f"{type(optimizer).__name__} is no torch.optim.Optimizer")
        if any(not isinstance(parameter, Tensor) for parameter in params):
            raise ValueError("register_optimizer(params=...) has something that is no tensor")

    @staticmethod
    def _set_optimizer_lr(optimizer: Any, lr: float) -> None:
        for group in optimizer.param_groups:
            group["lr"] = lr

    @staticmethod
    def _get_optimizer_lr(optimizer: Any) -> float:
        for group in optimizer.param_groups:
            return float(group["lr"])
        return 0.0

    # -- gradients

    def compute_gradients(self, loss_per_module: dict[str, Any], **kwargs: Any) -> dict[Hashable, Any]:
        for optimizer in self._optimizer_parameters:
            # As zero_grad() does, whose hooks for profilers take longer than this loop.
            for group in optimizer.param_groups:
                for param in group["params"]:
                    param.grad = None
        losses = [loss for loss in loss_per_module.values() if isinstance(loss, Tensor)]
        total = sum(losses[1:], start=losses[0]) if losses else None
        if total is None or total.grad_fn is None:
            return {}
        total.backward()  # type: ignore[no-untyped-call]
        if self.gradient_group is not None:
            for param in self._params.values():
                # A module that has no rows on this learner may have some on another one.
                if param.grad is None and param.requires_grad:
                    param.grad = torch.zeros_like(param)
            self.gradient_group.average([p.grad for p in self._params.values() if p.grad is not None])
        return {ref: param.grad for ref, param in self._params.items()}

    def postprocess_gradients_for_module(
        self, *, module_id: str, config: Any = None, module_gradients_dict: dict[Hashable, Any]
    ) -> dict[Hashable, Any]:
        clip = config.grad_clip
        log = getattr(config, "log_gradients", False)
        if not clip and not log:
            return module_gradients_dict
        processed: dict[Hashable, Any] = {}
        for name, optimizer in self.get_optimizers_for_module(module_id):
            mine = self.filter_param_dict_for_optimizer(module_gradients_dict, optimizer)
            norm = global_norm(mine.values()) if log or config.grad_clip_by == "global_norm" else None
            if clip:
                clip_gradients(mine, grad_clip=clip, grad_clip_by=config.grad_clip_by, norm=norm)
            if norm is not None:
                self.log_statistics(module_id, {f"gradients_{name}_global_norm": norm})
            processed |= mine
        return processed

    def apply_gradients(self, gradients_dict: dict[Hashable, Any]) -> None:
        gradients = [gradient for gradient in gradients_dict.values() if gradient is not None]
        finite = not gradients or bool(torch.isfinite(global_norm(gradients)))
        for ref, gradient in gradients_dict.items():
            self._params[ref].grad = gradient
        if not finite:
            if getattr(self.config, "torch_skip_nan_gradients", False):
                _log.warning(
                    "gradients are not finite: this update is left out (torch_skip_nan_gradients=True)"
                )
                return
            _log.warning(
                "gradients are not finite: these elements become zero; lower the learning rate, set grad_clip, or "
                "leave such updates out with torch_skip_nan_gradients=True"
            )
            for ref, gradient in gradients_dict.items():
                if gradient is not None:
                    self._params[ref].grad = torch.nan_to_num(gradient, nan=0.0, posinf=0.0, neginf=0.0)
        step_all(self._named_optimizers.values())

    def after_gradient_based_update(self, *, timesteps: dict[str, Any]) -> None:
        classes = getattr(self.config, "_torch_lr_scheduler_classes", None)
        if not classes:
            super().after_gradient_based_update(timesteps=timesteps)
            return
        for name, optimizer in self._named_optimizers.items():
            module_id = self._optimizer_name_to_module[name]
            if name not in self._lr_schedulers:
                kinds = classes[module_id] if isinstance(classes, Mapping) else classes
                self._lr_schedulers[name] = [kind(optimizer) for kind in kinds]
            for scheduler in self._lr_schedulers[name]:
                scheduler.step()
            key = (module_id, f"{name[len(module_id) + 1 :]}_learning_rate")
            self.metrics.log_value(key, self._get_optimizer_lr(optimizer), window=1)

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
        self.run_updates(
            rollouts,
            episodes=episodes,
            batch=batch,
            timesteps=timesteps,
            num_epochs=num_epochs,
            minibatch_size=minibatch_size,
            shuffle_batch_per_epoch=shuffle_batch_per_epoch,
            num_total_minibatches=num_total_minibatches,
        )
        return self.metrics.reduce()

    def run_updates(
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
    ) -> None:
        """Update the modules, and leave what was measured in `metrics`; arguments as of :meth:`update`."""
        self._check_is_built()
        if batch is None and is_batch(rollouts):
            rollouts, batch = None, rollouts
        self.before_gradient_based_update(timesteps=timesteps or {})
        batches = self.make_batches(rollouts, episodes=episodes, batch=batch)
        batches = {
            i: b for i, b in batches.items() if self.should_module_be_updated(i, batches) and length_of(b)
        }
        self._weights_seq_no += 1
        steps = dict.fromkeys(batches, 0)
        count = 0
        losses: dict[str, Any] = {}
        prepared = [each for each in map(_unwrapped, self.module.values()) if isinstance(each, TorchRLModule)]
        for module in prepared:
            module.begin_updates()
        try:
            for minibatch in minibatches(
                batches,
                num_epochs=num_epochs,
                minibatch_size=minibatch_size,
                shuffle=shuffle_batch_per_epoch,
                generator=self._generator,
                steps_per_row={i: self._steps_per_row(i) for i in batches},
                num_total_minibatches=num_total_minibatches,
            ):
                _, losses, _ = self._update(minibatch)
                count += 1
                for module_id, part in minibatch.items():
                    steps[module_id] += steps_in(part)
        finally:
            for module in prepared:
                module.end_updates()
        self._flush_statistics(losses)
        for module_id, total in steps.items():
            mean = total / max(1, count)
            self.metrics.log_value((module_id, "module_train_batch_size_mean"), mean, reduce="mean")
        env_steps = max(steps.values(), default=0)
        if isinstance(batch, MultiAgentBatch) and not minibatch_size:
            env_steps = batch.env_steps() * count
        self._log_steps_trained(steps, env_steps)
        self.after_gradient_based_update(timesteps=timesteps or {})

    def _update(self, batch: dict[str, Any], **kwargs: Any) -> tuple[Any, dict[str, Any], dict[str, Any]]:
        """Do one step on a minibatch; returns outputs, losses, and nothing."""
        fwd_out = self._module.forward_train(batch)
        losses = self.compute_losses(fwd_out=fwd_out, batch=batch)
        if leaves_gradients_alone(self, TorchLearner) and can_step_plainly(self):
            plain_step(self, losses)
            return fwd_out, losses, {}
        gradients = self.postprocess_gradients(self.compute_gradients(losses))
        if gradients:
            self.apply_gradients(gradients)
        return fwd_out, losses, {}

    def make_batches(
        self, rollouts: Any = None, *, episodes: Sequence[Any] | None = None, batch: Any = None
    ) -> dict[str, Batch]:
        """Return the columns to learn from as tensors, by module id.

        Args:
            rollouts: Fragments of columns, a list or a dict of lists by module id.
            episodes: Episodes, instead of fragments; the learner's connectors make the batches of them.
            batch: Columns of rows, instead of fragments.
        """
        known = list(self.module.keys())
        if batch is not None:
            return {i: to_tensors(columns, self._device) for i, columns in by_module(batch, known).items()}
        if episodes is not None:
            return batches_of_episodes(self._learner_connector, self.module, episodes, self.metrics)
        if rollouts is None:
            raise ValueError("Learner.update() needs rollouts=, episodes= or batch=")
        return {
            i: self.batch_of_rollouts(i, fragments)
            for i, fragments in by_module(rollouts, known).items()
            # A module that is not updated may lack what a batch is made with, such as values.
            if fragments and self.rl_module_is_compatible(self.module[i])
        }

    def batch_of_rollouts(self, module_id: str, rollouts: Sequence[Any]) -> Batch:
        """Return the rows of fragments as tensors; algorithms add what their losses need.

        Args:
            module_id: The module that they are for.
            rollouts: The fragments.
        """
        parts = [rows_of(numeric(rollout.columns), rollout.valid) for rollout in rollouts]
        return to_tensors(joined(parts), self._device)

    def _steps_per_row(self, module_id: str) -> int:
        """Return how many steps a row of a batch has: one, or a sequence's length for modules with memory."""
        module = self.module[module_id].unwrapped()
        if not module.is_stateful():
            return 1
        return sequence_length(module)

    # -- statistics

    def log_statistics(self, module_id: str, values: Mapping[str, Any]) -> None:
        """Keep figures of a minibatch; only those of an update's last minibatch are logged.

        Args:
            module_id: The module.
            values: Tensors or numbers by name, or functions that return them when they are read, if no later update has
                logged others; what they compute from must not change.
        """
        self._statistics.setdefault(module_id, {}).update(values)

    def _flush_statistics(self, losses: Mapping[str, Any]) -> None:
        for module_id, loss in losses.items():
            self.log_statistics(module_id, {self.TOTAL_LOSS_KEY: loss})
        for module_id, values in self._statistics.items():
            for name, value in values.items():
                if isinstance(value, Tensor):
                    figure: Any = value.item()
                else:
                    figure = Deferred(value) if callable(value) else value
                self.metrics.log_value((module_id, name), figure, window=1)
        self._statistics = {}

    def _log_trainable_parameters(self) -> None:
        trainable = frozen = 0
        for module_id, module in self.module.items():
            if not isinstance(module, nn.Module):
                continue
            mine = sum(p.numel() for p in module.parameters() if p.requires_grad)
            others = sum(p.numel() for p in module.parameters()) - mine
            trainable, frozen = trainable + mine, frozen + others
            self.metrics.log_value((module_id, "num_trainable_parameters"), mine, window=1)
            self.metrics.log_value((module_id, "num_non_trainable_parameters"), others, window=1)
        self.metrics.log_value((ALL_MODULES, "num_trainable_parameters"), trainable, window=1)
        self.metrics.log_value((ALL_MODULES, "num_non_trainable_parameters"), frozen, window=1)

    # -- state

    def get_state(
        self,
        components: str | Collection[str] | None = None,
        *,
        not_components: str | Collection[str] | None = None,
        **kwargs: Any,
    ) -> dict[str, Any]:
        state = super().get_state(components, not_components=not_components, **kwargs)
        if self._check_component(COMPONENT_OPTIMIZER, components, not_components):
            state["generator"] = self._generator.get_state().numpy().copy()
        return state

    def set_state(self, state: dict[str, Any]) -> None:
        super().set_state(state)
        if "generator" in state:
            self._generator.set_state(torch.as_tensor(state["generator"].copy()))

    def _get_optimizer_state(self) -> dict[str, Any]:
        return {
            name: {
                "module_id": self._optimizer_name_to_module[name],
                "state": _to_numpy(optimizer.state_dict()),
            }
            for name, optimizer in self._named_optimizers.items()
        }

    def _set_optimizer_state(self, state: dict[str, Any]) -> None:
        for name, saved in state.items():
            optimizer = self._named_optimizers.get(name)
            if optimizer is None:
                _log.warning(
                    "the state has optimizer %s, which this learner does not have; it is left out", name
                )
                continue
            inner = {key: to_tensors(value, self._device) for key, value in saved["state"]["state"].items()}
            for values in inner.values():
                if isinstance(values.get("step"), np.ndarray | np.number | int | float):
                    values["step"] = torch.as_tensor(float(values["step"]))
            optimizer.load_state_dict({**saved["state"], "state": inner})


def device_of(config: Any) -> torch.device:
    """Return where a learner computes: a GPU if `num_gpus_per_learner` asks for one, which is `local_gpu_idx` among several.

    Raises:
        ValueError: There is no such GPU.
    """
    gpus = float(getattr(config, "num_gpus_per_learner", 0) or 0)
    if gpus <= 0:
        return torch.device("cpu")
    count, index = torch.cuda.device_count(), int(getattr(config, "local_gpu_idx", 0) or 0)
    if count == 1:
        index = 0  # an actor sees its own GPU alone
    if index >= count:
        raise ValueError(
            f"learners(num_gpus_per_learner={gpus:g}, local_gpu_idx={index}) needs a GPU, but torch finds {count or 'none'} "
            "on this machine; set num_gpus_per_learner=0 to learn on CPUs"
        )
    return torch.device("cuda", index)


def _unwrapped(module: Any) -> Any:
    return module.unwrapped()


def _to_numpy(value: Any) -> Any:
    if isinstance(value, Tensor):
        return value.detach().cpu().numpy().copy()
    if isinstance(value, dict):
        return {key: _to_numpy(part) for key, part in value.items()}
    return [_to_numpy(part) for part in value] if isinstance(value, list) else value


def explained_variance(targets: Tensor, predictions: Tensor) -> Tensor:
    """Return 1 minus the variance of the errors over that of the targets, at least -1."""
    variance = targets.squeeze().var()
    errors = (targets.squeeze() - predictions.squeeze()).var()
    return torch.clamp(1.0 - errors / variance, min=-1.0)


__all__ = ["TorchLearner", "clip_gradients", "explained_variance", "global_norm"]
