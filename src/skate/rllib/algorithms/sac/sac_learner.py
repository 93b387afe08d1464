"""SACLearner: the weight of entropy in SAC's losses."""

from __future__ import annotations

import math
from collections.abc import Collection
from typing import Any

from skate.rllib.algorithms.dqn.dqn_learner import DQNLearner

LOGPS_KEY = "logps"
QF_TWIN_LOSS_KEY = "qf_twin_loss"


class SACLearner(DQNLearner):
    """What SAC needs besides its losses, in any framework; see :class:`Learner`."""

    def build(self) -> None:
        if self._is_built:
            return
        #: Logarithm of the weight of entropy, a trainable tensor of one element, by module id.
        self.curr_log_alpha: dict[str, Any] = {}
        super().build()

    def target_entropy_of(self, module_id: str) -> float:
        """Return the entropy that the weight is adapted to reach."""
        given = self.config_of(module_id).target_entropy
        if given is not None and given != "auto":
            return float(given)
        space = self.module[module_id].unwrapped().action_space
        return -float(math.prod(space.shape))

    def remove_module(self, module_id: str, **kwargs: Any) -> Any:
        specs = super().remove_module(module_id, **kwargs)
        self.curr_log_alpha.pop(module_id, None)
        return specs

    def get_state(
        self,
        components: str | Collection[str] | None = None,
        *,
        not_components: str | Collection[str] | None = None,
        **kwargs: Any,
    ) -> dict[str, Any]:
        state = super().get_state(components, not_components=not_components, **kwargs)
        if self._check_component("log_alpha", components, not_components):
            state["log_alpha"] = {
                i: float(alpha.detach().cpu()[0]) for i, alpha in self.curr_log_alpha.items()
            }
        return state

    def set_state(self, state: dict[str, Any]) -> None:
        super().set_state(state)
        for module_id, value in state.get("log_alpha", {}).items():
            if module_id in self.curr_log_alpha:
                self.curr_log_alpha[module_id].data.fill_(value)
