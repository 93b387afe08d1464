"""Resources of tasks: what a task asks for, what it is told it has, and what the node reports."""

from __future__ import annotations

import os

import pytest
import ray
from waiting import wait_for


def test_core_30_task_without_gpu_request_has_no_gpu_ids(gpus):
    @ray.remote
    def ids():
        return ray.get_gpu_ids()

    assert ray.get(ids.remote()) == []


def test_core_30_task_with_two_gpus_sees_both(gpus):
    @ray.remote(num_gpus=2)
    def visible():
        return sorted(ray.get_gpu_ids()), os.environ["CUDA_VISIBLE_DEVICES"]

    ids, variable = ray.get(visible.remote())
    assert [int(i) for i in ids] == [0, 1]
    assert sorted(variable.split(",")) == ["0", "1"]


def test_core_30_cuda_visible_devices_names_the_assigned_gpu(gpus):
    @ray.remote(num_gpus=1)
    def visible():
        return [str(i) for i in ray.get_gpu_ids()], os.environ["CUDA_VISIBLE_DEVICES"]

    ids, variable = ray.get(visible.remote())
    assert ids == [variable]
    assert variable in {"0", "1"}


def test_core_30_tasks_at_the_same_time_have_different_gpus(gpus, gate):
    release = gate("release")
    running = [gate("running-0"), gate("running-1")]

    @ray.remote(num_gpus=1)
    def hold(i):
        running[i].open()
        release.wait()
        return os.environ["CUDA_VISIBLE_DEVICES"]

    refs = [hold.remote(i) for i in range(2)]
    for started in running:
        started.wait()
    release.open()
    assert sorted(ray.get(refs)) == ["0", "1"]


def test_core_30_fractional_requests_share_one_gpu_before_the_next_is_opened(gpus, gate):
    release = gate("release")
    running = [gate(f"running-{i}") for i in range(3)]

    @ray.remote(num_gpus=0.5)
    def hold(i):
        running[i].open()
        release.wait()
        return os.environ["CUDA_VISIBLE_DEVICES"]

    refs = []
    for i in range(3):
        refs.append(hold.remote(i))
        running[i].wait()
    release.open()
    first, second, third = ray.get(refs)
    assert first == second != third


def test_core_30_omp_num_threads_is_one_by_default(gpus):
    @ray.remote
    def threads():
        return os.environ.get("OMP_NUM_THREADS")

    assert ray.get(threads.remote()) == "1"


def test_core_30_omp_num_threads_follows_num_cpus(gpus):
    @ray.remote(num_cpus=2)
    def threads():
        return os.environ.get("OMP_NUM_THREADS")

    assert ray.get(threads.remote()) == "2"


def test_core_31_more_than_one_gpu_must_be_whole(gpus):
    @ray.remote
    def nothing():
        pass

    with pytest.raises(ValueError):
        nothing.options(num_gpus=1.5).remote()


def test_core_33_gpus_are_in_the_cluster_resources(gpus):
    assert ray.cluster_resources()["GPU"] == 2.0


def test_assigned_resources_of_a_gpu_task(gpus):
    @ray.remote(num_gpus=1, num_cpus=2)
    def assigned():
        return ray.get_runtime_context().get_assigned_resources()

    assert ray.get(assigned.remote()) == {"CPU": 2.0, "GPU": 1.0}


def test_accelerator_ids_of_a_gpu_task(gpus):
    @ray.remote(num_gpus=1)
    def accelerators():
        return ray.get_runtime_context().get_accelerator_ids()

    assert len(ray.get(accelerators.remote())["GPU"]) == 1


def test_assigned_resources_by_default_are_one_cpu(cluster):
    @ray.remote
    def assigned():
        return ray.get_runtime_context().get_assigned_resources()

    assert ray.get(assigned.remote()) == {"CPU": 1.0}


def test_fractional_cpus_are_assigned_as_asked(cluster):
    @ray.remote(num_cpus=0.5)
    def assigned():
        return ray.get_runtime_context().get_assigned_resources()

    assert ray.get(assigned.remote()) == {"CPU": 0.5}


