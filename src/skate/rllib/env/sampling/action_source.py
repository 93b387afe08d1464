"""One pass of a module over a batch of observations: outputs, actions, and log-probabilities if they are wanted."""

from __future__ import annotations

import inspect
from typing import Any

import torch

from skate.rllib.core.columns import Columns
from skate.rllib.core.models.torch.dense_pass import DensePass, dense_pass_of


def share_stream(modules: Any, generator: torch.Generator) -> None:
    """Let modules that draw random actions themselves, such as DQN's, draw them from one stream.

    Args:
        modules: The modules by id.
        generator: The stream.
    """
    for module in modules.values():
        if hasattr(module, "exploration_generator"):
            module.exploration_generator = generator


class ActionSource:
    """Chooses actions with a module.

    Args:
        module: The module; its weights may change between calls.
        generator: The random stream of actions.
    """

    def __init__(self, module: Any, generator: torch.Generator) -> None:
        self.module = module
        self.generator = generator
        self._explored = module.get_exploration_action_dist_cls()
        self._inferred = module.get_inference_action_dist_cls()
        # A distribution of the user's may not take a generator; it draws from torch's own stream then.
        self._takes_generator = self._explored is not None and takes_generator(self._explored)
        # Modules that draw random actions themselves, such as DQN's, take them from this stream as well.
        whole = module.unwrapped() if hasattr(module, "unwrapped") else module
        self._draws = whole if hasattr(whole, "exploration_generator") else None
        self._networks = getattr(whole, "exploration_networks", None)
        #: The pass that stands for the module in a fragment, and the last one that was made.
        self._pass: DensePass | None = None
        self._made: DensePass | None = None

    def prepare(self, explore: bool) -> bool:
        """Look whether plain networks alone choose the actions that `act` is asked for from now on.

        Args:
            explore: True for exploration.

        Returns:
            True if they do; then outputs are tensors of their own for each call.
        """
        self._pass = None
        if not explore or self._networks is None or self._draws is not None or not self._takes_generator:
            return False
        networks = None if self.module.training else self._networks()
        if networks is None:
            return False
        if self._made is None or not self._made.is_of(networks):
            self._made = dense_pass_of(networks)
        self._pass = self._made
        if self._pass is None:
            return False
        self._pass.begin()
        return True

    def forward(self, batch: dict[str, Any], explore: bool, t: int) -> dict[str, Any]:
        """Return the outputs of the module.

        Args:
            batch: Columns with a leading batch dimension.
            explore: True for exploration, False for inference.
            t: Steps sampled so far, by which schedules of exploration go.
        """
        if explore:
            if self._draws is not None:
                self._draws.exploration_generator = self.generator
            out: dict[str, Any] = self.module.forward_exploration(batch, t=t)
        else:
            out = self.module.forward_inference(batch)
        return out

    def act(self, batch: dict[str, Any], explore: bool, t: int) -> tuple[dict[str, Any], Any]:
        """Return the outputs of the module and the actions: `forward` and `actions` in one call."""
        if self._pass is not None:
            inputs = self._pass(batch[Columns.OBS])
            drawn = self._explored.from_logits(inputs).sample(generator=self.generator)
            return {Columns.ACTION_DIST_INPUTS: inputs}, drawn
        if not explore or self._draws is not None or not self._takes_generator:
            out = self.forward(batch, explore, t)
            return out, self.actions(out, explore)
        out = self.module.forward_exploration(batch, t=t)
        if Columns.ACTIONS in out:
            return out, out[Columns.ACTIONS]
        drawn = self._explored.from_logits(out[Columns.ACTION_DIST_INPUTS]).sample(generator=self.generator)
        return out, drawn

    def distribution(self, inputs: Any, explore: bool) -> Any:
        """Return the distribution that outputs of the module stand for."""
        return (
            self._explored.from_logits(inputs)
            if explore
            else self._inferred.from_logits(inputs).to_deterministic()
        )

    def draw(self, distribution: Any) -> Any:
        """Draw one action per row from this stream."""
        if self._takes_generator:
            return distribution.sample(generator=self.generator)
        return distribution.sample()

    def logp(self, inputs: Any, actions: Any) -> Any:
        """Return the log-probabilities of actions while exploring, all as arrays.

        Args:
            inputs: What the module returned for the distribution.
            actions: The actions that were drawn from it.
        """
        found = self.distribution(torch.from_numpy(inputs), True).logp(torch.from_numpy(actions))
        return found.numpy()

    def actions(self, out: dict[str, Any], explore: bool) -> Any:
        """Return the actions that the outputs hold, or draw them."""
        if Columns.ACTIONS in out:
            return out[Columns.ACTIONS]
        return self.draw(self.distribution(out[Columns.ACTION_DIST_INPUTS], explore))


def takes_generator(distribution_class: Any) -> bool:
    """True if the ``sample`` method takes a random generator."""
    parameters = inspect.signature(distribution_class.sample).parameters.values()
    return any(each.name == "generator" or each.kind is each.VAR_KEYWORD for each in parameters)
