"""Records of a Serve config file; errors name the invalid field."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from skate.serve.config.actors import ACTOR_OPTIONS, actor_options
from skate.serve.config.autoscaling import AutoscalingPolicy
from skate.serve.config.checked import Checked, not_negative
from skate.serve.config.deployment import (
    BackpressureConfig,
    DeploymentConfig,
    GangSchedulingConfig,
    LoggingConfig,
    RequestRouterConfig,
)
from skate.serve.config.http import ControllerOptions, ProxyLocation
from skate.serve.config.wrong_field import WrongField
from skate.serve.deployment import CONFIG_OPTIONS, configured, together
from skate.serve.graph import checked_prefix
from skate.serve.identity import DEFAULT
from skate.serve.schema.tracing import TracingConfig


@dataclass(kw_only=True)
class HTTPOptionsSchema(Checked):
    """`http_options` of a file."""

    host: str = "0.0.0.0"
    port: int = 8000
    root_path: str = ""
    request_timeout_s: float | None = None
    keep_alive_timeout_s: int = 90
    ssl_keyfile: str | None = None
    ssl_certfile: str | None = None
    ssl_keyfile_password: str | None = None
    ssl_ca_certs: str | None = None
    #: Skate's own, as in HTTPOptions; by default the value of the environment variable.
    max_request_body_bytes: int | None = None
    max_request_head_bytes: int = 64 * 1024
    max_request_headers: int = 256
    request_head_timeout_s: float | None = 30.0
    request_body_timeout_s: float | None = 60.0
    unread_answer_timeout_s: float | None = 300.0


@dataclass(kw_only=True)
class gRPCOptionsSchema(Checked):
    """`grpc_options` of a file."""

    port: int = 9000
    grpc_servicer_functions: list[Any] = field(default_factory=list)
    request_timeout_s: float | None = None
    enable_reflection: bool = True


@dataclass(kw_only=True)
class RayActorOptionsSchema(Checked):
    """`ray_actor_options` of a file."""

    runtime_env: dict[str, Any] = field(default_factory=dict)
    num_cpus: float | None = None
    num_gpus: float | None = None
    memory: float | None = None
    resources: dict[str, Any] = field(default_factory=dict)
    accelerator_type: str | None = None
    label_selector: dict[str, str] | None = None
    fallback_strategy: list[dict[str, Any]] | None = None

    def check(self) -> None:
        """Check that amounts are not negative."""
        not_negative(
            "RayActorOptionsSchema", num_cpus=self.num_cpus, num_gpus=self.num_gpus, memory=self.memory
        )


@dataclass(kw_only=True)
class DeploymentSchema(Checked):
    """A deployment of a file. Its options replace those in the code."""

    name: str
    num_replicas: Any = DEFAULT.VALUE
    max_ongoing_requests: Any = DEFAULT.VALUE
    max_queued_requests: Any = DEFAULT.VALUE
    backpressure_config: Any = DEFAULT.VALUE
    user_config: Any = DEFAULT.VALUE
    autoscaling_config: Any = DEFAULT.VALUE
    graceful_shutdown_wait_loop_s: Any = DEFAULT.VALUE
    graceful_shutdown_timeout_s: Any = DEFAULT.VALUE
    health_check_period_s: Any = DEFAULT.VALUE
    health_check_timeout_s: Any = DEFAULT.VALUE
    ray_actor_options: Any = DEFAULT.VALUE
    placement_group_bundles: Any = DEFAULT.VALUE
    placement_group_strategy: Any = DEFAULT.VALUE
    placement_group_bundle_label_selector: Any = DEFAULT.VALUE
    max_replicas_per_node: Any = DEFAULT.VALUE
    logging_config: Any = DEFAULT.VALUE
    request_router_config: Any = DEFAULT.VALUE
    gang_scheduling_config: Any = DEFAULT.VALUE
    deployment_actors: Any = DEFAULT.VALUE
    rolling_update_percentage: Any = DEFAULT.VALUE
    max_surge_percent: Any = DEFAULT.VALUE

    def check(self) -> None:
        """Check the options, one by one and together."""
        if isinstance(self.num_replicas, int) and self.autoscaling_config not in (None, DEFAULT.VALUE):
            raise ValueError(
                f"Manually setting num_replicas is not allowed when autoscaling_config is provided. Deployment "
                f"{self.name!r} has both; set one of them, or num_replicas: auto"
            )
        self._records()
        for name, value in self.given().items():
            if name == "gang_scheduling_config":
                continue  # checked below, with the number of replicas
            try:
                alone = {name: value}
                if name == "autoscaling_config" and self.num_replicas == "auto":
                    alone["num_replicas"] = "auto"  # which has bounds of its own
                configured(DeploymentConfig(), alone)
                if name == "ray_actor_options":
                    actor_options({}, {name: value})
            except WrongField:
                raise  # it already has the path to the field
            except (ValueError, TypeError) as error:
                raise WrongField(str(error), (name,)) from None
        given = self.given()
        actor = {name: value for name, value in given.items() if name in ACTOR_OPTIONS and value is not None}
        if "placement_group_bundles" in actor:
            # The code may ask for less than one CPU, so that a bundle without a CPU may be right.
            actor_options({}, {"ray_actor_options": {"num_cpus": 0}, **actor})
        elif "placement_group_bundle_label_selector" in actor:
            raise ValueError(
                "Setting bundle_label_selector is not allowed when placement_group_bundles is not provided. Set both, or "
                "neither"
            )
        together(configured(DeploymentConfig(), given), actor)
        self._whole_gangs()

    def _whole_gangs(self) -> None:
        """Check that the bounds of autoscaling are whole gangs."""
        gang, scaling = self.gang_scheduling_config, self.autoscaling_config
        if not isinstance(gang, GangSchedulingConfig) or scaling in (None, DEFAULT.VALUE):
            return
        bounds = scaling if isinstance(scaling, dict) else scaling.model_dump(exclude_unset=True)
        for name in ("min_replicas", "max_replicas", "initial_replicas"):
            number = bounds.get(name)
            if number is not None and number % gang.gang_size:
                raise ValueError(
                    f"autoscaling_config.{name} ({number}) must be a multiple of gang_size ({gang.gang_size})."
                )

    def _records(self) -> None:
        """Convert dicts to records."""
        for name, record in _RECORDS.items():
            value = getattr(self, name)
            if isinstance(value, dict):
                try:
                    setattr(self, name, record.model_validate(value))
                except WrongField as error:
                    raise error.inside(name) from None

    def is_autoscaling_configured(self) -> bool:
        """Return True if the deployment is autoscaled."""
        return self.num_replicas == "auto" or self.autoscaling_config not in (None, DEFAULT.VALUE)

    def given(self) -> dict[str, Any]:
        """Return the options that were set."""
        names = (*CONFIG_OPTIONS, *ACTOR_OPTIONS)
        values = {name: getattr(self, name) for name in names if name in self.__dataclass_fields__}
        found = {name: value for name, value in values.items() if value is not DEFAULT.VALUE}
        options = found.get("ray_actor_options")
        if isinstance(options, RayActorOptionsSchema):
            found["ray_actor_options"] = options.model_dump(exclude_unset=True)
        return found


#: The fields of a deployment that contain a record.
_RECORDS: dict[str, type[Checked]] = {
    "ray_actor_options": RayActorOptionsSchema,
    "logging_config": LoggingConfig,
    "backpressure_config": BackpressureConfig,
    "request_router_config": RequestRouterConfig,
    "gang_scheduling_config": GangSchedulingConfig,
}


@dataclass(kw_only=True)
class ServeApplicationSchema(Checked):
    """An application of a file."""

    name: str = "default"
    route_prefix: str | None = "/"
    import_path: str
    runtime_env: dict[str, Any] = field(default_factory=dict)
    host: str = "0.0.0.0"
    port: int = 8000
    deployments: list[DeploymentSchema] = field(default_factory=list)
    autoscaling_policy: dict[str, Any] | None = None
    args: dict[str, Any] = field(default_factory=dict)
    logging_config: LoggingConfig | None = None
    external_scaler_enabled: bool = False

    def __post_init__(self) -> None:
        policy: Any = self.autoscaling_policy
        if isinstance(policy, AutoscalingPolicy):
            self.autoscaling_policy = policy.model_dump()
        super().__post_init__()

    @staticmethod
    def get_empty_schema_dict() -> dict[str, Any]:
        """Return the record of an empty application."""
        return {"import_path": "", "runtime_env": {}, "deployments": []}

    def check(self) -> None:
        """Check the route prefix, the import path and the names of the deployments."""
        try:
            checked_prefix(self.route_prefix)
        except ValueError as error:
            raise WrongField(str(error), ("route_prefix",)) from None
        wrong = _import_path(self.import_path)
        if wrong:
            raise WrongField(
                f"Got invalid import path \"{self.import_path}\". An import path {wrong}. Write it as 'module:name', such as "
                "'my_program:app'",
                ("import_path",),
            )
        _differ("deployment names", "name", [each.name for each in self.deployments], "deployments")
        scaled = [each.name for each in self.deployments if each.is_autoscaling_configured()]
        if self.external_scaler_enabled and scaled:
            names = ", ".join(f'"{name}"' for name in scaled)
            raise ValueError(
                f"external_scaler_enabled is set to True, but the following deployment(s) have autoscaling "
                f"configured: {names}. "
                "Remove one of them: either Serve or an external system scales the replicas"
            )

    @property
    def deployment_names(self) -> list[str]:
        """The names of the deployments."""
        return [each.name for each in self.deployments]


def _import_path(path: str) -> str:
    """Return the error in an import path; empty if the path is valid."""
    mark = ":" if ":" in path else "."
    if path.count(":") > 1:
        return "may have at most one colon"
    if mark not in path:
        return "must contain at least on dot or colon separating the module from the application"
    if path.startswith(mark) or path.endswith(mark):
        return f"may not start or end with a {'colon' if mark == ':' else 'dot'}"
    return ""


@dataclass(kw_only=True)
class ServeDeploySchema(Checked):
    """A whole file."""

    proxy_location: ProxyLocation = ProxyLocation.EveryNode
    http_options: HTTPOptionsSchema = field(default_factory=HTTPOptionsSchema)
    grpc_options: gRPCOptionsSchema = field(default_factory=gRPCOptionsSchema)
    controller_options: ControllerOptions | None = None
    logging_config: LoggingConfig | None = None
    tracing_config: TracingConfig | None = None
    applications: list[ServeApplicationSchema]
    target_capacity: float | None = None

    @staticmethod
    def get_empty_schema_dict() -> dict[str, Any]:
        """Return the record of an empty config."""
        return {"applications": []}

    def check(self) -> None:
        """Check that names and routes are unique, and that the capacity is a percentage."""
        for at, each in enumerate(self.applications):
            if not each.name:
                raise WrongField("Application names must be nonempty.", ("applications", at, "name"))
            for part in ("host", "port"):
                if part in each.model_fields_set:
                    setting = f'Host "{each.host}"' if part == "host" else f"Port {each.port}"
                    raise WrongField(
                        f"{setting} is set in the config for application `{each.name}`. Please remove it and set "
                        f"{part} in the top "
                        "level deploy config only.",
                        ("applications", at, part),
                    )
        _differ("application names", "name", [each.name for each in self.applications])
        _differ("route prefixes", "route_prefix", [each.route_prefix for each in self.applications])
        not_negative("ServeDeploySchema", target_capacity=self.target_capacity)
        if self.target_capacity is not None and self.target_capacity > 100:
            raise ValueError(
                f"target_capacity must be a percentage, got {self.target_capacity}. Input should be less than or "
                "equal to 100"
            )


#: Ray's messages about duplicates.
_TWICE = {
    "application names": 'Found multiple configs for application "{}". Please remove all duplicates. ',
    "route prefixes": 'Found duplicate applications for route prefix "{}". Please ensure each application\'s route_prefix '
    "is unique. ",
}


def _differ(what: str, named: str, names: list[str | None], of: str = "applications") -> None:
    again = [at for at, name in enumerate(names) if name is not None and name in names[:at]]
    if again:
        twice = '", "'.join(sorted({str(names[at]) for at in again}))
        pairs = [
            f"number {names.index(names[at]) + 1} and number {at + 1} of the {of} both have {names[at]!r}"
            for at in again
        ]
        raise WrongField(
            f"{_TWICE.get(what, '').format(twice)}{what} must be unique, but {', and '.join(pairs)}",
            (of, again[0], named),
        )
