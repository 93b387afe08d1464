"""SelfSupervisedLossAPI: modules that have a loss of their own."""

from __future__ import annotations

import abc
from typing import Any


class SelfSupervisedLossAPI(abc.ABC):
    """A module that computes its own loss, whatever the algorithm."""

    @abc.abstractmethod
    def compute_self_supervised_loss(
        self,
        *,
        learner: Any,
        module_id: str,
        config: Any,
        batch: dict[str, Any],
        fwd_out: dict[str, Any],
        **kwargs: Any,
    ) -> Any:
        """Return the loss of the module.

        Args:
            learner: The learner that updates the module; ``learner.metrics`` takes figures.
            module_id: Id of the module.
            config: The algorithm's config for this module.
            batch: The columns of the minibatch.
            fwd_out: What ``forward_train`` returned for it.
        """
