"""Settings of autoscaling, and the input of autoscaling policies."""

from __future__ import annotations

import enum
import functools
import pickle
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from skate.serve.config.checked import Checked, as_json, not_negative, positive

#: The default interval of metrics, in seconds.
DEFAULT_METRICS_INTERVAL_S = 10.0
DEFAULT_POLICY = "ray.serve.autoscaling_policy:default_autoscaling_policy"


def path_of(named: Any) -> str:
    """Return the import path of a function or class, as in configs."""
    return f"{named.__module__}.{getattr(named, '__name__', type(named).__name__)}"


class AggregationFunction(str, enum.Enum):
    """The function that aggregates the metrics of a look-back period."""

    MEAN = "mean"
    MAX = "max"
    MIN = "min"


@dataclass(kw_only=True)
class AutoscalingPolicy(Checked):
    """An autoscaling policy: `module:function` or a function, called with an AutoscalingContext."""

    policy_function: Any = DEFAULT_POLICY
    policy_kwargs: dict[str, Any] = field(default_factory=dict)

    def check(self) -> None:
        """Check that the function or its import path is valid, and that its arguments are JSON."""
        if not isinstance(self.policy_function, str) and not callable(self.policy_function):
            raise ValueError(
                f"AutoscalingPolicy.policy_function must be a function or its import path, got "
                f"{self.policy_function!r}. Input should "
                "be a valid string"
            )
        as_json("policy_kwargs", self.policy_kwargs)
        # The field keeps the import path. The function is kept as well, because some cannot be imported elsewhere.
        if callable(self.policy_function):
            self.__dict__["_given_function"] = self.policy_function
            self.policy_function = path_of(self.policy_function)
        elif not self.is_default_policy_function():
            self._function()  # raises an error now if the function does not exist

    @classmethod
    def from_serialized_policy_def(
        cls, policy_config: dict[str, Any], serialized_policy_def: bytes
    ) -> AutoscalingPolicy:
        """Build a policy with the function of `get_serialized_policy_def`, regardless of its import path."""
        made = cls(**policy_config)
        made.set_serialized_policy_def(serialized_policy_def)
        return made

    def get_serialized_policy_def(self) -> bytes:
        """Return the pickled function."""
        from skate import cloudpickle  # takes 15 ms and is rarely needed

        packed: bytes | None = self.__dict__.get("_packed")
        return packed or cloudpickle.dumps(self._function())

    def set_serialized_policy_def(self, serialized_policy_def: bytes) -> None:
        """Set the function to one that was pickled elsewhere."""
        self.__dict__["_packed"] = serialized_policy_def
        self.__dict__.pop("_made", None)

    def serialize_policy(self) -> None:
        """Pickle the function now, while it can be imported."""
        self.set_serialized_policy_def(self.get_serialized_policy_def())

    def is_default_policy_function(self) -> bool:
        """Return True if no other function was set."""
        return bool(self.policy_function == DEFAULT_POLICY)

    def get_policy(self) -> Callable[..., Any]:
        """Return the function, imported if necessary. A class is instantiated once, and its object returned."""
        made: Callable[..., Any] | None = self.__dict__.get("_made")
        if made is None:
            made = self.__dict__["_made"] = self._make()
        return made

    def __hash__(self) -> int:
        return hash((self.policy_function, repr(self.policy_kwargs)))

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in self.__dict__.items() if name != "_made"}

    def _function(self) -> Any:
        packed = self.__dict__.get("_packed")
        if packed:
            return pickle.loads(packed)
        given = self.__dict__.get("_given_function")
        if given is not None:
            return given
        from skate.serve.code.import_path import load  # imported only for custom policies

        return load(self.policy_function)

    def _make(self) -> Callable[..., Any]:
        found: Callable[..., Any] = self._function()
        if isinstance(found, type):
            policy: Callable[..., Any] = found(**self.policy_kwargs)
            return policy
        if not self.policy_kwargs:
            return found
        return functools.partial(found, **self.policy_kwargs)


