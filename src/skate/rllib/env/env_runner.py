"""EnvRunner: the contract of what samples from environments, in the driver or as an actor."""

from __future__ import annotations

import abc
from collections.abc import Callable
from typing import Any

from skate.rllib.utils.metrics.metrics_logger import MetricsLogger


class StepFailedRecreateEnvError(Exception):
    """Raised by an environment to be made anew without an error in the log.

    ``.fault_tolerance(restart_failed_sub_environments=True)`` has to allow it.
    """


class SampleSizeError(ValueError, AssertionError):
    """Raised where `sample` is asked for an amount that there cannot be; Ray raises an AssertionError."""


def check_sample_size(num_timesteps: int | None, num_episodes: int | None) -> None:
    """Check the amount that `sample` is asked for.

    Args:
        num_timesteps: Steps, or None.
        num_episodes: Episodes, or None.

    Raises:
        SampleSizeError: Both are given, or one is negative.
    """
    if num_timesteps is not None and num_episodes is not None:
        raise SampleSizeError(
            f"num_timesteps={num_timesteps} and num_episodes={num_episodes} exclude each other; give one"
        )
    for name, amount in (("num_timesteps", num_timesteps), ("num_episodes", num_episodes)):
        if amount is not None and amount < 0:
            raise SampleSizeError(f"{name}={amount} was asked for; it has to be 0 or more")


class EnvRunner(abc.ABC):
    """Samples from copies of one environment.

    Args:
        config: The algorithm's config.
        kwargs: ``worker_index`` (0 for the local runner, remote ones count from 1; without it the runner belongs to no
            group), ``num_workers`` (default ``config.num_env_runners``), and what a subclass takes.
    """

    def __init__(self, *, config: Any, **kwargs: Any) -> None:
        #: A copy of its own, which a function that runs on this runner may change.
        self.config: Any = config.copy(copy_frozen=False) if hasattr(config, "copy") else config
        self._is_alone = kwargs.get("worker_index") is None
        self.worker_index: int = kwargs.get("worker_index") or 0
        self.num_workers: int = kwargs.get("num_workers", getattr(config, "num_env_runners", 0)) or 0
        self.num_env_steps_sampled_lifetime = 0
        self.metrics = MetricsLogger()

    @abc.abstractmethod
    def sample(self, **kwargs: Any) -> Any:
        """Return newly sampled episodes."""

    @abc.abstractmethod
    def make_env(self) -> None:
        """Make the environments, in the place of those there are."""

    @abc.abstractmethod
    def make_module(self) -> None:
        """Make the module that acts."""

    @abc.abstractmethod
    def get_spaces(self) -> dict[str, Any]:
        """Return pairs of observation space and action space by module id."""

    @abc.abstractmethod
    def assert_healthy(self) -> None:
        """Raise AssertionError if this runner cannot sample."""

    def get_metrics(self) -> dict[str, Any]:
        """Return the statistics logged since the last call, for `MetricsLogger.aggregate`."""
        return self.metrics.reduce()

    def sample_get_state_and_metrics(
        self, sample_kwargs: dict[str, Any] | None = None, get_state_kwargs: dict[str, Any] | None = None
    ) -> tuple[Any, Any, Any]:
        """Sample, and return the samples, the state and the metrics."""
        samples = self.sample(**(sample_kwargs or {}))
        return samples, self.get_state(**(get_state_kwargs or {})), self.get_metrics()

    @abc.abstractmethod
    def get_state(
        self, components: Any = None, *, not_components: Any = None, **kwargs: Any
    ) -> dict[str, Any]:
        """Return the state as a picklable dict."""

    @abc.abstractmethod
    def set_state(self, state: dict[str, Any]) -> None:
        """Continue from the given state."""

    def stop(self) -> None:  # noqa: B027
        """Close the environments."""

    def ping(self) -> str:
        """Return ``"pong"``."""
        return "pong"

    def apply(self, func: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        """Return what a function of this runner returns."""
        return func(self, *args, **kwargs)
