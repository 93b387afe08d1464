"""Ids of real runs: which parts of them programs can rely on."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

import skate as ray
from skate.util.state import get_task


@pytest.fixture(scope="module")
def session() -> Iterator[None]:
    ray.init(num_cpus=2, include_dashboard=False, log_to_driver=False)
    yield
    ray.shutdown()


@ray.remote
def own_ids() -> tuple[str, str]:
    context = ray.get_runtime_context()
    return context.get_task_id(), context.get_job_id()


@ray.remote
class Actor:
    def own_ids(self) -> tuple[str, str, str]:
        context = ray.get_runtime_context()
        return context.get_task_id(), context.get_job_id(), context.get_actor_id()


def test_a_task_and_its_result_know_their_job(session: None) -> None:
    ref = own_ids.remote()
    task, job = ray.get(ref)
    assert ref.task_id().hex() == task
    assert ref.task_id().job_id().hex() == ref.job_id().hex() == job
    assert ref.binary()[:24] == ref.task_id().binary()


def test_a_call_knows_its_job_and_the_state_api_its_actor(session: None) -> None:
    actor = Actor.remote()
    ref = actor.own_ids.remote()
    task, job, actor_id = ray.get(ref)
    assert ref.task_id().hex() == task
    assert ref.task_id().job_id().hex() == job
    row = get_task(task)
    assert row is not None and not isinstance(row, list)
    assert row["actor_id"] == actor_id
    assert ray.ActorID.from_hex(actor_id).job_id.hex() == job
