"""Deployments and applications: what `@serve.deployment` and `.bind` make."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from skate.serve.config.autoscaling import AutoscalingConfig
from skate.serve.config.deployment import BackpressureConfig, DeploymentConfig, LoggingConfig
from skate.serve.identity import DEFAULT

#: Options that are fields of DeploymentConfig.
CONFIG_OPTIONS = (
    "num_replicas", "user_config", "max_ongoing_requests", "max_queued_requests", "backpressure_config",
    "autoscaling_config", "graceful_shutdown_wait_loop_s", "graceful_shutdown_timeout_s", "health_check_period_s",
    "health_check_timeout_s", "logging_config", "request_router_config", "max_constructor_retry_count",
    "gang_scheduling_config", "deployment_actors", "rolling_update_percentage", "max_surge_percent", "in_process",
)  # fmt: skip
#: And those that say what its actors are.
ACTOR_OPTIONS = (
    "ray_actor_options", "placement_group_bundles", "placement_group_strategy", "placement_group_bundle_label_selector",
    "max_replicas_per_node",
)  # fmt: skip
_ACTOR_OPTION_NAMES = (
    "runtime_env", "num_cpus", "num_gpus", "memory", "resources", "accelerator_type", "label_selector", "fallback_strategy",
)  # fmt: skip
#: What `num_replicas="auto"` overrides.
AUTO = "auto"


class Application:
    """A deployment with its arguments, and through them those of others: what `serve.run` takes."""

    def __init__(self, bound_deployment: Deployment) -> None:
        self._bound_deployment = bound_deployment

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        raise AttributeError(
            f"an application has no {name!r}; it is what .bind() returns, to be given to serve.run or to another .bind()"
        )

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        raise RuntimeError(
            "an application cannot be called; run it with serve.run(app) and call the handle that returns"
        )

    def __repr__(self) -> str:
        return f"Application({self._bound_deployment!r})"


class Deployment:
    """A class or function that is to be served, with its options; made by `@serve.deployment`."""

    def __init__(
        self,
        name: str,
        deployment_config: DeploymentConfig,
        replica_config: Any,
        version: str | None = None,
        _internal: bool = False,
    ) -> None:
        if not _internal:
            raise RuntimeError(
                "a deployment is made with the decorator @serve.deployment, not by calling Deployment"
            )
        self._name = name
        self._config = deployment_config
        self._replica = replica_config
        self._version = version

    # -- what it is

    @property
    def name(self) -> str:
        """Its name, which is unique within an application."""
        return self._name

    @property
    def version(self) -> str | None:
        """The version that was given; a change of it has replicas replaced."""
        return self._version

    @property
    def func_or_class(self) -> Callable[..., Any]:
        """What is served."""
        target: Callable[..., Any] = self._replica.func_or_class
        return target

    @property
    def num_replicas(self) -> int:
        """How many replicas there are to be; the first number if that is decided by load."""
        scaling = self._config.autoscaling_config
        if scaling is not None:
            return scaling.first
        return self._config.num_replicas or 1

    @property
    def user_config(self) -> Any:
        """What `reconfigure` is called with."""
        return self._config.user_config

    @property
    def max_ongoing_requests(self) -> int:
        """Requests that a replica works on at once."""
        return self._config.max_ongoing_requests

    @property
    def max_queued_requests(self) -> int:
        """Requests that may wait for a replica, at each caller; -1 for no limit."""
        return self._config.max_queued_requests

    @property
    def backpressure_config(self) -> BackpressureConfig:
        """What refused requests are answered with."""
        return self._config.backpressure_config

    @property
    def logging_config(self) -> LoggingConfig | None:
        """How its replicas write their log."""
        return self._config.logging_config

    @property
    def ray_actor_options(self) -> dict[str, Any] | None:
        """Options of its replicas' actors."""
        options: dict[str, Any] = self._replica.actor_options["ray_actor_options"]
        return options

    @property
    def init_args(self) -> tuple[Any, ...]:
        """Positional arguments of the constructor."""
        args: tuple[Any, ...] = self._replica.args
        return args

    @property
    def init_kwargs(self) -> dict[str, Any]:
        """Keyword arguments of the constructor."""
        kwargs: dict[str, Any] = self._replica.kwargs
        return kwargs

    def set_logging_config(self, logging_config: Any) -> None:
        """Change how its replicas write their log."""
        self._config = self._config.model_copy(update={"logging_config": logging_config})

    # -- what is made of it

    def bind(self, *args: Any, **kwargs: Any) -> Application:
        """An application of this deployment; arguments that are applications become handles in the constructor."""
        return Application(self.options(_init_args=args, _init_kwargs=kwargs))

    def options(
        self,
        func_or_class: Callable[..., Any] | None = None,
        name: Any = DEFAULT.VALUE,
        version: Any = DEFAULT.VALUE,
        num_replicas: Any = DEFAULT.VALUE,
        ray_actor_options: Any = DEFAULT.VALUE,
        placement_group_bundles: Any = DEFAULT.VALUE,
        placement_group_strategy: Any = DEFAULT.VALUE,
        placement_group_bundle_label_selector: Any = DEFAULT.VALUE,
        max_replicas_per_node: Any = DEFAULT.VALUE,
        user_config: Any = DEFAULT.VALUE,
        max_ongoing_requests: Any = DEFAULT.VALUE,
        max_queued_requests: Any = DEFAULT.VALUE,
        backpressure_config: Any = DEFAULT.VALUE,
        autoscaling_config: Any = DEFAULT.VALUE,
        graceful_shutdown_wait_loop_s: Any = DEFAULT.VALUE,
        graceful_shutdown_timeout_s: Any = DEFAULT.VALUE,
        health_check_period_s: Any = DEFAULT.VALUE,
        health_check_timeout_s: Any = DEFAULT.VALUE,
        logging_config: Any = DEFAULT.VALUE,
        request_router_config: Any = DEFAULT.VALUE,
        _init_args: Any = DEFAULT.VALUE,
        _init_kwargs: Any = DEFAULT.VALUE,
        _internal: bool = False,
        max_constructor_retry_count: Any = DEFAULT.VALUE,
        gang_scheduling_config: Any = DEFAULT.VALUE,
        deployment_actors: Any = DEFAULT.VALUE,
        rolling_update_percentage: Any = DEFAULT.VALUE,
        max_surge_percent: Any = DEFAULT.VALUE,
        in_process: Any = DEFAULT.VALUE,
    ) -> Deployment:
        """The same deployment with other options. Raises ValueError for options that cannot be."""
        given = {
            key: value
            for key, value in locals().items()
            if key in (*CONFIG_OPTIONS, *ACTOR_OPTIONS) and value is not DEFAULT.VALUE
        }
        name = self._name if name is DEFAULT.VALUE else name
        version = self._version if version is DEFAULT.VALUE else version
        replica = self._replica.replaced(func_or_class, _init_args, _init_kwargs, given)
        return Deployment(
            checked_name(name), configured(self._config, given), replica, version, _internal=True
        )

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        raise RuntimeError(
            f"the deployment {self._name!r} cannot be called; make an application with {self._name}.bind(...) and give that to "
            "serve.run"
        )

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, Deployment)
            and (self._name, self._version, self._config) == (other._name, other._version, other._config)
            and self._replica.same(other._replica)
        )

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"Deployment(name={self._name!r})"


