"""The actor around an env runner: samples a part of a round from known weights and lanes."""

from __future__ import annotations

import contextlib
import pickle
from collections.abc import Callable
from typing import Any

import torch

import skate
from skate.rllib.core import COMPONENT_RL_MODULE
from skate.rllib.env.sampling import lane_state
from skate.tune import registry

#: A larger state of lanes is not shipped; a runner that dies then begins its lanes anew.
MAX_LANE_BYTES = 1 << 20


class RunnerActor:
    """An env runner in a process of its own.

    Args:
        runner_class: The class of the runner.
        creator: The registered name of the environment and its function; None if it is not registered.
        kwargs: Arguments of the runner.
    """

    def __init__(
        self, runner_class: Any, creator: tuple[str, Callable[..., Any]] | None, kwargs: dict[str, Any]
    ) -> None:
        # Runners share the cores with each other and with the learner.
        torch.set_num_threads(1)
        if creator is not None:
            registry.register_env(*creator)
        self.runner = runner_class(**kwargs)
        self._connectors_version = 0
        self._ships_lanes = getattr(kwargs["config"], "seed", None) is not None

    def ready(self) -> Any:
        """Return the runner's spaces, once it is made."""
        return self.runner.get_spaces()

    def take(self, state: list[Any]) -> None:
        """Take the newest weights, and the newest states of connectors.

        Args:
            state: The version of the weights, and a reference to the state, which is read only if it is newer; the same of
                the connectors' states.
        """
        version, reference, connectors_version, connectors = state
        if connectors is not None and connectors_version > self._connectors_version:
            self.runner.set_state(skate.get(connectors))
            self._connectors_version = connectors_version
        if reference is not None and version > self.runner._weights_seq_no:
            self.runner.set_state({COMPONENT_RL_MODULE: skate.get(reference), "weights_seq_no": version})

    def sample_part(
        self, state: list[Any], lanes: bytes | None, kwargs: dict[str, Any]
    ) -> tuple[Any, Any, bytes | None]:
        """Sample one fragment.

        Args:
            state: See `take`.
            lanes: State of the lanes to begin with; None to continue.
            kwargs: Arguments of ``sample_rollout``; with ``as_episodes=True`` those of ``sample_episodes``.

        Returns:
            The fragment or the episodes, the metrics, and the state of the lanes after it, if the run has a seed.
        """
        self.take(state)
        if lanes is not None:
            self.runner.set_lane_state(pickle.loads(lanes))
        given = {name: value for name, value in kwargs.items() if name != "as_episodes"}
        sample = self.runner.sample_episodes if "as_episodes" in kwargs else self.runner.sample_rollout
        rollout = sample(**given)
        return rollout, self.runner.get_metrics(), self.lane_state()

    def lane_state(self) -> bytes | None:
        """Return the state of the lanes as bytes; None if the environments cannot be pickled, or are large."""
        if not self._ships_lanes:
            return None
        # An environment may refuse to be pickled in any way; its lanes are begun anew after a kill then.
        with contextlib.suppress(Exception):
            packed = lane_state.packed(self.runner.get_lane_state())
            return packed if len(packed) <= MAX_LANE_BYTES else None
        self._ships_lanes = False
        return None

    def call(self, function: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Return what a method, or a function of the runner, returns.

        Args:
            function: Name of a method, or a function that takes the runner.
            args: Positional arguments.
            kwargs: Keyword arguments.
        """
        if isinstance(function, str):
            return getattr(self.runner, function)(*args, **kwargs)
        return function(self.runner, *args, **kwargs)

    def stop(self) -> None:
        """Close the environments."""
        self.runner.stop()
