"""Deployments and applications, as created by `@serve.deployment` and `.bind`."""

from __future__ import annotations

import inspect
import io
from collections.abc import Callable, Sequence
from typing import Any

from skate import lazy_loader
from skate.serve.code import pickler
from skate.serve.config.actors import ACTOR_OPTIONS, actor_options
from skate.serve.config.autoscaling import AutoscalingConfig
from skate.serve.config.deployment import (
    BackpressureConfig,
    DeploymentActorConfig,
    DeploymentConfig,
    GangSchedulingConfig,
    LoggingConfig,
    RequestRouterConfig,
)
from skate.serve.config.wrong_field import WrongField
from skate.serve.identity import DEFAULT

#: Options that are fields of DeploymentConfig.
CONFIG_OPTIONS = (
    "num_replicas", "user_config", "max_ongoing_requests", "max_queued_requests", "backpressure_config",
    "autoscaling_config", "graceful_shutdown_wait_loop_s", "graceful_shutdown_timeout_s", "health_check_period_s",
    "health_check_timeout_s", "logging_config", "request_router_config", "max_constructor_retry_count",
    "gang_scheduling_config", "deployment_actors", "rolling_update_percentage", "max_surge_percent", "in_process",
)  # fmt: skip
#: The options that `num_replicas="auto"` overrides.
AUTO = "auto"


class Application:
    """A deployment with its arguments, which may be other applications; the argument of `serve.run`."""

    def __init__(self, bound_deployment: Deployment) -> None:
        self._bound_deployment = bound_deployment

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        raise AttributeError(
            f"'Application' object has no attribute {name!r}. It is the result of .bind(); pass it to "
            "serve.run or to another .bind()"
        )

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        raise TypeError(
            "'Application' object is not callable. Run it with serve.run(app) and call the returned handle"
        )

    def __repr__(self) -> str:
        return f"Application({self._bound_deployment!r})"


