"""LearnerGroup: one learner in this process, or several that update together."""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Any

from skate.rllib.core import COMPONENT_LEARNER, COMPONENT_RL_MODULE
from skate.rllib.utils.checkpoints import Checkpointable


class LearnerGroup(Checkpointable):
    """The learners of an algorithm.

    Args:
        config: The algorithm's config; ``config.learner_class`` is the class of learners.
        module_spec: Spec of the modules. Default: the config's.
    """

    def __init__(self, *, config: Any, module_spec: Any = None, placement_group: Any = None) -> None:
        self.config = config
        self._module_spec = module_spec
        self._learner: Any = config.learner_class(config=config, module_spec=module_spec)
        self._learner.build()

    @property
    def is_local(self) -> bool:
        """True if the only learner is in this process."""
        return True

    @property
    def is_remote(self) -> bool:
        """True if the learners are actors."""
        return not self.is_local

    def __len__(self) -> int:
        return 1

    def update(self, rollouts: Any = None, **kwargs: Any) -> list[Any]:
        """Update the modules; see :meth:`Learner.update`.

        Args:
            rollouts: Fragments of columns, a list or a dict of lists by module id.
            **kwargs: Arguments of :meth:`Learner.update`.

        Returns:
            What each learner measured.
        """
        return [self._learner.update(rollouts, **kwargs)]

    def foreach_learner(self, func: Callable[..., Any] | str, **kwargs: Any) -> list[Any]:
        """Call a function with every learner, or a method by its name.

        Args:
            func: A function of the learner, or the name of a method.
            **kwargs: Arguments of the function.

        Returns:
            One result per learner.
        """
        if isinstance(func, str):
            return [getattr(self._learner, func)(**kwargs)]
        return [func(self._learner, **kwargs)]

    def take_td_errors(self) -> dict[str, Any]:
        """Return the errors of all rows since the last call, by module id, for prioritized replay."""
        errors: dict[str, Any] = self._learner.take_td_errors()
        return errors

    def get_weights(self, module_ids: Collection[str] | None = None) -> dict[str, Any]:
        """Return the parameters of modules as numpy arrays.

        Args:
            module_ids: The modules. Default: all.
        """
        state: dict[str, Any] = self._learner.module.get_state(components=module_ids)
        return state

    def set_weights(self, weights: dict[str, Any]) -> None:
        """Take parameters by module id."""
        self.foreach_learner(lambda learner: learner.module.set_state(weights))

    def add_module(self, *, module_id: str, module_spec: Any, **kwargs: Any) -> Any:
        """Add a module to every learner; see :meth:`Learner.add_module`."""
        return self.foreach_learner("add_module", module_id=module_id, module_spec=module_spec, **kwargs)[0]

    def remove_module(self, module_id: str, **kwargs: Any) -> Any:
        """Remove a module from every learner; see :meth:`Learner.remove_module`."""
        return self.foreach_learner("remove_module", module_id=module_id, **kwargs)[0]

    def get_state(
        self,
        components: str | Collection[str] | None = None,
        *,
        not_components: str | Collection[str] | None = None,
        **kwargs: Any,
    ) -> dict[str, Any]:
        if not self._check_component(COMPONENT_LEARNER, components, not_components):
            return {}
        inner = self._get_subcomponents(COMPONENT_LEARNER, components)
        left_out = self._get_subcomponents(COMPONENT_LEARNER, not_components)
        return {COMPONENT_LEARNER: self._learner.get_state(inner, not_components=left_out, **kwargs)}

    def set_state(self, state: dict[str, Any]) -> None:
        if COMPONENT_LEARNER in state:
            self.foreach_learner(lambda learner: learner.set_state(state[COMPONENT_LEARNER]))
        elif COMPONENT_RL_MODULE in state:
            self.set_weights(state[COMPONENT_RL_MODULE])

    def get_ctor_args_and_kwargs(self) -> tuple[tuple[Any, ...], dict[str, Any]]:
        return (), {"config": self.config, "module_spec": self._module_spec}

    def get_checkpointable_components(self) -> list[tuple[str, Any]]:
        return [(COMPONENT_LEARNER, self._learner)]

    def shutdown(self) -> None:
        """Release the learners."""
        self._learner.shutdown()
