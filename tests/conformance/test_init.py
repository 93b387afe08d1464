"""ray.init: accepted and rejected arguments, and the result."""

from __future__ import annotations

import importlib
import json
import os
import pathlib
import subprocess
import sys
import uuid
import warnings
from collections.abc import Callable, Mapping
from typing import Any

import pytest
import ray

Script = Callable[..., "subprocess.CompletedProcess[str]"]


@pytest.fixture
def context(cluster: None) -> Any:
    """The result of init for the running session."""
    return ray.init(ignore_reinit_error=True)


FACTS = (
    "node_ip_address", "redis_address", "object_store_address", "raylet_socket_name", "webui_url", "session_dir",
    "metrics_export_port", "gcs_address", "address", "dashboard_agent_listen_port", "node_id",
)  # fmt: skip


@pytest.mark.parametrize("fact", FACTS)
def test_address_info_has(fact: str, context: Any) -> None:
    assert fact in context.address_info


def test_the_address_is_that_of_the_runtime_context(context: Any) -> None:
    assert context.address_info["address"] == ray.get_runtime_context().gcs_address


def test_the_node_id_is_that_of_the_runtime_context(context: Any) -> None:
    assert context.address_info["node_id"] == ray.get_runtime_context().get_node_id()


def test_the_context_is_a_mapping(context: Any) -> None:
    assert isinstance(context, Mapping)
    assert not isinstance(context, dict)


def test_an_item_of_the_context_warns(context: Any) -> None:
    with pytest.warns(DeprecationWarning, match=r'Accessing values through ctx\["address"\] is deprecated'):
        assert context["address"] == context.address_info["address"]


@pytest.mark.filterwarnings("ignore")
def test_an_item_that_is_not_there_is_a_key_error(context: Any) -> None:
    with pytest.raises(KeyError):
        context["nothing"]
    assert context.get("nothing", 3) == 3
    assert len(context) == len(context.address_info)
    assert set(context) == set(context.address_info)
    assert dict(context) == context.address_info


@pytest.mark.parametrize("name", ["dashboard_url", "python_version", "ray_version", "ray_commit"])
def test_the_context_tells(name: str, context: Any) -> None:
    assert isinstance(getattr(context, name), str)
    assert f"{name}=" in repr(context)


def test_the_version_is_rays(context: Any) -> None:
    assert context.ray_version == ray.__version__


def test_init_twice_is_refused(cluster: None) -> None:
    with pytest.raises(RuntimeError, match="Maybe you called ray.init twice by accident"):
        ray.init(num_cpus=1)


def test_init_twice_can_be_ignored(cluster: None) -> None:
    assert type(ray.init(num_cpus=1, ignore_reinit_error=True)).__name__ == "RayContext"
    assert ray.cluster_resources()["CPU"] == 2


def test_init_in_a_task_is_refused_unless_ignored(cluster: None) -> None:
    @ray.remote
    def begin(**settings: Any) -> str:
        return type(ray.init(**settings)).__name__

    with pytest.raises(RuntimeError, match="Maybe you called ray.init twice by accident"):
        ray.get(begin.remote(address="auto"))
    assert ray.get(begin.remote(ignore_reinit_error=True)) == "RayContext"


def test_init_in_the_constructor_of_an_actor_fails_it(cluster: None) -> None:
    @ray.remote
    class Late:
        def __init__(self) -> None:
            ray.init()

        def ready(self) -> bool:
            return True

    with pytest.raises(ray.exceptions.ActorDiedError, match="Maybe you called ray.init twice by accident"):
        ray.get(Late.remote().ready.remote())


@pytest.mark.parametrize(
    ("given", "kind", "match"),
    [
        ({"namespace": 123}, TypeError, "namespace must be None or a string"),
        ({"namespace": ""}, ValueError, '"" is not a valid namespace'),
        ({"num_cpus": -1}, ValueError, "Resource quantities must be nonnegative"),
        ({"num_gpus": -1}, ValueError, "Resource quantities must be nonnegative"),
        ({"object_store_memory": 10}, ValueError, "usage at 10 bytes, but the minimum allowed is 78643200 bytes"),
        ({"nothing_of_that_name": 1}, RuntimeError, r"Unknown keyword argument\(s\): nothing_of_that_name"),
        ({"_nothing_of_that_name": 1}, RuntimeError, r"Unknown keyword argument\(s\): _nothing_of_that_name"),
        ({"resources": {"x": -1}}, ValueError, "nonnegative|0 or more"),
    ],
    ids=lambda value: str(value)[:40],
)  # fmt: skip
def test_what_cannot_be_is_refused(
    fresh: Callable[..., Any], given: dict[str, Any], kind: type[Exception], match: str
) -> None:
    with pytest.raises(kind, match=match):
        fresh(**{"num_cpus": 1} | given)
    assert not ray.is_initialized()


