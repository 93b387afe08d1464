"""ConnectorPipelineV2: connectors in a row, each given what the one before returned."""

from __future__ import annotations

import functools
import logging
import re
from collections.abc import Sequence
from typing import Any

import gymnasium as gym

from skate.rllib.connectors.connector_v2 import ConnectorV2
from skate.rllib.utils.metrics import CONNECTOR_PIPELINE_TIMER, CONNECTOR_TIMERS, TIMERS

logger = logging.getLogger(__name__)


class ConnectorPipelineV2(ConnectorV2):
    """Connectors in a row.

    Args:
        input_observation_space: The space of observations that arrive.
        input_action_space: The space of actions that arrive.
        connectors: The connectors, first to last; or triples of a class and its arguments, by place and by name.
        kwargs: For subclasses.
    """

    def __init__(
        self,
        input_observation_space: gym.Space[Any] | None = None,
        input_action_space: gym.Space[Any] | None = None,
        *,
        connectors: Sequence[ConnectorV2 | tuple[Any, ...]] | None = None,
        **kwargs: Any,
    ) -> None:
        self.connectors: list[ConnectorV2] = [
            each[0](*each[1], **each[2]) if isinstance(each, tuple) else each for each in connectors or ()
        ]
        super().__init__(input_observation_space, input_action_space, **kwargs)

    def __len__(self) -> int:
        return len(self.connectors)

    def __call__(
        self,
        *,
        rl_module: Any,
        batch: dict[str, Any] | None = None,
        episodes: list[Any],
        explore: bool | None = None,
        shared_data: dict[str, Any] | None = None,
        metrics: Any = None,
        **kwargs: Any,
    ) -> Any:
        batch = {} if batch is None else batch
        shared = {} if shared_data is None else shared_data
        given: dict[str, Any] = {
            "rl_module": rl_module, "episodes": episodes, "explore": explore, "shared_data": shared, "metrics": metrics,
            **kwargs,
        }  # fmt: skip
        if metrics is None:
            return self.run(self.connectors, batch=batch, **given)
        prefix = tuple(kwargs.get("metrics_prefix_key", ()))
        with metrics.log_time((*prefix, CONNECTOR_PIPELINE_TIMER)):
            return self.run(self.connectors, batch=batch, **given)

    def timer(self, connector: ConnectorV2, metrics: Any, prefix: tuple[str, ...]) -> Any:
        """Return a context manager that logs the seconds of one connector.

        Args:
            connector: The connector.
            metrics: Where to log.
            prefix: The key above the timers.
        """
        return metrics.log_time((*prefix, TIMERS, CONNECTOR_TIMERS, snake_case(type(connector).__name__)))

    def run(
        self, connectors: Sequence[ConnectorV2], *, batch: Any, metrics: Any, **given: Any
    ) -> dict[str, Any]:
        """Return what some connectors of this pipeline make of a batch, one after the other.

        Args:
            connectors: The connectors, first to last.
            batch: The columns so far.
            metrics: A logger for the seconds of each, or None.
            given: The other arguments of connectors.
        """
        prefix = tuple(given.get("metrics_prefix_key", ()))
        for connector in connectors:
            if metrics is None:
                batch = self._run(connector, batch, metrics, given)
                continue
            with self.timer(connector, metrics, prefix):
                batch = self._run(connector, batch, metrics, given)
        found: dict[str, Any] = batch
        return found

    @staticmethod
    def _run(connector: ConnectorV2, batch: Any, metrics: Any, given: dict[str, Any]) -> dict[str, Any]:
        returned = connector(**{**given, "batch": batch, "metrics": metrics, "data": batch})
        if not isinstance(returned, dict):
            raise ValueError(
                f"{connector} returned {returned!r:.80}; __call__() has to return the batch, which is a dict"
            )
        return returned

    def _place(self, name_or_class: str | type) -> int:
        for place, connector in enumerate(self.connectors):
            if type(connector) is name_or_class or type(connector).__name__ == name_or_class:
                return place
        present = [type(connector).__name__ for connector in self.connectors]
        raise ValueError(f"this pipeline has no connector {name_or_class!r}; there are {present}")

    def remove(self, name_or_class: str | type) -> None:
        """Remove the first connector of a class; if there is none, a warning is logged."""
        try:
            del self.connectors[self._place(name_or_class)]
        except ValueError as error:
            logger.warning("nothing is removed: %s", error)
            return
        self._fix_spaces(self.input_observation_space, self.input_action_space)

    def insert_before(self, name_or_class: str | type, connector: ConnectorV2) -> ConnectorV2:
        """Insert a connector before the first one of a class, and return that one."""
        place = self._place(name_or_class)
        self.connectors.insert(place, connector)
        self._fix_spaces(self.input_observation_space, self.input_action_space)
        return self.connectors[place + 1]

    def insert_after(self, name_or_class: str | type, connector: ConnectorV2) -> ConnectorV2:
        """Insert a connector after the first one of a class, and return that one."""
        place = self._place(name_or_class)
        self.connectors.insert(place + 1, connector)
        self._fix_spaces(self.input_observation_space, self.input_action_space)
        return self.connectors[place]

    def prepend(self, connector: ConnectorV2) -> None:
        """Insert a connector at the beginning."""
        self.connectors.insert(0, connector)
        self._fix_spaces(self.input_observation_space, self.input_action_space)

    def append(self, connector: ConnectorV2) -> None:
        """Add a connector at the end."""
        self.connectors.append(connector)
        self._fix_spaces(self.input_observation_space, self.input_action_space)

    def __getitem__(self, key: str | int | type | slice) -> Any:
        if isinstance(key, int):
            return self.connectors[key]
        if isinstance(key, slice):
            raise NotImplementedError("a part of a pipeline is not a pipeline; use pipeline.connectors[a:b]")
        if isinstance(key, str):
            return [connector for connector in self.connectors if type(connector).__name__ == key]
        return [connector for connector in self.connectors if isinstance(connector, key)]

    def recompute_output_observation_space(
        self, input_observation_space: gym.Space[Any], input_action_space: gym.Space[Any]
    ) -> gym.Space[Any] | None:
        self._fix_spaces(input_observation_space, input_action_space)
        return self.observation_space

    def recompute_output_action_space(
        self, input_observation_space: gym.Space[Any], input_action_space: gym.Space[Any]
    ) -> gym.Space[Any] | None:
        self._fix_spaces(input_observation_space, input_action_space)
        return self.action_space

    @property
    def observation_space(self) -> gym.Space[Any] | None:
        """The space of observations that leave the last connector."""
        return self.connectors[-1].observation_space if self.connectors else self.input_observation_space

    @property
    def action_space(self) -> gym.Space[Any] | None:
        """The space of actions that leave the last connector."""
        return self.connectors[-1].action_space if self.connectors else self.input_action_space

    def _fix_spaces(self, observations: gym.Space[Any] | None, actions: gym.Space[Any] | None) -> None:
        for connector in self.connectors:
            connector.input_action_space = actions
            connector.input_observation_space = observations
            observations, actions = connector.observation_space, connector.action_space

    def get_state(
        self, components: Any = None, *, not_components: Any = None, **kwargs: Any
    ) -> dict[str, Any]:
        """Return the states of the connectors that have one, by class name.

        Args:
            components: Class names, or paths that begin with one; None for all.
            not_components: Class names or paths to leave out.
            kwargs: Passed to the connectors.
        """
        found = {}
        for connector in self.connectors:
            name = type(connector).__name__
            if self._check_component(name, components, not_components):
                state = connector.get_state(
                    self._get_subcomponents(name, components),
                    not_components=self._get_subcomponents(name, not_components),
                    **kwargs,
                )
                if state:
                    found[name] = state
        return found

    def set_state(self, state: dict[str, Any]) -> None:
        for connector in self.connectors:
            if type(connector).__name__ in state:
                connector.set_state(state[type(connector).__name__])

    def get_checkpointable_components(self) -> list[tuple[str, Any]]:
        """Return the connectors by class name."""
        return [(type(connector).__name__, connector) for connector in self.connectors]

    def get_ctor_args_and_kwargs(self) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """Return the spaces, and the connectors as triples of a class and its arguments."""
        connectors = [(type(each), *each.get_ctor_args_and_kwargs()) for each in self.connectors]
        return (self.input_observation_space, self.input_action_space), {"connectors": connectors}

    def reset_state(self) -> None:
        for connector in self.connectors:
            connector.reset_state()

    def merge_states(self, states: list[dict[str, Any]]) -> dict[str, Any]:
        merged = {}
        for connector in self.connectors:
            name = type(connector).__name__
            held = [state[name] for state in states if name in state]
            if held:
                merged[name] = connector.merge_states(held)
        return merged

    def __repr__(self, indentation: int = 0) -> str:
        lines = [" " * indentation + type(self).__name__]
        return "\n".join(lines + [connector.__str__(indentation + 4) for connector in self.connectors])


@functools.cache
def snake_case(name: str) -> str:
    """Return ``FrameStacking`` as ``frame_stacking``."""
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])", "_", name).lower()
