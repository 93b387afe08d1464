"""A task's view of its node and devices, and requests that no node can meet."""

from __future__ import annotations

import pytest
import ray


def test_core_30_accelerator_ids_of_a_task_name_its_gpu(gpus):
    @ray.remote(num_gpus=1)
    def accelerators():
        return ray.get_runtime_context().get_accelerator_ids()["GPU"], ray.get_gpu_ids()

    accelerator_ids, gpu_ids = ray.get(accelerators.remote())
    assert accelerator_ids == [str(i) for i in gpu_ids]
    assert len(gpu_ids) == 1


def test_core_33_node_of_a_task_is_the_node_listed(cluster):
    node_id = ray.remote(lambda: ray.get_runtime_context().get_node_id())
    assert ray.get(node_id.remote()) == ray.nodes()[0]["NodeID"]


def test_core_33_a_task_sees_the_resources_of_the_cluster(cluster):
    resources = ray.remote(lambda: ray.cluster_resources())
    assert ray.get(resources.remote()) == ray.cluster_resources()


@pytest.mark.chosen_difference("Ray waits forever for what the cluster can never have", id="D-infeasible")
def test_core_32_infeasible_request_says_who_asked_for_what_and_what_there_is(cluster):
    @ray.remote(num_cpus=99)
    def greedy():
        pass

    with pytest.raises(ray.exceptions.TaskUnschedulableError) as caught:
        ray.get(greedy.remote(), timeout=10)
    text = str(caught.value)
    assert "greedy" in text
    assert "99" in text
    assert "2" in text


@pytest.mark.chosen_difference("Ray waits forever for what the cluster can never have", id="D-infeasible")
def test_core_32_infeasible_request_for_gpus_says_how_to_start_with_more(cluster):
    @ray.remote(num_gpus=1)
    def greedy():
        pass

    with pytest.raises(ray.exceptions.TaskUnschedulableError, match="init"):
        ray.get(greedy.remote(), timeout=10)


@pytest.mark.chosen_difference("Ray waits forever for what the cluster can never have", id="D-infeasible")
def test_core_32_other_tasks_run_on_after_an_infeasible_one(cluster):
    @ray.remote
    def work():
        return "ran"

    with pytest.raises(ray.exceptions.TaskUnschedulableError):
        ray.get(work.options(num_cpus=99).remote(), timeout=10)
    assert ray.get(work.remote(), timeout=10) == "ran"