class Deployment:
    """A class or function to serve, with its options; created by `@serve.deployment`."""

    def __init__(
        self,
        name: str,
        deployment_config: DeploymentConfig,
        replica_config: ReplicaConfig,
        version: str | None = None,
        _internal: bool = False,
    ) -> None:
        if not _internal:
            raise RuntimeError(
                "The Deployment constructor should not be called directly. Use `@serve.deployment` instead."
            )
        self._name = name
        self._config = deployment_config
        self._replica = replica_config
        self._version = version
        #: The names of the explicitly given options.
        self._given: frozenset[str] = frozenset()

    # -- properties

    @property
    def name(self) -> str:
        """The name, unique within an application."""
        return self._name

    @property
    def version(self) -> str | None:
        """The version set by the user; replicas are replaced when it changes."""
        return self._version

    @property
    def func_or_class(self) -> Callable[..., Any] | str:
        """The class or function that is served, or its import path."""
        target: Callable[..., Any] | str = self._replica.func_or_class
        return target

    @property
    def num_replicas(self) -> int:
        """The desired number of replicas; with autoscaling, the initial number."""
        scaling = self._config.autoscaling_config
        if scaling is not None:
            return scaling.first
        return self._config.num_replicas or 1

    @property
    def user_config(self) -> Any:
        """The argument of `reconfigure`."""
        return self._config.user_config

    @property
    def max_ongoing_requests(self) -> int:
        """The number of requests that a replica processes concurrently."""
        return self._config.max_ongoing_requests

    @property
    def max_queued_requests(self) -> int:
        """The number of requests that may wait for a replica, per caller; -1 for no limit."""
        return self._config.max_queued_requests

    @property
    def backpressure_config(self) -> BackpressureConfig:
        """The response to rejected requests."""
        return self._config.backpressure_config

    @property
    def logging_config(self) -> dict[str, Any] | None:
        """The logging settings of the replicas, as the fields of a LoggingConfig."""
        logging_config = self._config.logging_config
        return None if logging_config is None else logging_config.model_dump()

    @property
    def ray_actor_options(self) -> dict[str, Any] | None:
        """The options of the replica actors."""
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

    def set_logging_config(self, logging_config: LoggingConfig | dict[str, Any] | None) -> None:
        """Change the logging settings of the replicas."""
        self._config = self._config.model_copy(update={"logging_config": logging_config})

    # -- derived objects

    def bind(self, *args: Any, **kwargs: Any) -> Application:
        """Return an application of this deployment. Arguments that are applications become handles in the
        constructor.
        """
        return Application(self.options(_init_args=args, _init_kwargs=kwargs))

    def options(
        self,
        func_or_class: Callable[..., Any] | str | None = None,
        name: str | DEFAULT = DEFAULT.VALUE,
        version: str | None | DEFAULT = DEFAULT.VALUE,
        num_replicas: int | str | None | DEFAULT = DEFAULT.VALUE,
        ray_actor_options: dict[str, Any] | None | DEFAULT = DEFAULT.VALUE,
        placement_group_bundles: list[dict[str, float]] | None | DEFAULT = DEFAULT.VALUE,
        placement_group_strategy: str | None | DEFAULT = DEFAULT.VALUE,
        placement_group_bundle_label_selector: list[dict[str, str]] | None | DEFAULT = DEFAULT.VALUE,
        max_replicas_per_node: int | None | DEFAULT = DEFAULT.VALUE,
        user_config: Any = DEFAULT.VALUE,
        max_ongoing_requests: int | DEFAULT = DEFAULT.VALUE,
        max_queued_requests: int | DEFAULT = DEFAULT.VALUE,
        backpressure_config: BackpressureConfig | dict[str, Any] | None | DEFAULT = DEFAULT.VALUE,
        autoscaling_config: AutoscalingConfig | dict[str, Any] | None | DEFAULT = DEFAULT.VALUE,
        graceful_shutdown_wait_loop_s: float | DEFAULT = DEFAULT.VALUE,
        graceful_shutdown_timeout_s: float | DEFAULT = DEFAULT.VALUE,
        health_check_period_s: float | DEFAULT = DEFAULT.VALUE,
        health_check_timeout_s: float | DEFAULT = DEFAULT.VALUE,
        logging_config: LoggingConfig | dict[str, Any] | None | DEFAULT = DEFAULT.VALUE,
        request_router_config: RequestRouterConfig | dict[str, Any] | None | DEFAULT = DEFAULT.VALUE,
        _init_args: tuple[Any, ...] | DEFAULT = DEFAULT.VALUE,
        _init_kwargs: dict[str, Any] | DEFAULT = DEFAULT.VALUE,
        _internal: bool = False,
        max_constructor_retry_count: int | DEFAULT = DEFAULT.VALUE,
        gang_scheduling_config: GangSchedulingConfig | dict[str, Any] | None | DEFAULT = DEFAULT.VALUE,
        deployment_actors: Sequence[DeploymentActorConfig | dict[str, Any]] | None | DEFAULT = DEFAULT.VALUE,
        max_surge_percent: float | None | DEFAULT = DEFAULT.VALUE,
        rolling_update_percentage: float | None | DEFAULT = DEFAULT.VALUE,
        in_process: bool | DEFAULT = DEFAULT.VALUE,
    ) -> Deployment:
        """Return the same deployment with other options. Raises ValueError for invalid options."""
        given = {
            key: value
            for key, value in locals().items()
            if key in (*CONFIG_OPTIONS, *ACTOR_OPTIONS) and value is not DEFAULT.VALUE
        }
        name = self._name if name is DEFAULT.VALUE else name
        version = self._version if version is DEFAULT.VALUE else version
        replica = self._replica.replaced(func_or_class, _init_args, _init_kwargs, given)
        config = configured(self._config, given)
        together(config, replica.actor_options)
        made = Deployment(checked_name(name), config, replica, version, _internal=True)
        made._given = self._given | given.keys()
        return made

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        raise RuntimeError(
            f"Deployments cannot be constructed directly. Create an application with {self._name}.bind(...) and "
            "pass that to serve.run"
        )

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, Deployment)
            and (self._name, self._version, self._config) == (other._name, other._version, other._config)
            and self._replica.same(other._replica)
        )

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"Deployment(name={self._name})"


class ReplicaConfig:
    """Code and arguments of a deployment, and the options of its actors."""

    def __init__(
        self,
        func_or_class: Callable[..., Any] | str,
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
        actor: dict[str, Any],
    ) -> None:
        self.func_or_class = func_or_class
        self.args = args
        self.kwargs = kwargs
        self.actor_options = actor

    def replaced(
        self,
        func_or_class: Callable[..., Any] | str | None,
        args: tuple[Any, ...] | DEFAULT,
        kwargs: dict[str, Any] | DEFAULT,
        given: dict[str, Any],
    ) -> ReplicaConfig:
        """Return a copy with some fields replaced."""
        if func_or_class is not None and not callable(func_or_class) and not isinstance(func_or_class, str):
            raise TypeError(
                f"@serve.deployment must be called on a class or function. This is a {type(func_or_class).__name__}"
            )
        if args is not DEFAULT.VALUE and not isinstance(args, (tuple, list)):
            raise TypeError(f"init_args must be a tuple. Got {type(args).__name__}")
        if kwargs is not DEFAULT.VALUE and not isinstance(kwargs, dict):
            raise TypeError(f"init_kwargs must be a dict. Got {type(kwargs).__name__}")
        if inspect.isfunction(func_or_class or self.func_or_class):
            for name, value in (("init_args", args), ("init_kwargs", kwargs)):
                if value is not DEFAULT.VALUE and value:
                    raise ValueError(
                        f"{name} not supported for function deployments. Use a class to bind arguments"
                    )
        return ReplicaConfig(
            func_or_class or self.func_or_class,
            self.args if args is DEFAULT.VALUE else tuple(args),
            self.kwargs if kwargs is DEFAULT.VALUE else kwargs,
            actor_options(self.actor_options, given),
        )

    def same(self, other: ReplicaConfig) -> bool:
        """Return True if both would create the same replicas."""
        return (self.func_or_class, self.args, self.kwargs, self.actor_options) == (
            other.func_or_class,
            other.args,
            other.kwargs,
            other.actor_options,
        )


