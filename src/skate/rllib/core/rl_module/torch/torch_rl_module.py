"""TorchRLModule: an RLModule that is a torch module."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

import gymnasium as gym
import numpy as np
import torch
from torch import nn

from skate.rllib.core.distribution.torch.torch_distribution import TorchCategorical, TorchDiagGaussian
from skate.rllib.core.rl_module.apis.inference_only_api import InferenceOnlyAPI
from skate.rllib.core.rl_module.rl_module import RLModule
from skate.rllib.core.rl_module.torch.torch_compile_config import TorchCompileConfig


class TorchRLModule(nn.Module, RLModule):
    """An RLModule whose networks are torch modules, set as attributes in ``setup()``.

    Args:
        *args: None.
        **kwargs: Arguments of :class:`RLModule`.
    """

    framework = "torch"

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        nn.Module.__init__(self)
        RLModule.__init__(self, *args, **kwargs)
        if self.inference_only:
            if isinstance(self, InferenceOnlyAPI):
                for path in self.get_non_inference_attributes():
                    _remove_attribute(self, path.split("."))
            # Dropout and batch statistics have no use without training; so no call has to switch modes.
            self.eval()

    def compile(self, compile_config: TorchCompileConfig) -> None:
        """Compile the methods ``_forward_train``, ``_forward_inference`` and ``_forward_exploration``.

        Args:
            compile_config: The arguments of ``torch.compile``.
        """
        for name in ("_forward_train", "_forward_inference", "_forward_exploration"):
            compiled = torch.compile(
                getattr(self, name),
                backend=compile_config.torch_dynamo_backend,
                mode=compile_config.torch_dynamo_mode,
                **compile_config.kwargs,
            )
            setattr(self, name, compiled)

    def forward_inference(self, batch: dict[str, Any], **kwargs: Any) -> dict[str, Any]:
        if not self.training:
            return self._forward_inference(batch, **kwargs)
        self.eval()
        try:
            return self._forward_inference(batch, **kwargs)
        finally:
            self.train()

    def forward_exploration(self, batch: dict[str, Any], **kwargs: Any) -> dict[str, Any]:
        if not self.training:
            return self._forward_exploration(batch, **kwargs)
        self.eval()
        try:
            return self._forward_exploration(batch, **kwargs)
        finally:
            self.train()

    def forward_train(self, batch: dict[str, Any], **kwargs: Any) -> dict[str, Any]:
        if not self.training:
            self.train()
        return RLModule.forward_train(self, batch, **kwargs)

    def _forward_inference(self, batch: dict[str, Any], **kwargs: Any) -> dict[str, Any]:
        with torch.no_grad():
            return self._forward(batch, **kwargs)

    def _forward_exploration(self, batch: dict[str, Any], **kwargs: Any) -> dict[str, Any]:
        if not torch.is_grad_enabled():
            return self._forward(batch, **kwargs)
        with torch.no_grad():
            return self._forward(batch, **kwargs)

    def exploration_networks(self) -> list[nn.Module] | None:
        """Return the networks that make the inputs of the distribution for exploration, one after the other.

        Returns:
            None if there is more to exploration than a pass through networks.
        """
        return None

    def begin_updates(self) -> None:
        """Prepare for the minibatches of an update, within which nothing but numbers changes in the networks."""

    def end_updates(self) -> None:
        """Forget what `begin_updates` has prepared."""

    def has_methods_of(self, base: type, *names: str) -> bool:
        """True if no subclass, and no code that changes this object, has other methods than a class has."""
        kind, own = type(self), vars(self)
        return all(getattr(kind, name) is getattr(base, name) and name not in own for name in names)

    def forward(self, batch: dict[str, Any], **kwargs: Any) -> dict[str, Any]:
        return (
            self.forward_exploration(batch, **kwargs)
            if self.inference_only
            else self.forward_train(batch, **kwargs)
        )

    def get_state(
        self,
        components: str | Collection[str] | None = None,
        *,
        not_components: str | Collection[str] | None = None,
        inference_only: bool = False,
        **kwargs: Any,
    ) -> dict[str, Any]:
        """Return the parameters as numpy arrays by name.

        Args:
            components: Taken for compatibility.
            not_components: Taken for compatibility.
            inference_only: Leave out what only training needs.
        """
        left_out: tuple[str, ...] = ()
        if inference_only and not self.inference_only and isinstance(self, InferenceOnlyAPI):
            left_out = tuple(self.get_non_inference_attributes())
        return {
            name: tensor.detach().cpu().numpy().copy()
            for name, tensor in self.state_dict().items()
            if not left_out or not any(name == part or name.startswith(part + ".") for part in left_out)
        }

    def set_state(self, state: dict[str, Any]) -> None:
        """Take parameters by name, as arrays or tensors.

        Raises:
            ValueError: parameters that inference needs are missing.
        """
        tensors = {name: torch.as_tensor(_writable(value)) for name, value in state.items()}
        missing, _ = self.load_state_dict(tensors, strict=False)
        if missing and self.inference_only:
            raise ValueError(
                f"the state has no {', '.join(missing)}, which {type(self).__name__} needs; it has "
                f"{', '.join(list(state)[:20])}"
            )

    def get_inference_action_dist_cls(self) -> Any:
        if self.action_dist_cls is not None:
            return self.action_dist_cls
        if isinstance(self.action_space, gym.spaces.Discrete):
            return TorchCategorical
        if isinstance(self.action_space, gym.spaces.Box):
            return TorchDiagGaussian
        raise ValueError(
            f"no default action distribution for {self.action_space}; set self.action_dist_cls in setup() of "
            f"{type(self).__name__}"
        )

    def get_exploration_action_dist_cls(self) -> Any:
        return self.get_inference_action_dist_cls()

    def get_train_action_dist_cls(self) -> Any:
        return self.get_inference_action_dist_cls()


def _remove_attribute(owner: Any, path: list[str]) -> None:
    for name in path[:-1]:
        owner = getattr(owner, name, None)
    if owner is not None and hasattr(owner, path[-1]):
        delattr(owner, path[-1])


def _writable(value: Any) -> Any:
    # Arrays from the object store are read-only, and torch warns about these.
    return value.copy() if isinstance(value, np.ndarray) and not value.flags.writeable else value


def to_tensors(columns: Mapping[str, Any], device: Any = None) -> dict[str, Any]:
    """Return columns, possibly nested, with every array as a tensor."""
    moved: dict[str, Any] = {}
    stays = device is None or torch.device(device).type == "cpu"
    for name, value in columns.items():
        if stays and type(value) is np.ndarray and value.dtype != object and value.flags.writeable:
            moved[name] = torch.from_numpy(value)
        elif isinstance(value, Mapping):
            moved[name] = to_tensors(value, device)
        elif isinstance(value, np.ndarray) and value.dtype != object:
            array = _writable(value)
            moved[name] = torch.from_numpy(array) if stays else torch.as_tensor(array, device=device)
        else:
            moved[name] = (
                value.to(device) if device is not None and isinstance(value, torch.Tensor) else value
            )
    return moved
