"""What the controller answers when it is asked how things are."""

from __future__ import annotations

import time
from typing import Any

import skate
from skate.serve.controller.records import ApplicationRecord, DeploymentRecord
from skate.serve.controller.states import ApplicationStatus, DeploymentStatus, ProxyStatus
from skate.serve.identity import CONTROLLER_NAME, DeploymentID, ReplicaID
from skate.serve.schema.status import (
    ApplicationStatusOverview,
    DeploymentStatusOverview,
    ServeStatus,
)


def status(controller: Any) -> ServeStatus:
    """An overview."""
    machine = controller.machine
    apps = {}
    for app in machine.apps.values():
        deployments = {
            record.target.name: DeploymentStatusOverview(
                record.status, record.trigger, record.counts(), message_of(record)
            )
            for record in app.deployments.values()
        }
        apps[app.name] = ApplicationStatusOverview(
            machine.status_of(app), app_message(machine, app), app.since, deployments
        )
    node = skate.get_runtime_context().get_node_id()
    proxies = {node: ProxyStatus.HEALTHY} if controller.keeper is not None else {}
    return ServeStatus(proxies=proxies, applications=apps, target_capacity=machine.capacity)


def message_of(record: DeploymentRecord) -> str:
    """What there is to say of a deployment."""
    waits = [one for one in record.replicas.values() if one.state.value == "STARTING"]
    if not record.message and waits and time.time() - min(one.since for one in waits) > 10:
        needs = ", ".join(f"{name}: {amount:g}" for name, amount in record.target.resources().items())
        return (
            f"{len(waits)} replicas have been starting for more than 10 s, each needs {needs or 'nothing'}; either their "
            "constructor takes long, or what they need is in use"
        )
    return record.message


def app_message(machine: Any, app: ApplicationRecord) -> str:
    """What there is to say of an application."""
    if machine.status_of(app) in (ApplicationStatus.DEPLOY_FAILED, ApplicationStatus.UNHEALTHY):
        bad = (DeploymentStatus.DEPLOY_FAILED, DeploymentStatus.UNHEALTHY)
        return "; ".join(
            f"deployment {record.target.name!r}: {record.message}"
            for record in app.deployments.values()
            if record.status in bad
        )
    return app.message


def details(controller: Any) -> dict[str, Any]:
    """All that is known, as plain data."""
    machine = controller.machine
    node = skate.get_runtime_context().get_node_id()
    options = controller.options.model_dump()
    http = {
        key: options[key]
        for key in ("host", "port", "root_path", "request_timeout_s", "keep_alive_timeout_s")
    }
    return {
        "controller_info": {
            "node_id": node,
            "node_ip": "127.0.0.1",
            "actor_id": skate.get_runtime_context().get_actor_id(),
            "actor_name": CONTROLLER_NAME,
            "worker_id": skate.get_runtime_context().get_worker_id(),
        },
        "proxy_location": controller.location,
        "http_options": http,
        "grpc_options": controller.grpc_options.model_dump() if controller.grpc_options else None,
        "proxies": {node: {"node_id": node, "status": "HEALTHY"}} if controller.keeper is not None else {},
        "applications": {app.name: _application(machine, app, controller) for app in machine.apps.values()},
        "target_capacity": machine.capacity,
    }


def _application(machine: Any, app: ApplicationRecord, controller: Any) -> dict[str, Any]:
    ingress = app.deployments.get(app.ingress)
    docs = None if ingress is None else ingress.target.docs_path
    return {
        "name": app.name,
        "route_prefix": app.route_prefix,
        "docs_path": docs,
        "status": machine.status_of(app).value,
        "message": app_message(machine, app),
        "last_deployed_time_s": app.since,
        "deployed_app_config": controller.deployed.get(app.name),
        "source": app.source,
        "external_scaler_enabled": False,
        "deployments": {record.target.name: _deployment(record) for record in app.deployments.values()},
        "deployment_topology": {
            "app_name": app.name,
            "ingress_deployment": app.ingress,
            "nodes": {
                record.target.name: {
                    "name": record.target.name,
                    "app_name": app.name,
                    "outbound_deployments": [
                        {"name": name, "app_name": app.name} for name in record.target.outbound
                    ],
                    "is_ingress": record.target.ingress,
                }
                for record in app.deployments.values()
            },
        },
    }


def _deployment(record: DeploymentRecord) -> dict[str, Any]:
    target = record.target
    config = target.config.model_dump()
    config.pop("gang_scheduling_config", None)
    return {
        "name": target.name,
        "status": record.status.value,
        "status_trigger": record.trigger.value,
        "message": message_of(record),
        "deployment_config": {
            "name": target.name,
            **config,
            "ray_actor_options": target.actor["ray_actor_options"],
        },
        "target_num_replicas": record.want,
        "required_resources": target.resources(),
        "replicas": [
            {
                "replica_id": one.id,
                "actor_name": ReplicaID(one.id, DeploymentID(record.key[1], record.key[0])).to_full_id_str(),
                "state": one.state.value,
                "pid": one.info.get("pid"),
                "node_id": one.info.get("node"),
                "actor_id": one.info.get("actor_id"),
                "worker_id": one.info.get("worker_id"),
                "start_time_s": one.since,
            }
            for one in record.replicas.values()
        ],
        "autoscaling_detail": {"decisions": record.decisions, "error": record.scaling_error}
        if target.config.autoscaling_config is not None
        else None,
    }
