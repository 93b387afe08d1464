"""Settings of a deployment."""

from __future__ import annotations

import enum
import pickle
from dataclasses import dataclass, field
from typing import Any

from skate.serve.config.autoscaling import AutoscalingConfig, path_of
from skate.serve.config.checked import Checked, as_json, not_negative, positive
from skate.serve.config.wrong_field import WrongField

DEFAULT_ROUTER = "ray.serve._private.request_router:PowerOfTwoChoicesRequestRouter"


@dataclass(kw_only=True)
class BackpressureConfig(Checked):
    """The HTTP response to rejected requests."""

    status_code: int = 503
    retry_after_s: float | None = None

    def check(self) -> None:
        """Check that the status is one that tells clients to retry later."""
        if self.status_code not in (429, 503):
            raise ValueError(
                f"BackpressureConfig.status_code must be 429 or 503, got {self.status_code}. Input should be 503 or 429"
            )
        not_negative("BackpressureConfig", retry_after_s=self.retry_after_s)


@dataclass(kw_only=True)
class RequestRouterConfig(Checked):
    """The class that chooses a replica for each request of a handle, with its times in seconds."""

    request_router_class: Any = DEFAULT_ROUTER
    request_router_kwargs: dict[str, Any] = field(default_factory=dict)
    request_routing_stats_period_s: float = 10
    request_routing_stats_timeout_s: float = 30
    initial_backoff_s: float = 0.025
    backoff_multiplier: float = 2
    max_backoff_s: float = 0.5

    def check(self) -> None:
        """Check that times are above zero, and that the class or its import path is valid."""
        name = "RequestRouterConfig"
        positive(name, request_routing_stats_period_s=self.request_routing_stats_period_s)
        positive(name, request_routing_stats_timeout_s=self.request_routing_stats_timeout_s)
        positive(name, initial_backoff_s=self.initial_backoff_s, backoff_multiplier=self.backoff_multiplier)
        positive(name, max_backoff_s=self.max_backoff_s)
        as_json("request_router_kwargs", self.request_router_kwargs)
        if not isinstance(self.request_router_class, str) and not callable(self.request_router_class):
            raise ValueError(
                f"{name}.request_router_class must be a class or its import path, got {self.request_router_class!r}. "
                "Input should be "
                "a valid string"
            )
        if callable(self.request_router_class):
            self.__dict__["_given_class"] = self.request_router_class
            self.request_router_class = path_of(self.request_router_class)
        elif not self.is_default_request_router():
            self.get_request_router_class()  # raises an error now if the class does not exist

    def __hash__(self) -> int:
        return hash(tuple(map(repr, self.model_dump().values())))

    def is_default_request_router(self) -> bool:
        """Return True if no other class was set."""
        return bool(self.request_router_class == DEFAULT_ROUTER)

    @classmethod
    def from_serialized_request_router_cls(
        cls, request_router_config: dict[str, Any], serialized_request_router_cls: bytes
    ) -> RequestRouterConfig:
        """Build a config with the class of `get_serialized_request_router_cls`, regardless of its import path."""
        made = cls(**request_router_config)
        made.set_serialized_request_router_cls(serialized_request_router_cls)
        return made

    def get_serialized_request_router_cls(self) -> bytes:
        """Return the pickled class."""
        from skate import cloudpickle  # takes 15 ms and is rarely needed

        packed: bytes | None = self.__dict__.get("_packed")
        return packed or cloudpickle.dumps(self.get_request_router_class())

    def set_serialized_request_router_cls(self, serialized_request_router_cls: bytes) -> None:
        """Set the class to one that was pickled elsewhere."""
        self.__dict__["_packed"] = serialized_request_router_cls

    def get_request_router_class(self) -> Any:
        """Return the class, imported if necessary; None for the built-in one."""
        packed = self.__dict__.get("_packed")
        if packed:
            return pickle.loads(packed)
        given = self.__dict__.get("_given_class")
        if given is not None or self.is_default_request_router():
            return given
        from skate.serve.code.import_path import load  # imported only for custom routers

        return load(self.request_router_class)


class GangPlacementStrategy(str, enum.Enum):
    """The placement of a gang's replicas."""

    PACK = "PACK"
    SPREAD = "SPREAD"


