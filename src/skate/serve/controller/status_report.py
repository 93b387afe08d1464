"""Status reports of the controller."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import skate
from skate.serve.controller import clock
from skate.serve.controller.machine import Machine
from skate.serve.controller.ports import ControllerPort
from skate.serve.controller.records import ApplicationRecord, DeploymentRecord, ReplicaRecord
from skate.serve.controller.states import ApplicationStatus, DeploymentStatus, ProxyStatus
from skate.serve.identity import CONTROLLER_NAME, DeploymentID, ReplicaID
from skate.util import get_node_ip_address

if TYPE_CHECKING:
    from skate.serve.schema.status import ServeStatus


def status(controller: ControllerPort) -> ServeStatus:
    """Build the result of `serve.status()`."""
    # The schemas take 15 ms; only reports need them.
    from skate.serve.schema.status import ApplicationStatusOverview, DeploymentStatusOverview, ServeStatus

    machine = controller.machine
    apps = {}
    for app in machine.apps.values():
        deployments = {
            record.target.name: DeploymentStatusOverview(
                record.status, record.trigger, record.counts(), message_of(record)
            )
            for record in _listed(app)
        }
        apps[app.name] = ApplicationStatusOverview(
            machine.status_of(app), app_message(machine, app), clock.shown(app.since), deployments
        )
    node = skate.get_runtime_context().get_node_id()
    proxies = {}
    if controller.keeper is not None:
        proxies = dict.fromkeys((node, *_serving_nodes(controller)), ProxyStatus.HEALTHY)
    return ServeStatus(proxies=proxies, applications=apps, target_capacity=machine.capacity)


def _listed(app: ApplicationRecord) -> list[DeploymentRecord]:
    """Return the deployments of an application, without those that it no longer has and whose replicas are ending."""
    return [record for record in app.deployments.values() if app.deleting or not record.deleting]


def message_of(record: DeploymentRecord) -> str:
    """Return the status message of a deployment."""
    waits = [one for one in record.replicas.values() if one.state.value == "STARTING"]
    if not record.message and waits and clock.now() - min(one.since for one in waits) > 10:
        needs = ", ".join(f"{name}: {amount:g}" for name, amount in record.target.resources().items())
        return (
            f"{len(waits)} replicas have been starting for more than 10 s, each needs {needs or 'nothing'}; "
            "either their constructor is slow, or these resources are in use"
        )
    return record.message


def app_message(machine: Machine, app: ApplicationRecord) -> str:
    """Return the status message of an application."""
    if app.build_error and not app.deleting:
        return app.build_error
    if machine.status_of(app) in (ApplicationStatus.DEPLOY_FAILED, ApplicationStatus.UNHEALTHY):
        bad = (DeploymentStatus.DEPLOY_FAILED, DeploymentStatus.UNHEALTHY)
        return "; ".join(
            f"deployment {record.target.name!r}: {record.message}"
            for record in app.deployments.values()
            if record.status in bad
        )
    return app.message


def details(controller: ControllerPort) -> dict[str, Any]:
    """Return the complete state as plain data, in the shape of ServeInstanceDetails."""
    machine = controller.machine
    here = skate.get_runtime_context()
    node = here.get_node_id()
    own = {
        "node_id": node,
        "node_ip": get_node_ip_address(),
        "node_instance_id": "",
        "actor_id": here.get_actor_id(),
    }
    own |= {"actor_name": CONTROLLER_NAME, "worker_id": here.get_worker_id(), "log_file_path": None}
    options = controller.options.model_dump()
    from skate.serve.schema.deploy import HTTPOptionsSchema  # likewise

    http = {name: options[name] for name in HTTPOptionsSchema.__dataclass_fields__}
    if controller.keeper is not None:
        http["port"] = controller.keeper.port
    proxy = {**own, "status": ProxyStatus.HEALTHY.value}
    return {
        "controller_info": own,
        "proxy_location": controller.location,
        "http_options": http,
        "grpc_options": controller.grpc_options.model_dump() if controller.grpc_options else None,
        "proxies": {} if controller.keeper is None else {node: proxy, **_other_proxies(controller)},
        "applications": {app.name: _application(machine, app, controller) for app in machine.apps.values()},
        "target_capacity": machine.capacity,
        "target_groups": _target_groups(controller, http),
        "controller_health_metrics": _health(controller),
        "restores_unset_config_options": True,
    }


def _serving_nodes(controller: ControllerPort) -> list[str]:
    """Return the other nodes that accept HTTP."""
    return [] if controller.location == "HeadOnly" else list(controller.proxies.known)


def _other_proxies(controller: ControllerPort) -> dict[str, dict[str, Any]]:
    known = controller.proxies.known
    return {node: {**known[node], "status": ProxyStatus.HEALTHY.value} for node in _serving_nodes(controller)}


def _target_groups(controller: ControllerPort, http: dict[str, Any]) -> list[dict[str, Any]]:
    """Return one address for each route, on which all replicas accept."""
    if controller.keeper is None:
        return []
    one = {"ip": http["host"], "port": http["port"], "instance_id": "", "name": CONTROLLER_NAME}
    return [
        {
            "targets": [one],
            "route_prefix": app.route_prefix,
            "protocol": "HTTP",
            "app_name": app.name,
            "ingress_request_router_targets": [],
            "ingress_deployment_name": app.ingress,
        }
        for app in controller.machine.apps.values()
        if app.route_prefix is not None and not app.deleting
    ]


def _health(controller: ControllerPort) -> dict[str, Any]:
    import resource  # rarely needed

    from skate.serve.schema.details import ControllerHealthMetrics  # likewise

    now = clock.now()
    uptime = now - controller.started
    return ControllerHealthMetrics(
        timestamp=clock.shown(now),
        controller_start_time=clock.shown(controller.started),
        uptime_s=uptime,
        last_control_loop_time=clock.shown(controller.looped),
        num_control_loops=controller.loops,
        loops_per_second=controller.loops / uptime if uptime > 0 else 0.0,
        num_asyncio_tasks=len(asyncio.all_tasks()),
        process_memory_mb=resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
    ).model_dump()


def _application(machine: Machine, app: ApplicationRecord, controller: ControllerPort) -> dict[str, Any]:
    ingress = app.deployments.get(app.ingress)
    docs = None if ingress is None else ingress.target.docs_path
    return {
        "name": app.name,
        "route_prefix": app.route_prefix,
        "docs_path": docs,
        "status": machine.status_of(app).value,
        "message": app_message(machine, app),
        "last_deployed_time_s": clock.shown(app.since),
        "deployed_app_config": controller.deployed.get(app.name),
        "source": app.source,
        "external_scaler_enabled": app.external_scaler,
        "deployments": {record.target.name: _deployment(record) for record in _listed(app)},
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
                for record in _listed(app)
            },
        },
    }


def _deployment(record: DeploymentRecord) -> dict[str, Any]:
    target = record.target
    config = target.config.model_dump()
    # The schema of config files has no such fields.
    for name in ("max_constructor_retry_count", "in_process"):
        config.pop(name, None)
    if config["autoscaling_config"] is None:
        config.pop("autoscaling_config")
    else:
        config.pop("num_replicas")
    config |= {name: value for name, value in target.actor.items() if value is not None}
    return {
        "name": target.name,
        "status": record.status.value,
        "status_trigger": record.trigger.value,
        "message": message_of(record),
        "deployment_config": {
            name: plain(value)
            for name, value in {"name": target.name, **config}.items()
            if value is not None or name == "user_config"
        },
        "target_num_replicas": record.want,
        "required_resources": dict(target.resources()),
        "replicas": [_replica(record, one) for one in record.replicas.values()],
        "recent_dead_replicas": [],
        "autoscaling_detail": _scaling(record) if target.config.autoscaling_config is not None else None,
    }


def _replica(record: DeploymentRecord, one: ReplicaRecord) -> dict[str, Any]:
    return {
        "node_id": one.info.get("node"),
        "node_ip": one.info.get("node_ip"),
        "node_instance_id": "",
        "actor_id": one.info.get("actor_id"),
        "actor_name": ReplicaID(one.id, DeploymentID(record.key[1], record.key[0])).to_full_id_str(),
        "worker_id": one.info.get("worker_id"),
        "log_file_path": one.info.get("log"),
        "replica_id": one.id,
        "state": one.state.value,
        "pid": one.info.get("pid"),
        "start_time_s": clock.shown(one.since),
    }


def _scaling(record: DeploymentRecord) -> dict[str, Any]:
    here = len(record.serving())
    state = "STABLE" if here == record.want else "UPSCALING" if here < record.want else "DOWNSCALING"
    scaling = record.target.config.autoscaling_config
    assert scaling is not None
    return {
        "scaling_status": state,
        "decisions": [
            {
                "timestamp_s": each["time"],
                "reason": each["reason"] or "requested by an external scaler",
                "prev_num_replicas": each["from"],
                "curr_num_replicas": each["to"],
                "policy": str(scaling.policy.policy_function),
            }
            for each in record.decisions
        ],
        "metrics": {"total_num_requests": record.scaler.history.value(scaling.aggregation_function)},
        "metrics_health": "healthy",
        "errors": [record.scaling_error] if record.scaling_error else [],
    }


def plain(value: Any) -> Any:
    """Convert a value for JSON. Unsupported values (classes, functions) become their names."""
    if value is None or isinstance(value, (str, int, float, bool)):
        return value
    if isinstance(value, dict):
        return {str(key): plain(each) for key, each in value.items()}
    if isinstance(value, (list, tuple, set)):
        return [plain(each) for each in value]
    name = getattr(value, "__qualname__", None)
    return f"{value.__module__}:{name}" if name else str(value)
