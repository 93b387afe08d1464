"""Names of deployments and replicas."""

from __future__ import annotations

import enum
from typing import NamedTuple

CONTROLLER_NAME = "SERVE_CONTROLLER_ACTOR"
NAMESPACE = "serve"
REPLICA_PREFIX = "SERVE_REPLICA::"
DEFAULT_APP = "default"


class DEFAULT(enum.Enum):
    """Stands for an option that was not given, where None means something."""

    VALUE = 1


class DeploymentID(NamedTuple):
    """A deployment of an application."""

    name: str
    app_name: str = DEFAULT_APP

    def __str__(self) -> str:
        return f"Deployment(name={self.name!r}, app={self.app_name!r})"

    def __repr__(self) -> str:
        return str(self)


class ReplicaID(NamedTuple):
    """A replica of a deployment."""

    unique_id: str
    deployment_id: DeploymentID

    def to_full_id_str(self) -> str:
        """The name of its actor."""
        name, app = self.deployment_id
        return f"{REPLICA_PREFIX}{app}#{name}#{self.unique_id}"

    def __str__(self) -> str:
        name, app = self.deployment_id
        return f"Replica(id={self.unique_id!r}, deployment={name!r}, app={app!r})"

    def __repr__(self) -> str:
        return str(self)