def checked_name(name: str | DEFAULT) -> str:
    """Return the name of a deployment after checking it. Raises TypeError if it is not a string, ValueError
    if it is invalid.
    """
    if not isinstance(name, str):
        raise TypeError(f"name must be a string. Got {name!r}")
    if not name:
        raise ValueError("the name of a deployment must be a non-empty string, got ''")
    if "#" in name:
        raise ValueError(f"Deployment names must not contain the '#' character. Current name: {name}.")
    return name


def configured(base: DeploymentConfig, given: dict[str, Any]) -> DeploymentConfig:
    """Return `base` with the given options. Raises ValueError for invalid options and combinations."""
    wanted = {key: value for key, value in given.items() if key in CONFIG_OPTIONS}
    number = wanted.get("num_replicas", DEFAULT.VALUE)
    scaling = wanted.get("autoscaling_config")
    if number == AUTO:
        wanted["num_replicas"] = None
        wanted["autoscaling_config"] = _followed(scaling)
    elif number is not DEFAULT.VALUE and number is not None:
        if number in (0, "0") and number is not False:
            raise ValueError(
                "num_replicas is expected to larger than 0. Use at least 1, or delete the application"
            )
        if scaling is not None:
            raise ValueError(
                "Manually setting num_replicas is not allowed when autoscaling_config is provided. Set only one "
                "of them: a fixed number, or bounds for autoscaling"
            )
        if isinstance(number, str) and not number.lstrip("-").isdecimal():
            raise WrongField(
                f'`num_replicas` must be an int or "auto", but got: {number}. Input should be a valid integer',
                ("num_replicas",),
            )
        wanted.setdefault("autoscaling_config", None)
    elif scaling is not None:
        wanted["num_replicas"] = None
    elif number is None:
        wanted["num_replicas"] = 1
    if wanted.get("max_ongoing_requests", 0) is None:
        raise ValueError("`max_ongoing_requests` must be non-null, got None. Set a number of requests")
    for name in ("deployment_actors", "backpressure_config", "request_router_config"):
        if name in wanted and wanted[name] is None:
            wanted[name] = getattr(DeploymentConfig(), name)
    merged = {field: getattr(base, field) for field in base.__dataclass_fields__} | wanted
    return DeploymentConfig.model_validate(merged)


def _followed(scaling: AutoscalingConfig | dict[str, Any] | None) -> AutoscalingConfig:
    """Return the configuration for `num_replicas="auto"`, with explicit settings applied."""
    defaults = AutoscalingConfig.default()
    if isinstance(scaling, AutoscalingConfig):
        settings = {name: getattr(scaling, name) for name in scaling.model_dump(exclude_unset=True)}
    else:
        settings = scaling or {}
    return AutoscalingConfig.model_validate({"max_replicas": defaults.max_replicas, **settings})


def together(config: DeploymentConfig, actor: dict[str, Any]) -> None:
    """Raise ValueError for options that cannot be combined with gangs."""
    gang = config.gang_scheduling_config
    if gang is None:
        return
    if actor.get("max_replicas_per_node") is not None:
        raise ValueError(
            "Setting max_replicas_per_node is not allowed when gang_scheduling_config is provided. "
            "Remove one of them"
        )
    if actor.get("placement_group_strategy") is not None:
        raise ValueError(
            "Setting placement_group_strategy is not allowed when gang_scheduling_config is provided. Use "
            "gang_scheduling_config.gang_placement_strategy instead."
        )


def _check_serializable(func_or_class: Callable[..., Any]) -> None:
    """Raise TypeError, which names what is wrong inside it, if a class or a function cannot be sent to a replica."""
    try:
        pickler.dumps(func_or_class)
    except Exception as error:  # pickling may raise anything
        from skate.util import inspect_serializability  # only errors need it

        shown = getattr(func_or_class, "__name__", repr(func_or_class))
        out = io.StringIO()
        inspect_serializability(func_or_class, shown, print_file=out)
        why = out.getvalue()
        raise TypeError(
            f"Could not serialize the deployment {shown}, which was found to be non-serializable: {error}\n{why}"
        ) from error


