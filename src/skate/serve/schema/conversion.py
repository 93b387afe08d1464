"""From a deployment to the record of a config file that says the same, and back."""

from __future__ import annotations

from typing import Any

from skate.serve.config.actors import actor_options
from skate.serve.config.deployment import DeploymentConfig
from skate.serve.deployment import Deployment, ReplicaConfig, configured
from skate.serve.schema.deploy import DeploymentSchema, RayActorOptionsSchema


def deployment_to_schema(d: Deployment) -> DeploymentSchema:
    """Return the options explicitly given for a deployment, without those left at their defaults."""
    said: dict[str, Any] = {}
    for name in d._given:
        if name in DeploymentSchema.__dataclass_fields__:
            said[name] = d._replica.actor_options.get(name, getattr(d._config, name, None))
    if "ray_actor_options" in said:
        said["ray_actor_options"] = RayActorOptionsSchema.model_validate(said["ray_actor_options"])
    if d._config.autoscaling_config is not None:
        said["autoscaling_config"] = d._config.autoscaling_config
        said.pop("num_replicas", None)
    return DeploymentSchema(name=d.name, **said)


def schema_to_deployment(s: DeploymentSchema) -> Deployment:
    """A deployment with these options and no code: give it some with `.options(func_or_class=...)` before it is served."""
    given = {name: value for name, value in s.given().items() if value is not None}
    config = configured(DeploymentConfig(), given)
    made = Deployment(
        s.name, config, ReplicaConfig("", (), {}, actor_options({}, given)), None, _internal=True
    )
    made._given = frozenset(given)
    return made