@dataclass(kw_only=True)
class AutoscalingConfig(Checked):
    """The limits and the speed of a deployment's autoscaling. Times are in seconds.

    `target_ongoing_requests` is the desired number of requests per replica, including waiting ones.
    """

    min_replicas: int = 1
    initial_replicas: int | None = None
    max_replicas: int = 1
    target_ongoing_requests: float = 2
    metrics_interval_s: float = DEFAULT_METRICS_INTERVAL_S
    look_back_period_s: float = 30.0
    smoothing_factor: float = 1.0
    upscale_smoothing_factor: float | None = None
    downscale_smoothing_factor: float | None = None
    upscaling_factor: float | None = None
    downscaling_factor: float | None = None
    downscale_delay_s: float = 600.0
    downscale_to_zero_delay_s: float | None = None
    upscale_delay_s: float = 30.0
    aggregation_function: AggregationFunction = AggregationFunction.MEAN
    policy: AutoscalingPolicy = field(default_factory=AutoscalingPolicy)

    def check(self) -> None:
        """Check that the limits are consistent."""
        name = "AutoscalingConfig"
        not_negative(name, min_replicas=self.min_replicas, downscale_delay_s=self.downscale_delay_s)
        not_negative(name, upscale_delay_s=self.upscale_delay_s, initial_replicas=self.initial_replicas)
        not_negative(name, downscale_to_zero_delay_s=self.downscale_to_zero_delay_s)
        positive(name, max_replicas=self.max_replicas, target_ongoing_requests=self.target_ongoing_requests)
        positive(name, metrics_interval_s=self.metrics_interval_s, look_back_period_s=self.look_back_period_s)
        positive(name, smoothing_factor=self.smoothing_factor, upscaling_factor=self.upscaling_factor)
        positive(name, downscaling_factor=self.downscaling_factor)
        positive(name, upscale_smoothing_factor=self.upscale_smoothing_factor)
        positive(name, downscale_smoothing_factor=self.downscale_smoothing_factor)
        if self.min_replicas > self.max_replicas:
            raise ValueError(
                f"max_replicas ({self.max_replicas}) must be greater than or equal to min_replicas "
                f"({self.min_replicas})!"
            )
        initial = self.initial_replicas
        if initial is not None and initial < self.min_replicas:
            raise ValueError(
                f"min_replicas ({self.min_replicas}) must be less than or equal to initial_replicas ({initial})!"
            )
        if initial is not None and initial > self.max_replicas:
            raise ValueError(
                f"max_replicas ({self.max_replicas}) must be greater than or equal to initial_replicas ({initial})!"
            )

    @classmethod
    def default(cls) -> AutoscalingConfig:
        """Return the configuration for `num_replicas="auto"`."""
        return cls(min_replicas=1, max_replicas=100, target_ongoing_requests=2)

    def get_upscaling_factor(self) -> float:
        """Return the factor applied to a scale-up step."""
        return self.upscaling_factor or self.upscale_smoothing_factor or self.smoothing_factor

    def get_downscaling_factor(self) -> float:
        """Return the factor applied to a scale-down step."""
        return self.downscaling_factor or self.downscale_smoothing_factor or self.smoothing_factor

    def get_target_ongoing_requests(self) -> float:
        """Return the desired number of requests per replica."""
        return self.target_ongoing_requests

    @property
    def first(self) -> int:
        """The initial number of replicas."""
        return self.min_replicas if self.initial_replicas is None else self.initial_replicas


@dataclass(frozen=True)
class TimeStampedValue:
    """A number that a replica recorded, and when, in seconds since the epoch."""

    timestamp: float
    value: float = field(compare=False)


@dataclass
class AutoscalingContext:
    """The input of an autoscaling policy. Times are in seconds since the epoch.

    The numbers of requests and the metrics may be given as functions without parameters, which are called on first access.

    Attributes:
        aggregated_metrics: the results of `record_autoscaling_stats` over the look-back period, aggregated: a dict of
            numbers by replica for each metric.
        raw_metrics: the results themselves: lists of TimeStampedValue instead of numbers.
    """

    deployment_id: Any = None
    deployment_name: str = ""
    app_name: str | None = None
    current_num_replicas: int = 0
    target_num_replicas: int = 0
    running_replicas: list[Any] = field(default_factory=list)
    total_num_requests: Any = 0.0
    total_queued_requests: Any = 0.0
    aggregated_metrics: Any = None
    raw_metrics: Any = None
    capacity_adjusted_min_replicas: int = 0
    capacity_adjusted_max_replicas: int = 0
    policy_state: dict[str, Any] | None = None
    last_scale_up_time: float | None = None
    last_scale_down_time: float | None = None
    current_time: float | None = None
    config: AutoscalingConfig | None = None

    def __getattribute__(self, name: str) -> Any:
        """Return a field; call the function that was given instead of it, once."""
        value = super().__getattribute__(name)
        if name in _LAZY and callable(value):
            value = value()
            setattr(self, name, value)
        return value

    @property
    def total_running_requests(self) -> float:
        """The number of requests that replicas are processing."""
        running: float = self.total_num_requests - (self.total_queued_requests or 0)
        return running


_LAZY = frozenset({"total_num_requests", "total_queued_requests", "aggregated_metrics", "raw_metrics"})