class ReplicaConfig:
    """Code and arguments of a deployment, and what its actors are."""

    def __init__(
        self,
        func_or_class: Callable[..., Any],
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
        actor: dict[str, Any],
    ) -> None:
        self.func_or_class = func_or_class
        self.args = args
        self.kwargs = kwargs
        self.actor_options = actor

    def replaced(
        self, func_or_class: Callable[..., Any] | None, args: Any, kwargs: Any, given: dict[str, Any]
    ) -> ReplicaConfig:
        """The same with what was given in its place."""
        if args is not DEFAULT.VALUE and not isinstance(args, (tuple, list)):
            raise TypeError(f"_init_args is a tuple of arguments, not a {type(args).__name__}")
        if kwargs is not DEFAULT.VALUE and not isinstance(kwargs, dict):
            raise TypeError(f"_init_kwargs is a dict of arguments, not a {type(kwargs).__name__}")
        return ReplicaConfig(
            func_or_class or self.func_or_class,
            self.args if args is DEFAULT.VALUE else tuple(args),
            self.kwargs if kwargs is DEFAULT.VALUE else kwargs,
            actor_options(self.actor_options, given),
        )

    def same(self, other: ReplicaConfig) -> bool:
        """True if both would make the same replicas."""
        return (self.func_or_class, self.args, self.kwargs, self.actor_options) == (
            other.func_or_class,
            other.args,
            other.kwargs,
            other.actor_options,
        )


