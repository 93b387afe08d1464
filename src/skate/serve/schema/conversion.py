"""Conversion of a deployment to its record in a config file, and back."""

from __future__ import annotations

from typing import Any

from skate.serve.config.actors import actor_options
from skate.serve.config.deployment import DeploymentConfig
from skate.serve.deployment import Deployment, ReplicaConfig, configured
from skate.serve.schema.deploy import DeploymentSchema, RayActorOptionsSchema


def deployment_to_schema(d: Deployment) -> DeploymentSchema:
    """Return the options that were set explicitly for a deployment."""
    options: dict[str, Any] = {}
    for name in d._given:
        if name in DeploymentSchema.__dataclass_fields__:
            options[name] = d._replica.actor_options.get(name, getattr(d._config, name, None))
    if "ray_actor_options" in options:
        options["ray_actor_options"] = RayActorOptionsSchema.model_validate(options["ray_actor_options"])
    if d._config.autoscaling_config is not None:
        options["autoscaling_config"] = d._config.autoscaling_config
        options.pop("num_replicas", None)
    return DeploymentSchema(name=d.name, **options)


def schema_to_deployment(s: DeploymentSchema) -> Deployment:
    """Return a deployment with these options and no code; set the code with `.options(func_or_class=...)`."""
    given = {name: value for name, value in s.given().items() if value is not None}
    config = configured(DeploymentConfig(), given)
    made = Deployment(
        s.name, config, ReplicaConfig("", (), {}, actor_options({}, given)), None, _internal=True
    )
    made._given = frozenset(given)
    return made