@pytest.mark.parametrize(
    "given",
    [
        {"configure_logging": False},
        {"logging_level": "warning"},
        {"logging_format": "%(message)s"},
        {"include_dashboard": None},
        {"dashboard_host": "127.0.0.1"},
        {"job_config": None},
        {"logging_config": None},
        {"enable_resource_isolation": False},
        {"_node_name": None},
        {"labels": {"kind": "small"}},
    ],
    ids=lambda value: next(iter(value)),
)
@pytest.mark.skipif(not hasattr(ray, "compat"), reason="each of these costs Ray a cluster of its own")
def test_settings_that_are_accepted(fresh: Callable[..., Any], given: dict[str, Any]) -> None:
    fresh(**{"num_cpus": 1} | given)
    assert ray.is_initialized()


def test_the_context_shuts_down_at_the_end_of_a_with(fresh: Callable[..., Any]) -> None:
    with fresh(num_cpus=1) as context:
        assert ray.is_initialized()
    assert not ray.is_initialized()
    context.disconnect()


def test_shutdown_twice_is_harmless(fresh: Callable[..., Any]) -> None:
    ray.shutdown()
    ray.shutdown()
    assert not ray.is_initialized()


@pytest.mark.parametrize("question", ["cluster_resources", "available_resources", "nodes", "timeline"])
def test_a_cluster_that_is_not_there_cannot_be_queried(fresh: Callable[..., Any], question: str) -> None:
    ray.shutdown()
    kind = RuntimeError if question == "timeline" else ray.exceptions.RaySystemError
    with pytest.raises(kind, match="Ray has not been started yet"):
        getattr(ray, question)()


def test_a_job_config_says_namespace_metadata_and_environment_and_a_node_has_a_name(
    fresh: Callable[..., Any],
) -> None:
    config = ray.job_config.JobConfig(
        ray_namespace="of-the-job", runtime_env={"env_vars": {"OF_THE_JOB": "1"}}, metadata={"who": "me"}
    )
    fresh(num_cpus=1, job_config=config, _node_name="named")
    assert "named" in [node["NodeName"] for node in ray.nodes()]
    assert ray.get_runtime_context().namespace == "of-the-job"
    assert ray.get(ray.remote(lambda: __import__("os").environ.get("OF_THE_JOB")).remote()) == "1"


def test_worker_niceness_comes_from_the_environment(script: Script) -> None:
    done = script(
        "import os, ray; ray.init(START, num_cpus=1); print(ray.get(ray.remote(lambda: os.nice(0)).remote()))",
        RAY_worker_niceness="7",
    )
    assert done.stdout.split() == ["7"], done.stderr


def test_resources_and_the_score_of_workers_come_from_the_environment(script: Script) -> None:
    done = script(
        """
        import json, ray
        ray.init(START, num_cpus=1, resources={"a": 3, "b": 3})
        found = ray.cluster_resources()
        score = ray.remote(lambda: int(open("/proc/self/oom_score_adj").read()))
        print(json.dumps([found["CPU"], found["a"], found["b"], found["c"], ray.get(score.remote())]))
        """,
        RAY_OVERRIDE_RESOURCES='{"a": 1, "c": 2, "CPU": 4}',
    )
    assert json.loads(done.stdout) == [4, 1, 3, 2, 1000], done.stderr


def test_a_bundle_named_bundle_is_refused(cluster: None) -> None:
    with pytest.raises(ray.exceptions.RaySystemError, match="bundle is a system reserved resource"):
        ray.util.placement_group([{"bundle": 1}])


NAMES = (
    "ActorID", "ClusterID", "JobID", "NodeID", "ObjectID", "ObjectRef", "ObjectRefGenerator", "PlacementGroupID", "TaskID",
    "WorkerID", "actor", "available_resources", "cancel", "client", "cloudpickle", "cluster_resources", "cross_language",
    "exceptions", "experimental", "get", "get_actor", "get_gpu_ids", "get_runtime_context", "init", "is_initialized",
    "java_function", "job_config", "kill", "method", "nodes", "put", "remote", "remote_function", "runtime_context",
    "runtime_env", "shutdown", "timeline", "util", "wait", "widgets", "SCRIPT_MODE", "WORKER_MODE", "LoggingConfig",
)  # fmt: skip


@pytest.mark.parametrize("name", NAMES)
def test_ray_has(name: str) -> None:
    assert hasattr(ray, name)
    assert name in dir(ray)


def test_object_id_is_object_ref(cluster: None) -> None:
    assert ray.ObjectID is ray.ObjectRef
    assert isinstance(ray.put(1), ray.ObjectID)