def checked_name(name: Any) -> str:
    """A name of a deployment; raises TypeError for anything but a text."""
    if not isinstance(name, str) or not name:
        raise TypeError(f"the name of a deployment is a text that is not empty, not {name!r}")
    if "#" in name:
        raise ValueError(f"the name of a deployment has no '#': {name!r}")
    return name


def configured(base: DeploymentConfig, given: dict[str, Any]) -> DeploymentConfig:
    """`base` with the options that were given. Raises ValueError for those that cannot be, or not together."""
    wanted = {key: value for key, value in given.items() if key in CONFIG_OPTIONS}
    number = wanted.get("num_replicas", DEFAULT.VALUE)
    scaling = wanted.get("autoscaling_config")
    if number == AUTO:
        wanted["num_replicas"] = None
        defaults = AutoscalingConfig.default()
        said = (
            scaling.model_dump(exclude_unset=True)
            if isinstance(scaling, AutoscalingConfig)
            else scaling or {}
        )
        wanted["autoscaling_config"] = AutoscalingConfig.model_validate(
            {"max_replicas": defaults.max_replicas, **said}
        )
    elif number is not DEFAULT.VALUE and number is not None:
        if isinstance(number, bool) or not isinstance(number, int):
            raise ValueError(f"num_replicas is a whole number or 'auto', not {number!r}")
        if number == 0:
            raise ValueError(
                "num_replicas is 0, which is no deployment; give at least 1, or delete the application"
            )
        if number < 0:
            raise ValueError(f"num_replicas must be above 0, not {number}")
        if scaling is not None:
            raise ValueError(
                "num_replicas and autoscaling_config are given together; give one: a number, or bounds for a number that "
                "follows the load"
            )
        wanted.setdefault("autoscaling_config", None)
    elif scaling is not None:
        wanted["num_replicas"] = None
    elif number is None:
        wanted["num_replicas"] = 1
    if wanted.get("max_ongoing_requests", 0) is None:
        raise ValueError("max_ongoing_requests is a number of requests, not None")
    merged = {field: getattr(base, field) for field in base.__dataclass_fields__} | wanted
    return DeploymentConfig.model_validate(merged)


