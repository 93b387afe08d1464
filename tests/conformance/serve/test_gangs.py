"""Gangs of replicas: their settings, their context and group, and a replica that is killed."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from typing import Any

import pytest
import ray
from pydantic import ValidationError
from ray import serve
from ray.serve.config import GangPlacementStrategy, GangRuntimeFailurePolicy, GangSchedulingConfig
from ray.serve.gang import GangContext
from ray.serve.schema import DeploymentSchema
from ray.util import placement_group_table
from waiting import wait_for


def test_settings() -> None:
    config = GangSchedulingConfig(gang_size=2)
    assert config.gang_placement_strategy is GangPlacementStrategy.PACK
    assert config.runtime_failure_policy is GangRuntimeFailurePolicy.RESTART_GANG
    context = GangContext(gang_id="g", rank=0, world_size=1, member_replica_ids=["a"])
    assert context.pg_name == ""
    with pytest.raises(NotImplementedError, match="RESTART_REPLICA"):
        GangSchedulingConfig(gang_size=2, runtime_failure_policy="RESTART_REPLICA")


def test_numbers_of_replicas() -> None:
    def f() -> None: ...

    gang = {"gang_size": 2}
    scaling = {"min_replicas": 2, "max_replicas": 4}
    assert serve.deployment(gang_scheduling_config=gang, autoscaling_config=scaling)(f).name == "f"
    with pytest.raises(ValueError, match=r"num_replicas \(3\) must be a multiple of gang_size \(2\)"):
        serve.deployment(gang_scheduling_config=gang, num_replicas=3)(f)
    ready = serve.deployment(gang_scheduling_config=gang, num_replicas=2)(f)
    with pytest.raises(ValueError, match=r"num_replicas \(5\) must be a multiple of gang_size \(2\)"):
        ready.options(num_replicas=5)
    with pytest.raises(ValidationError, match=r"autoscaling_config.max_replicas \(3\) must be a multiple"):
        DeploymentSchema(
            name="d", num_replicas="auto", gang_scheduling_config=gang, autoscaling_config={"max_replicas": 3}
        )


def groups(states: tuple[str, ...] = ("CREATED",)) -> set[str]:
    return {each["name"] for each in placement_group_table().values() if each["state"] in states}


def test_a_gang_and_the_end_of_a_member(deploy: Callable[..., Any]) -> None:
    @serve.deployment(
        num_replicas=2,
        gang_scheduling_config={"gang_size": 2},
        ray_actor_options={"num_cpus": 0.1},
        health_check_period_s=0.5,
        graceful_shutdown_timeout_s=0.1,
    )
    class Member:
        def __call__(self) -> Any:
            context = serve.get_replica_context()
            return context.gang_context, context.replica_tag, os.getpid()

    handle = deploy(Member.bind(), name="ganged", route_prefix=None)

    def members() -> dict[str, Any]:
        try:
            answers = [each.result(timeout_s=30) for each in [handle.remote() for _ in range(8)]]
        except ray.exceptions.RayError:  # one that has ended was asked
            return {}
        found = {answer[1]: answer for answer in answers}
        return found if len(found) == 2 else {}

    before = wait_for(members, 60, "answers of both")
    contexts = sorted((gang for gang, _, _ in before.values()), key=lambda gang: gang.rank)
    assert isinstance(contexts[0], GangContext) and [each.rank for each in contexts] == [0, 1]
    assert {each.world_size for each in contexts} == {2}
    assert contexts[0].gang_id == contexts[1].gang_id and contexts[0].pg_name == contexts[1].pg_name
    for gang, tag, _ in before.values():
        assert gang.member_replica_ids[gang.rank] == tag
    assert contexts[0].pg_name in groups()

    os.kill(next(iter(before.values()))[2], signal.SIGKILL)

    def replaced() -> dict[str, Any]:
        found = members()
        return {} if set(before) & set(found) else found

    after = wait_for(replaced, 100, "another gang")
    (group,) = {gang.pg_name for gang, _, _ in after.values()}
    assert group != contexts[0].pg_name
    wait_for(lambda: groups() == {group}, 60, "the end of the first group")