class GangRuntimeFailurePolicy(str, enum.Enum):
    """The restart policy when a member of a gang fails."""

    RESTART_GANG = "RESTART_GANG"
    RESTART_REPLICA = "RESTART_REPLICA"


@dataclass(kw_only=True)
class GangSchedulingConfig(Checked):
    """Settings of gangs: replicas that start together or not at all, and are replaced together.

    The replicas of a gang are on one placement group: close to each other (PACK) or on different nodes (SPREAD), as far as
    that is possible.
    """

    gang_size: int
    gang_placement_strategy: GangPlacementStrategy = GangPlacementStrategy.PACK
    runtime_failure_policy: GangRuntimeFailurePolicy = GangRuntimeFailurePolicy.RESTART_GANG

    def check(self) -> None:
        """Check the size and the failure policy."""
        if self.gang_size < 1:
            raise WrongField(
                f"GangSchedulingConfig.gang_size must be at least 1, got {self.gang_size}. Input should be greater than or "
                "equal to 1",
                ("gang_size",),
            )
        if self.runtime_failure_policy is GangRuntimeFailurePolicy.RESTART_REPLICA:
            raise NotImplementedError(
                "RESTART_REPLICA policy is not yet implemented, in Ray either; RESTART_GANG replaces the whole gang"
            )


@dataclass(kw_only=True)
class DeploymentActorConfig(Checked):
    """An actor that all replicas of a deployment share."""

    name: str
    actor_class: Any
    init_args: Any = field(default_factory=tuple)
    init_kwargs: dict[str, Any] = field(default_factory=dict)
    actor_options: dict[str, Any] = field(default_factory=dict)

    def check(self) -> None:
        """Check that a class or its import path is given."""
        if not isinstance(self.actor_class, str) and not callable(
            getattr(self.actor_class, "remote", self.actor_class)
        ):
            raise ValueError(
                f"DeploymentActorConfig.actor_class must be an actor class or its import path, got {self.actor_class!r}. Input "
                "should be a type"
            )

    def get_actor_class(self) -> Any:
        """Return the class as an actor class, imported if necessary."""
        found = self.actor_class
        if isinstance(found, str):
            from skate.serve.code.import_path import load  # imported only for import paths

            found = load(found)
        if hasattr(found, "options"):
            return found
        import skate  # imported here because settings alone do not need all of Skate

        return skate.remote(found)


class EncodingType(str, enum.Enum):
    """The format of a line of the log."""

    TEXT = "TEXT"
    JSON = "JSON"


#: The attributes of Python's log records.
_LOG_ATTRIBUTES = (
    "args", "asctime", "created", "exc_info", "exc_text", "filename", "funcName", "levelname", "levelno", "lineno", "message",
    "module", "msecs", "msg", "name", "pathname", "process", "processName", "relativeCreated", "stack_info", "taskName", "thread",
    "threadName",
)  # fmt: skip


@dataclass(kw_only=True)
class LoggingConfig(Checked):
    """The settings of the replicas' logs."""

    encoding: str = "TEXT"
    log_level: Any = "INFO"
    logs_dir: str | None = None
    enable_access_log: bool = True
    additional_log_standard_attrs: list[str] = field(default_factory=list)

    def check(self) -> None:
        """Check the encoding, the level and the attributes."""
        self.encoding = getattr(self.encoding, "value", self.encoding)
        if self.encoding not in ("TEXT", "JSON"):
            raise ValueError(
                f"LoggingConfig.encoding must be 'TEXT' or 'JSON', got {self.encoding!r}. Got '{self.encoding}' for encoding. "
                "Encoding must be one of ['TEXT', 'JSON']"
            )
        import logging  # takes 10 ms and is needed only with these settings

        level = self.log_level
        if isinstance(level, str):
            self.log_level = level.upper()
            known = (
                logging.getLevelNamesMapping()
                if hasattr(logging, "getLevelNamesMapping")
                else logging._nameToLevel
            )
            if self.log_level not in known:
                raise ValueError(f'Got "{level}" for log_level. log_level must be one of {list(known)}.')
        elif isinstance(level, int) and not isinstance(level, bool):
            if level not in logging._levelToName:
                raise ValueError(
                    f'Got "{level}" for log_level. log_level must be one of {list(logging._levelToName)}.'
                )
            self.log_level = logging.getLevelName(level)
        else:
            raise ValueError(
                f"LoggingConfig.log_level must be a level or its name, got {level!r}. Input should be a valid string"
            )
        for name in self.additional_log_standard_attrs:
            if name not in _LOG_ATTRIBUTES:
                raise ValueError(
                    f"Unknown attribute '{name}'. Additional log standard attributes must be one "
                    f"of {', '.join(_LOG_ATTRIBUTES)}"
                )
        self.additional_log_standard_attrs = list(dict.fromkeys(self.additional_log_standard_attrs))