def actor_options(base: dict[str, Any], given: dict[str, Any]) -> dict[str, Any]:
    """What replicas' actors are, with the options that were given in their places."""
    merged = {**base, **{key: value for key, value in given.items() if key in ACTOR_OPTIONS}}
    options = merged.get("ray_actor_options")
    if options is None:
        options = {}
    if not isinstance(options, dict):
        raise TypeError(f"ray_actor_options is a dict, such as {{'num_cpus': 2}}, not {options!r}")
    for key in options:
        if key not in _ACTOR_OPTION_NAMES:
            from skate.serve.config.checked import nearest  # only errors need it

            raise ValueError(
                f"ray_actor_options has no {key!r}{nearest(key, _ACTOR_OPTION_NAMES)} It has: {', '.join(_ACTOR_OPTION_NAMES)}"
            )
    bundles = merged.get("placement_group_bundles")
    limit = merged.get("max_replicas_per_node")
    if limit is not None and (isinstance(limit, bool) or not isinstance(limit, int) or not 1 <= limit <= 100):
        raise ValueError(f"max_replicas_per_node is a whole number from 1 to 100, not {limit!r}")
    if merged.get("placement_group_strategy") is not None and bundles is None:
        raise ValueError(
            "placement_group_strategy was given without placement_group_bundles; say what the group is made of"
        )
    if bundles is not None and merged.get("max_replicas_per_node") is not None:
        raise ValueError(
            "max_replicas_per_node and placement_group_bundles cannot be given together; leave one out"
        )
    merged["ray_actor_options"] = {"num_cpus": 1, **options}
    return merged


def make(func_or_class: Any, name: Any, version: Any, given: dict[str, Any]) -> Deployment:
    """What the decorator returns for a class or a function."""
    if isinstance(func_or_class, (Deployment, Application)):
        raise TypeError(f"{func_or_class!r} is a deployment already; change its options with .options(...)")
    if not callable(func_or_class):
        raise TypeError(
            f"@serve.deployment stands above a class or a function, not above a {type(func_or_class).__name__}"
        )
    if name is DEFAULT.VALUE:
        name = getattr(func_or_class, "__name__", type(func_or_class).__name__)
    replica = ReplicaConfig(func_or_class, (), {}, actor_options({}, given))
    version = None if version is DEFAULT.VALUE else version
    return Deployment(
        checked_name(name), configured(DeploymentConfig(), given), replica, version, _internal=True
    )


def deployment(
    _func_or_class: Callable[..., Any] | None = None,
    name: Any = DEFAULT.VALUE,
    version: Any = DEFAULT.VALUE,
    num_replicas: Any = DEFAULT.VALUE,
    ray_actor_options: Any = DEFAULT.VALUE,
    placement_group_bundles: Any = DEFAULT.VALUE,
    placement_group_strategy: Any = DEFAULT.VALUE,
    placement_group_bundle_label_selector: Any = DEFAULT.VALUE,
    max_replicas_per_node: Any = DEFAULT.VALUE,
    user_config: Any = DEFAULT.VALUE,
    max_ongoing_requests: Any = DEFAULT.VALUE,
    max_queued_requests: Any = DEFAULT.VALUE,
    backpressure_config: Any = DEFAULT.VALUE,
    autoscaling_config: Any = DEFAULT.VALUE,
    graceful_shutdown_wait_loop_s: Any = DEFAULT.VALUE,
    graceful_shutdown_timeout_s: Any = DEFAULT.VALUE,
    health_check_period_s: Any = DEFAULT.VALUE,
    health_check_timeout_s: Any = DEFAULT.VALUE,
    logging_config: Any = DEFAULT.VALUE,
    request_router_config: Any = DEFAULT.VALUE,
    max_constructor_retry_count: Any = DEFAULT.VALUE,
    gang_scheduling_config: Any = DEFAULT.VALUE,
    deployment_actors: Any = DEFAULT.VALUE,
    rolling_update_percentage: Any = DEFAULT.VALUE,
    max_surge_percent: Any = DEFAULT.VALUE,
    in_process: Any = DEFAULT.VALUE,
) -> Any:
    """Make a class or function a deployment; used bare or with options.

    Raises ValueError for options that cannot be, TypeError for unknown ones.
    """
    given = {
        key: value
        for key, value in locals().items()
        if key in (*CONFIG_OPTIONS, *ACTOR_OPTIONS) and value is not DEFAULT.VALUE
    }
    if _func_or_class is not None:
        return make(_func_or_class, name, version, given)
    configured(DeploymentConfig(), given)  # what cannot be is told at the decorator's own line
    actor_options({}, given)
    return lambda func_or_class: make(func_or_class, name, version, given)