def test_zero_cpu_task_runs_while_all_cpus_are_held(cluster, gate):
    release, running = gate("release"), gate("running")

    @ray.remote(num_cpus=2)
    def hold():
        running.open()
        release.wait()

    @ray.remote(num_cpus=0)
    def light():
        return "ran"

    holder = hold.remote()
    running.wait()
    assert ray.get(light.remote()) == "ran"
    release.open()
    ray.get(holder)


def test_no_more_tasks_run_at_once_than_there_are_cpus(cluster, gate, tally):
    release, started = gate("release"), tally("started")

    @ray.remote
    def hold():
        count = started.add()
        release.wait()
        return count

    refs = [hold.remote() for _ in range(4)]
    wait_for(lambda: started.count() == 2, what="two tasks to start")
    wait_for(lambda: ray.available_resources().get("CPU", 0) == 0, what="both CPUs to be taken")
    assert started.count() == 2
    release.open()
    ray.get(refs)


def test_half_cpu_tasks_run_four_at_a_time_on_two_cpus(cluster, gate, tally):
    release, started = gate("release"), tally("started")

    @ray.remote(num_cpus=0.5)
    def hold():
        started.add()
        release.wait()

    refs = [hold.remote() for _ in range(4)]
    wait_for(lambda: started.count() == 4, what="four half-CPU tasks to run together")
    release.open()
    ray.get(refs)


def test_core_33_cluster_resources_name_cpu_memory_store_and_node(cluster):
    resources = ray.cluster_resources()
    assert resources["CPU"] == 2.0
    assert resources["memory"] > 0
    assert resources["object_store_memory"] > 0
    assert any(key.startswith("node:") for key in resources)
    assert "node:__internal_head__" in resources
    assert "GPU" not in resources


def test_core_33_available_resources_return_when_a_task_ends(cluster):
    @ray.remote(num_cpus=2)
    def work():
        pass

    ray.get(work.remote())
    wait_for(lambda: ray.available_resources().get("CPU") == 2.0, what="both CPUs to be free again")


def test_core_33_nodes_describe_the_one_node(cluster):
    (node,) = ray.nodes()
    assert {"NodeID", "Alive", "NodeManagerAddress", "Resources", "Labels", "NodeName", "DeathReason"} <= set(
        node
    )
    assert node["Alive"] is True
    assert node["Resources"]["CPU"] == 2.0
    assert node["NodeID"] == ray.get_runtime_context().get_node_id()


def test_core_33_node_of_a_task_is_the_node_listed(cluster):
    @ray.remote
    def node_id():
        return ray.get_runtime_context().get_node_id()

    assert ray.get(node_id.remote()) == ray.nodes()[0]["NodeID"]


def test_custom_resource_is_counted_and_assigned(fresh):
    fresh(num_cpus=1, resources={"licence": 2})

    @ray.remote(resources={"licence": 1})
    def assigned():
        return ray.get_runtime_context().get_assigned_resources()

    assert ray.cluster_resources()["licence"] == 2.0
    assert ray.get(assigned.remote()) == {"CPU": 1.0, "licence": 1.0}


@pytest.mark.parametrize(
    ("request_", "missing"),
    [
        ({"num_gpus": 1}, "GPU"),
        ({"num_cpus": 99}, "CPU"),
        ({"resources": {"unicorn": 1}}, "unicorn"),
    ],
)
@pytest.mark.chosen_difference("Ray waits for ever for what the cluster can never have", id="D-infeasible")
def test_core_32_request_that_can_never_be_met_raises_and_names_the_resource(cluster, request_, missing):
    @ray.remote
    def greedy():
        pass

    with pytest.raises(ray.exceptions.TaskUnschedulableError, match=missing):
        ray.get(greedy.options(**request_).remote(), timeout=10)


@pytest.mark.chosen_difference("Ray waits for ever for what the cluster can never have", id="D-infeasible")
def test_core_32_infeasible_request_says_what_the_cluster_has(cluster):
    @ray.remote(num_cpus=99)
    def greedy():
        pass

    with pytest.raises(ray.exceptions.TaskUnschedulableError) as caught:
        ray.get(greedy.remote(), timeout=10)
    assert "99" in str(caught.value)
    assert "2" in str(caught.value)
    assert "greedy" in str(caught.value)
