"""Names of Serve's inside that programs and their tests take: states, replicas, addresses and the current request."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from typing import Any

import httpx
import pytest
import ray
from ray import serve
from ray.serve import context
from ray.serve._private import common, constants
from ray.serve._private import test_utils as kit
from ray.serve.schema import ServeDeploySchema
from ray.util.state import list_actors

Deploy = Callable[..., Any]


@serve.deployment(num_replicas=2, ray_actor_options={"num_cpus": 0})
class Served:
    def __call__(self, request: Any = None) -> list[Any]:
        here = context._get_internal_replica_context()
        of_request = context._get_serve_request_context()
        same = context._serve_request_context.get()
        return [here.deployment, of_request.app_name, of_request.request_id == same.request_id != ""]


@pytest.fixture(scope="module")
def app(server: str) -> Iterator[str]:
    serve.run(Served.bind(), name="kit", route_prefix="/kit")
    yield server
    serve.delete("kit")


def test_names() -> None:
    assert constants.SERVE_DEFAULT_APP_NAME == "default"
    assert (constants.SERVE_NAMESPACE, constants.SERVE_CONTROLLER_NAME) == ("serve", "SERVE_CONTROLLER_ACTOR")
    assert constants.SERVE_MULTIPLEXED_MODEL_ID == "serve_multiplexed_model_id"
    one = common.DeploymentID(name="D", app_name="a")
    assert one.to_replica_actor_class_name() == "ServeReplica:a:D"
    assert common.ReplicaID("x", one).deployment_id == one
    assert serve.config.DeploymentID is common.DeploymentID
    assert common.RequestProtocol.GRPC == "gRPC"
    assert common.DeploymentStatus.HEALTHY == "HEALTHY" and common.ReplicaState.RUNNING == "RUNNING"


def test_the_current_request(app: str) -> None:
    handle = serve.get_app_handle("kit")
    assert handle.remote().result(timeout_s=30) == ["Served", "kit", True]
    assert context._get_internal_replica_context() is None


def test_states(app: str) -> None:
    assert kit.check_running("kit") and kit.check_apps_running(["kit"])
    assert kit.check_deployment_status("Served", common.DeploymentStatus.HEALTHY, app_name="kit")
    with pytest.raises(AssertionError):
        kit.check_deployment_status("Served", common.DeploymentStatus.UNHEALTHY, app_name="kit")
    with pytest.raises(KeyError):
        kit.check_running("nobody")


def test_numbers_of_running_replicas(app: str) -> None:
    assert kit.check_num_replicas_eq("Served", 2, "kit", use_controller=True)
    with pytest.raises(AssertionError):
        kit.check_num_replicas_eq("Served", 1, "kit", use_controller=True)
    assert len(kit.get_deployment_details("Served", "kit")["replicas"]) == 2


@pytest.mark.chosen_difference("no dashboard is needed for it", id="D-state-api")
def test_numbers_of_replicas(app: str) -> None:
    assert kit.get_num_alive_replicas("Served", "kit") == 2
    assert kit.get_num_alive_replicas("Served", "nobody") == 0
    assert kit.check_num_replicas_eq("Served", 2, "kit")
    assert kit.check_num_replicas_gte("Served", 2, "kit") and kit.check_num_replicas_lte("Served", 2, "kit")
    for check, count in (
        (kit.check_num_replicas_eq, 1),
        (kit.check_num_replicas_gte, 3),
        (kit.check_num_replicas_lte, 1),
    ):
        with pytest.raises(AssertionError):
            check("Served", count, "kit")


@pytest.mark.chosen_difference("no dashboard is needed for it", id="D-state-api")
def test_the_class_of_the_actors(app: str) -> None:
    filters = [("class_name", "=", "ServeReplica:kit:Served"), ("state", "=", "ALIVE")]
    assert len(list_actors(filters=filters)) == 2


def test_addresses(app: str) -> None:
    port = app.rpartition(":")[2]
    assert kit.get_application_url(app_name="kit") == f"http://localhost:{port}/kit"
    assert kit.get_application_url("HTTP", "kit", is_websocket=True) == f"ws://localhost:{port}/kit"
    assert kit.get_application_urls(app_name="kit", exclude_route_prefix=True) == [f"http://localhost:{port}"]
    assert httpx.get(kit.get_application_url(app_name="kit"), timeout=30).json() == ["Served", "kit", True]
    assert kit.request_with_retries(app_name="kit").status_code == 200
    with pytest.raises(AssertionError):
        kit.get_application_url(app_name="nobody")


def test_actors_of_test_programs(server: str) -> None:
    items = kit.Accumulator.remote()
    ray.get([items.add.remote(each) for each in "ab"])
    assert ray.get([items.get.remote(), items.count.remote()]) == [["a", "b"], 2]
    count = kit.SharedCounter.remote()
    assert ray.get([count.inc.remote(), count.inc.remote(), count.get.remote()]) == [1, 2, 2]
    flag = kit.SharedFlag.remote()
    ray.get(flag.set.remote())
    assert ray.get(flag.is_set.remote()) is True
    barrier = kit.Barrier.remote(2)
    ray.get([barrier.wait.remote(), barrier.wait.remote()], timeout=30)
    assert ray.get(barrier.get_count.remote()) == 2
    target = kit.Counter.remote(2)
    waiting = target.wait.remote()
    ray.get([target.inc.remote(), target.inc.remote()])
    ray.get(waiting, timeout=30)
    node = ray.get(kit.get_node_id.remote())
    assert node == ray.get_runtime_context().get_node_id() and kit.check_num_alive_nodes(1)


def test_run_without_waiting(server: str) -> None:
    handle = serve._run(Served.bind(), _blocking=False, name="later", route_prefix=None)
    assert handle.remote().result(timeout_s=30)[:2] == ["Served", "later"]
    again = serve._run_many([serve.RunTarget(Served.bind(), name="later", route_prefix=None)])
    assert [each.deployment_name for each in again] == ["Served"]
    serve.delete("later")


def test_an_application_that_tells_its_process(server: str) -> None:
    handle = serve.run(kit.get_pid_entrypoint, name="pid", route_prefix=None)
    assert handle.remote().result(timeout_s=30) != os.getpid()
    serve.delete("pid")


def test_the_client(server: str) -> None:
    client = context._get_global_client()
    assert client.http_config.port == int(server.rpartition(":")[2])
    serve.run(Served.bind(), name="of-client", route_prefix=None)
    assert "of-client" in client.get_serve_details()["applications"]
    assert client.get_handle("Served", "of-client").remote().result(timeout_s=30)[0] == "Served"
    with pytest.raises(KeyError):
        client.get_handle("Nothing", "of-client")
    client.delete_apps(["of-client"])
    assert "of-client" not in serve.status().applications
    assert ray.get_actor("SERVE_CONTROLLER_ACTOR", namespace="serve") == client._controller
    config = {"applications": [{"name": "of-file", "import_path": f"{kit.__name__}:get_pid_entrypoint"}]}
    client.deploy_apps(ServeDeploySchema.model_validate(config), _blocking=True)
    assert serve.status().applications["of-file"].status == "RUNNING"
    client.delete_all_apps()
    client.shutdown_cached_handles()
    assert not serve.status().applications