def make(
    func_or_class: Callable[..., Any] | Application,
    name: str | DEFAULT,
    version: str | DEFAULT | None,
    given: dict[str, Any],
) -> Deployment:
    """Create a deployment from a class or a function, as the decorator does."""
    if isinstance(func_or_class, (Deployment, Application)):
        raise TypeError(f"{func_or_class!r} is already a deployment; change its options with .options(...)")
    if not callable(func_or_class):
        raise TypeError(
            "@serve.deployment must be called on a class or function. This is a "
            f"{type(func_or_class).__name__}: {func_or_class!r:.60}"
        )
    if name is DEFAULT.VALUE:
        name = getattr(func_or_class, "__name__", type(func_or_class).__name__)
    _check_serializable(func_or_class)
    replica = ReplicaConfig(func_or_class, (), {}, actor_options({}, given))
    version = None if version is DEFAULT.VALUE else version
    config = configured(DeploymentConfig(), given)
    together(config, replica.actor_options)
    made = Deployment(checked_name(name), config, replica, version, _internal=True)
    made._given = frozenset(given)
    return made


def deployment(
    _func_or_class: Callable[..., Any] | None = None,
    name: str | DEFAULT = DEFAULT.VALUE,
    version: str | None | DEFAULT = DEFAULT.VALUE,
    num_replicas: int | str | None | DEFAULT = DEFAULT.VALUE,
    ray_actor_options: dict[str, Any] | None | DEFAULT = DEFAULT.VALUE,
    placement_group_bundles: list[dict[str, float]] | None | DEFAULT = DEFAULT.VALUE,
    placement_group_strategy: str | None | DEFAULT = DEFAULT.VALUE,
    placement_group_bundle_label_selector: list[dict[str, str]] | None | DEFAULT = DEFAULT.VALUE,
    max_replicas_per_node: int | None | DEFAULT = DEFAULT.VALUE,
    user_config: Any = DEFAULT.VALUE,
    max_ongoing_requests: int | DEFAULT = DEFAULT.VALUE,
    max_queued_requests: int | DEFAULT = DEFAULT.VALUE,
    backpressure_config: BackpressureConfig | dict[str, Any] | None | DEFAULT = DEFAULT.VALUE,
    autoscaling_config: AutoscalingConfig | dict[str, Any] | None | DEFAULT = DEFAULT.VALUE,
    graceful_shutdown_wait_loop_s: float | DEFAULT = DEFAULT.VALUE,
    graceful_shutdown_timeout_s: float | DEFAULT = DEFAULT.VALUE,
    health_check_period_s: float | DEFAULT = DEFAULT.VALUE,
    health_check_timeout_s: float | DEFAULT = DEFAULT.VALUE,
    logging_config: LoggingConfig | dict[str, Any] | None | DEFAULT = DEFAULT.VALUE,
    request_router_config: RequestRouterConfig | dict[str, Any] | None | DEFAULT = DEFAULT.VALUE,
    max_constructor_retry_count: int | DEFAULT = DEFAULT.VALUE,
    gang_scheduling_config: GangSchedulingConfig | dict[str, Any] | None | DEFAULT = DEFAULT.VALUE,
    deployment_actors: Sequence[DeploymentActorConfig | dict[str, Any]] | None | DEFAULT = DEFAULT.VALUE,
    rolling_update_percentage: float | None | DEFAULT = DEFAULT.VALUE,
    max_surge_percent: float | None | DEFAULT = DEFAULT.VALUE,
    in_process: bool | DEFAULT = DEFAULT.VALUE,
) -> Any:
    """Make a class or function a deployment; used bare or with options.

    Raises ValueError for invalid options, TypeError for unknown ones.
    """
    given = {
        key: value
        for key, value in locals().items()
        if key in (*CONFIG_OPTIONS, *ACTOR_OPTIONS) and value is not DEFAULT.VALUE
    }
    if callable(_func_or_class) or isinstance(_func_or_class, Application):
        return make(_func_or_class, name, version, given)
    # Report errors at the decorator's own line. Like Ray, ignore any other value in place of the class.
    together(configured(DeploymentConfig(), given), actor_options({}, given))
    return lambda func_or_class: make(func_or_class, name, version, given)


# imported here because the conversion imports this module, and is rarely needed
__getattr__ = lazy_loader.getter(
    globals(), {"skate.serve.schema.conversion": ("deployment_to_schema", "schema_to_deployment")}
)