@dataclass(kw_only=True)
class DeploymentConfig(Checked):
    """The settings of a deployment with their defaults; times in seconds."""

    num_replicas: int | None = 1
    max_ongoing_requests: int = 5
    max_queued_requests: int = -1
    backpressure_config: BackpressureConfig = field(default_factory=BackpressureConfig)
    user_config: Any = None
    graceful_shutdown_wait_loop_s: float = 2.0
    graceful_shutdown_timeout_s: float = 20.0
    health_check_period_s: float = 10.0
    health_check_timeout_s: float = 30.0
    autoscaling_config: AutoscalingConfig | None = None
    request_router_config: RequestRouterConfig = field(default_factory=RequestRouterConfig)
    logging_config: LoggingConfig | None = None
    max_constructor_retry_count: int | None = None
    gang_scheduling_config: GangSchedulingConfig | None = None
    deployment_actors: list[DeploymentActorConfig] = field(default_factory=list)
    rolling_update_percentage: float = 0.2
    max_surge_percent: float = 0.0
    #: Skate's own: the deployment has an object in each replica of the deployment it is bound to, and no replicas.
    in_process: bool = False

    def check(self) -> None:
        """Check the ranges of numbers."""
        name = "DeploymentConfig"
        not_negative(name, num_replicas=self.num_replicas)
        positive(name, max_ongoing_requests=self.max_ongoing_requests)
        if self.in_process and (self.autoscaling_config is not None or (self.num_replicas or 1) > 1):
            raise ValueError(
                "an in_process deployment has one object in each replica of the deployment it is bound to; set "
                "num_replicas or autoscaling_config there, or remove in_process"
            )
        if self.max_queued_requests < -1:
            raise ValueError(
                "max_queued_requests must be -1 (no limit) or a positive integer. Use 0 to disable queueing. Got "
                f"{self.max_queued_requests}"
            )
        if not 0 <= self.max_surge_percent <= 100:
            limit = (
                "less than or equal to 100" if self.max_surge_percent > 100 else "greater than or equal to 0"
            )
            raise ValueError(
                f"max_surge_percent must be a percentage, got {self.max_surge_percent}. Input should be {limit}"
            )
        as_json("user_config", self.user_config)
        gang = self.gang_scheduling_config
        fixed = self.num_replicas if self.autoscaling_config is None else None
        if gang is not None and fixed and fixed % gang.gang_size:
            raise ValueError(
                f"num_replicas ({self.num_replicas}) must be a multiple of gang_size ({gang.gang_size}). Gangs must be complete"
            )
        not_negative(name, graceful_shutdown_wait_loop_s=self.graceful_shutdown_wait_loop_s)
        not_negative(name, graceful_shutdown_timeout_s=self.graceful_shutdown_timeout_s)
        positive(name, health_check_period_s=self.health_check_period_s)
        positive(name, health_check_timeout_s=self.health_check_timeout_s)
        positive(name, max_constructor_retry_count=self.max_constructor_retry_count)
        names = [each.name for each in self.deployment_actors]
        if len(set(names)) < len(names):
            twice = sorted({each for each in names if names.count(each) > 1})
            raise ValueError(f"deployment_actors must have unique names. Duplicate name(s): {twice}")
        if not 0 < self.rolling_update_percentage <= 1:
            raise ValueError(
                f"rolling_update_percentage must be above 0 and at most 1, got {self.rolling_update_percentage}. Input "
                + "should be "
                + ("greater than 0" if self.rolling_update_percentage <= 0 else "less than or equal to 1")
            )

    @property
    def lightweight(self) -> dict[str, Any]:
        """The settings that a running replica applies without a restart."""
        return {"user_config": self.user_config, "max_ongoing_requests": self.max_ongoing_requests}
