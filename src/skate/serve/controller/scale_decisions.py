"""Adjusts the number of replicas to the load."""

from __future__ import annotations

from typing import Any

from skate.serve.config.autoscaling import AutoscalingContext
from skate.serve.controller import autoscaler, clock, recorded_stats
from skate.serve.controller.ports import ControllerPort
from skate.serve.controller.records import ApplicationRecord, DeploymentRecord, in_gangs
from skate.serve.identity import DeploymentID
from skate.serve.routing.counter_page import View

_views: dict[str, View] = {}


def load_of(controller: ControllerPort, record: DeploymentRecord) -> tuple[float, float]:
    """Return the number of requests at replicas, running or queued, and of those that wait for a replica."""
    inside = 0
    for one in record.serving():
        view = _views.get(one.id)
        if view is None or not view.real:
            node = controller_node(controller)
            info = one.info
            view = _views[one.id] = View(info.get("pid", 0), info.get("fd", -1), info.get("node", ""), node)
        inside += view.load() if view.real else controller.proxies.load(one.id, one.info.get("node", ""))
    queued = sum(waiting.get(record.key, 0) for waiting in controller.demands.values())
    return float(inside), float(queued)


def controller_node(controller: ControllerPort) -> str:
    """Return the node that the controller runs on."""
    import skate  # only needed once

    node: str = skate.get_runtime_context().get_node_id()
    return node


def step(controller: ControllerPort, now: float) -> bool:
    """Decide for each autoscaled deployment; return True if there is one."""
    machine = controller.machine
    found = False
    for app in list(machine.apps.values()):
        followed = [
            record
            for record in app.deployments.values()
            if record.target.config.autoscaling_config is not None
            and not (record.deleting or record.given_up or machine.capacity == 0)
        ]
        if not followed:
            continue
        found = True
        contexts = {record.key: _seen(controller, record, now) for record in followed}
        if app.policy is not None:
            _together(controller, app, followed, contexts, now)
        else:
            for record in followed:
                _alone(controller, record, contexts[record.key], now)
    if len(_views) > 64:
        living = {one.id for record in machine.each() for one in record.serving()}
        for name in [name for name in _views if name not in living]:
            _views.pop(name).close()
    return found


def _seen(controller: ControllerPort, record: DeploymentRecord, now: float) -> AutoscalingContext:
    config = record.target.config.autoscaling_config
    assert config is not None
    inside, queued = load_of(controller, record)
    record.scaler.history.add(now, inside + queued, config.look_back_period_s)
    return context_of(controller, record, inside + queued, queued, now)


def _alone(
    controller: ControllerPort, record: DeploymentRecord, context: AutoscalingContext, now: float
) -> None:
    assert context.config is not None
    try:
        target = autoscaler.decide(record.scaler, context, context.config, now)
    except Exception as error:  # a user's policy may raise anything; keep the current number
        _failed(record, error)
        return
    _take(controller, record, context, target, now)


def _together(
    controller: ControllerPort,
    app: ApplicationRecord,
    followed: list[DeploymentRecord],
    contexts: dict[Any, AutoscalingContext],
    now: float,
) -> None:
    """Let one policy decide for all deployments of an application. Those that it omits keep their numbers."""
    contexts_by_id = {context.deployment_id: context for context in contexts.values()}
    try:
        answers, states = app.policy.get_policy()(contexts_by_id)
        for record in followed:
            context = contexts[record.key]
            assert context.config is not None
            record.scaler.policy_state = dict((states or {}).get(context.deployment_id) or {})
            answer = answers.get(context.deployment_id)
            if answer is not None:
                target = autoscaler.follow(record.scaler, answer, context, context.config, now)
                _take(controller, record, context, target, now)
    except Exception as error:  # a policy may raise anything
        for record in followed:
            _failed(record, error)


def _failed(record: DeploymentRecord, error: Exception) -> None:
    record.scaling_error = f"{type(error).__name__}: {error}"


def _take(
    controller: ControllerPort, record: DeploymentRecord, context: AutoscalingContext, target: int, now: float
) -> None:
    record.scaling_error = ""
    if record.target.per_node is not None:
        target = min(target, record.target.per_node * controller.machine.nodes)
    target = in_gangs(record.target.config, target)
    if target != record.want:
        why = f"{context.total_num_requests:g} requests for {context.current_num_replicas} replicas"
        controller.do(controller.machine.scale(record.key, target, now, why))


def context_of(
    controller: ControllerPort, record: DeploymentRecord, total: float, queued: float, now: float
) -> AutoscalingContext:
    """Build the input of a policy."""
    plain = record.target.config.autoscaling_config
    assert plain is not None
    config = autoscaler.bounded(plain, controller.machine.capacity)
    serving = record.serving()
    return AutoscalingContext(
        deployment_id=DeploymentID(record.key[1], record.key[0]),
        deployment_name=record.key[1],
        app_name=record.key[0],
        current_num_replicas=len(serving),
        target_num_replicas=record.want,
        running_replicas=[recorded_stats.replica_id(record, one) for one in serving],
        total_num_requests=record.scaler.history.value(config.aggregation_function),
        total_queued_requests=queued,
        aggregated_metrics=lambda: recorded_stats.aggregated_metrics(record, config),
        raw_metrics=lambda: recorded_stats.metrics(record),
        capacity_adjusted_min_replicas=config.min_replicas,
        capacity_adjusted_max_replicas=config.max_replicas,
        policy_state=record.scaler.policy_state,
        last_scale_up_time=record.scaler.last_up,
        last_scale_down_time=record.scaler.last_down,
        current_time=now,
        config=config,
    )


def wake_up(controller: ControllerPort, record: DeploymentRecord) -> None:
    """Start a replica without delay, because requests wait for a deployment that has none."""
    config = record.target.config.autoscaling_config
    capacity = controller.machine.capacity
    if config is None or record.deleting or capacity == 0:
        return
    now = clock.now()
    target = autoscaler.desired(1, 0, autoscaler.bounded(config, capacity))
    controller.do(controller.machine.scale(record.key, target, now, "a request waits"))
    controller.publish()
