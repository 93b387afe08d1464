"""Actors that all replicas of a deployment share: created before the first replica, and ended after the last."""

from __future__ import annotations

import json
from typing import Any

import skate
from skate.serve.controller.records import DeploymentRecord
from skate.serve.identity import DEPLOYMENT_ACTOR_VARIABLE, NAMESPACE, deployment_actor_name


class SharedActors:
    """The shared actors, by code version."""

    def __init__(self) -> None:
        self._made: dict[str, list[Any]] = {}

    async def ensure(self, record: DeploymentRecord, version: str) -> None:
        """Create the shared actors of a deployment if necessary. Raise whatever their constructors raise."""
        if version in self._made or not record.target.config.deployment_actors:
            return
        made = self._made[version] = [
            self._make(record, version, each) for each in record.target.config.deployment_actors
        ]
        try:
            for actor in made:
                await actor.__ray_ready__.remote()
        except Exception:  # retried with the next replica
            self.forget(set(self._made) - {version})
            raise

    def _make(self, record: DeploymentRecord, version: str, config: Any) -> Any:
        app, deployment = record.key
        context = {"app": app, "deployment": deployment, "actor": config.name, "version": version}
        options = dict(config.actor_options)
        of_replicas = record.target.actor["ray_actor_options"].get("runtime_env") or {}
        own = options.pop("runtime_env", None) or {}
        environment = {**of_replicas, **own}
        variables = {
            **(of_replicas.get("env_vars") or {}),
            **(own.get("env_vars") or {}),
            DEPLOYMENT_ACTOR_VARIABLE: json.dumps(context),
        }
        cls: Any = config.get_actor_class()
        return cls.options(
            name=deployment_actor_name(app, deployment, version, config.name),
            namespace=NAMESPACE,
            lifetime="detached",
            get_if_exists=True,
            runtime_env={**environment, "env_vars": variables},
            **{"num_cpus": 0, **options},
        ).remote(*config.init_args, **config.init_kwargs)

    def find_again(self, record: DeploymentRecord) -> None:
        """Find the actors of the running versions after a restart of the controller."""
        app, deployment = record.key
        for version in {one.version for one in record.replicas.values()}:
            for config in record.target.config.deployment_actors:
                name = deployment_actor_name(app, deployment, version, config.name)
                try:
                    found = skate.get_actor(name, namespace=NAMESPACE)
                except ValueError:  # this version had no such actor
                    continue
                self._made.setdefault(version, []).append(found)

    def forget(self, living: set[str]) -> None:
        """End the actors of versions without replicas."""
        for version in [version for version in self._made if version not in living]:
            for actor in self._made.pop(version):
                try:
                    skate.kill(actor)
                except Exception:  # it has ended already
                    continue
