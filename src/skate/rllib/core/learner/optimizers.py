"""Optimizers of a learner, by module id and name, with the schedules of their learning rates."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Hashable, Sequence
from typing import Any

from skate.rllib.core import ALL_MODULES, DEFAULT_MODULE_ID
from skate.rllib.utils.schedules.scheduler import Scheduler

DEFAULT_OPTIMIZER = "default_optimizer"


class Optimizers:
    """The part of a learner that keeps its optimizers."""

    def __init__(self) -> None:
        self._params: dict[Hashable, Any] = {}
        self._optimizer_parameters: dict[Any, list[Hashable]] = {}
        self._named_optimizers: dict[str, Any] = {}
        self._module_optimizers: dict[str, list[str]] = defaultdict(list)
        self._optimizer_name_to_module: dict[str, str] = {}
        self._optimizer_lr_schedules: dict[Any, Scheduler] = {}

    def register_optimizer(
        self,
        *,
        module_id: str = ALL_MODULES,
        optimizer_name: str = DEFAULT_OPTIMIZER,
        optimizer: Any,
        params: Sequence[Any],
        lr_or_lr_schedule: Any = None,
    ) -> None:
        """Add an optimizer; call it from ``configure_optimizers_for_module``.

        Args:
            module_id: The module that it updates.
            optimizer_name: Its name, if the module has several.
            optimizer: The optimizer.
            params: The parameters that it updates.
            lr_or_lr_schedule: Learning rate, or ``[[step, rate], ...]``. Default: the optimizer's own.

        Raises:
            ValueError: the optimizer or the learning rate is not valid.
        """
        self._check_registered_optimizer(optimizer, params)
        name = f"{module_id}_{optimizer_name}"
        if name not in self._module_optimizers[module_id]:
            self._module_optimizers[module_id].append(name)
        self._optimizer_name_to_module[name] = module_id
        self._named_optimizers[name] = optimizer
        self._optimizer_parameters[optimizer] = [self.get_param_ref(parameter) for parameter in params]
        self._params.update((self.get_param_ref(parameter), parameter) for parameter in params)
        if lr_or_lr_schedule is None:
            return
        Scheduler.validate(
            fixed_value_or_schedule=lr_or_lr_schedule, setting_name="lr", description="learning rate"
        )
        schedule = Scheduler(lr_or_lr_schedule)
        self._optimizer_lr_schedules[optimizer] = schedule
        self._set_optimizer_lr(optimizer, schedule.get_current_value())

    def get_optimizer(
        self, module_id: str = DEFAULT_MODULE_ID, optimizer_name: str = DEFAULT_OPTIMIZER
    ) -> Any:
        """Return an optimizer.

        Args:
            module_id: The module that it updates.
            optimizer_name: Its name, with or without the module's id in front.

        Raises:
            KeyError: no such optimizer.
        """
        for name in (optimizer_name, f"{module_id}_{optimizer_name}"):
            if name in self._named_optimizers:
                return self._named_optimizers[name]
        known = ", ".join(self._named_optimizers) or "none"
        raise KeyError(f"no optimizer {optimizer_name!r} of module {module_id!r}; there are {known}")

    def get_optimizers_for_module(self, module_id: str = ALL_MODULES) -> list[tuple[str, Any]]:
        """Return pairs of name and optimizer of a module."""
        names = self._module_optimizers.get(module_id, [])
        return [(name[len(module_id) + 1 :], self._named_optimizers[name]) for name in names]

    def filter_param_dict_for_optimizer(
        self, param_dict: dict[Hashable, Any], optimizer: Any
    ) -> dict[Hashable, Any]:
        """Return the entries of a dict by parameter that belong to an optimizer."""
        mine = self._optimizer_parameters[optimizer]
        return {ref: param_dict[ref] for ref in mine if param_dict.get(ref) is not None}

    def _set_fixed_rates(self) -> None:
        """Give optimizers the configured rates: those of a restored state are older if a search has changed them."""
        for optimizer, schedule in self._optimizer_lr_schedules.items():
            if not schedule.use_schedule:
                self._set_optimizer_lr(optimizer, schedule.get_current_value())

    def _forget_optimizers(self, module_id: str) -> None:
        for name in self._module_optimizers.pop(module_id, []):
            optimizer = self._named_optimizers.pop(name)
            del self._optimizer_name_to_module[name]
            self._optimizer_lr_schedules.pop(optimizer, None)
            for ref in self._optimizer_parameters.pop(optimizer):
                self._params.pop(ref, None)

    def get_param_ref(self, param: Any) -> Hashable:
        """Return a hashable name of a parameter."""
        raise NotImplementedError

    def _check_registered_optimizer(self, optimizer: Any, params: Sequence[Any]) -> None:
        if not isinstance(params, list):
            raise ValueError(
                f"register_optimizer(params=...) has to be a list of parameters, not {type(params).__name__}"
            )

    @staticmethod
    def _set_optimizer_lr(optimizer: Any, lr: float) -> None:
        raise NotImplementedError
