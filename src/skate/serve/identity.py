"""Names of deployments and replicas."""

from __future__ import annotations

import enum
from typing import NamedTuple

CONTROLLER_NAME = "SERVE_CONTROLLER_ACTOR"
NAMESPACE = "serve"
REPLICA_PREFIX = "SERVE_REPLICA::"
#: Methods of a deployment's class that record statistics of a replica.
ROUTING_STATS = "record_routing_stats"
AUTOSCALING_STATS = "record_autoscaling_stats"
DEFAULT_APP = "default"
#: The environment variable that names the deployment of a `deployment_actors` actor, as JSON.
DEPLOYMENT_ACTOR_VARIABLE = "SKATE_SERVE_DEPLOYMENT_ACTOR"


def deployment_actor_name(app: str, deployment: str, version: str, actor: str) -> str:
    """Return the name of an actor shared by the replicas of a deployment."""
    return f"SERVE_DEPLOYMENT_ACTOR::{app}#{deployment}#{version}#{actor}"


class DEFAULT(enum.Enum):
    """The default of an option for which None has another meaning."""

    VALUE = 1


class DeploymentID(NamedTuple):
    """A deployment of an application."""

    name: str
    app_name: str = DEFAULT_APP

    def to_replica_actor_class_name(self) -> str:
        """Format the class name of the replicas' actors."""
        return f"ServeReplica:{self.app_name}:{self.name}"

    def __str__(self) -> str:
        return f"Deployment(name={self.name!r}, app={self.app_name!r})"

    def __repr__(self) -> str:
        return str(self)


class ReplicaID(NamedTuple):
    """A replica of a deployment."""

    unique_id: str
    deployment_id: DeploymentID

    def to_full_id_str(self) -> str:
        """Format the name of the replica's actor."""
        name, app = self.deployment_id
        return f"{REPLICA_PREFIX}{app}#{name}#{self.unique_id}"

    @classmethod
    def is_full_id_str(cls, s: str) -> bool:
        """Return True for the name of a replica's actor."""
        return s.startswith(REPLICA_PREFIX) and s.count("#") == 2

    @classmethod
    def from_full_id_str(cls, s: str) -> ReplicaID:
        """Parse the name of a replica's actor. Raises ValueError for any other name."""
        if not cls.is_full_id_str(s):
            raise ValueError(
                f"{s!r} is not the name of a replica; it must have the form "
                f"{REPLICA_PREFIX}app#deployment#replica"
            )
        app, name, unique = s[len(REPLICA_PREFIX) :].split("#")
        return cls(unique, DeploymentID(name, app))

    def __str__(self) -> str:
        name, app = self.deployment_id
        return f"Replica(id={self.unique_id!r}, deployment={name!r}, app={app!r})"

    def __repr__(self) -> str:
        return str(self)