@pytest.mark.parametrize("kind", ["ActorID", "NodeID", "PlacementGroupID", "WorkerID", "ClusterID"])
def test_ids_of_random_bytes_go_by_hex_and_binary(kind: str) -> None:
    cls = getattr(ray, kind)
    one, other = cls.from_random(), cls.from_random()
    assert one != other
    assert cls.from_hex(one.hex()) == one
    assert cls(one.binary()) == one
    assert len(one.binary()) == cls.size()
    assert not one.is_nil()
    assert cls.nil().is_nil()
    assert hash(cls(one.binary())) == hash(one)


@pytest.mark.parametrize("kind", ["ActorID", "NodeID", "ObjectRef", "JobID", "TaskID"])
def test_ids_of_another_length_are_refused(kind: str) -> None:
    with pytest.raises(ValueError):
        getattr(ray, kind)(b"short")


def test_ids_that_are_made_of_others() -> None:
    job = ray.JobID.from_int(7)
    actor = ray.ActorID.of(job, ray.TaskID.nil(), 1)
    assert actor != ray.ActorID.of(job, ray.TaskID.nil(), 2)
    assert actor.job_id == job
    group = ray.PlacementGroupID.of(job)
    assert group != ray.PlacementGroupID.of(job)
    assert ray.TaskID.for_fake_task(job).job_id() == job


def test_locations_of_nothing(cluster: None) -> None:
    assert ray.experimental.get_object_locations([]) == {}
    assert ray.experimental.get_local_object_locations([]) == {}


def test_titles_of_processes(cluster: None) -> None:
    psutil = pytest.importorskip("psutil")

    def title() -> str:
        return psutil.Process().cmdline()[0]

    @ray.remote(num_cpus=0)
    class Titled:
        def __init__(self) -> None:
            self.first = title()

        def both(self) -> tuple[str, str]:
            return self.first, title()

    actor = Titled.remote()
    assert ray.get(actor.both.remote()) == ("ray::Titled.__init__", "ray::Titled.both")
    assert ray.get(actor.both.options(name="mine").remote())[1] == "ray::mine"
    assert ray.get(ray.remote(title).remote()) == "ray::title"
    assert ray.get(ray.remote(title).options(name="named").remote()) == "ray::named"


def test_names_of_nested_functions(cluster: None) -> None:
    def names() -> tuple[str, str]:
        context = ray.get_runtime_context()
        return context.get_task_name(), context.get_task_function_name().rpartition(".")[2]

    @ray.remote(num_cpus=0)
    class Nested:
        def names(self) -> tuple[str, str]:
            context = ray.get_runtime_context()
            return context.get_task_name(), ".".join(context.get_task_function_name().split(".")[-2:])

    assert ray.get(ray.remote(names).remote()) == ("names", "names")
    assert ray.get(ray.remote(names).options(name="other").remote()) == ("other", "names")
    assert ray.get(Nested.remote().names.remote()) == ("Nested.names", "Nested.names")


@pytest.mark.parametrize("name", ["job_id", "node_id", "current_placement_group_id"])
def test_older_attributes_of_the_runtime_context_warn(cluster: None, name: str) -> None:
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        getattr(ray.get_runtime_context(), name)
    assert any(issubclass(each.category, DeprecationWarning) for each in seen)


def test_get_of_the_runtime_context_warns(cluster: None) -> None:
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        facts = ray.get_runtime_context().get()
    assert {"job_id", "node_id", "namespace"} <= facts.keys()
    assert any(issubclass(each.category, DeprecationWarning) for each in seen)


@pytest.mark.chosen_difference("workers of Ray have a niceness of 15", id="D-niceness")
def test_workers_are_as_nice_as_their_driver(cluster: None) -> None:
    @ray.remote
    def niceness() -> int:
        return os.nice(0)

    assert ray.get(niceness.remote()) == os.nice(0)


def test_a_function_whose_module_workers_lack_says_so(cluster: None, tmp_path: pathlib.Path) -> None:
    (tmp_path / "only_of_the_driver.py").write_text("value = 1\n")
    sys.path.insert(0, str(tmp_path))
    try:
        module = importlib.import_module("only_of_the_driver")
    finally:
        sys.path.remove(str(tmp_path))

    @ray.remote
    class Reader:
        def __init__(self) -> None:
            self.value = module.value

        def read(self) -> int:
            return int(self.value)

    task = ray.remote(lambda: module.value).remote()
    for ref in (task, Reader.remote().read.remote()):
        with pytest.raises(Exception, match="failed to import on the worker") as caught:
            ray.get(ref)
        assert "No module named 'only_of_the_driver'" in str(caught.value)


def test_a_node_without_cpus_lists_none_and_a_session_has_a_namespace_of_its_own(
    fresh: Callable[..., Any],
) -> None:
    fresh(num_cpus=0)
    assert "CPU" not in ray.cluster_resources()
    assert uuid.UUID(ray.get_runtime_context().namespace).version == 4
