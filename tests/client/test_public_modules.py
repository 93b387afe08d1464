"""Small public modules: re-exported names, and names that are rejected with a reason."""

from __future__ import annotations

import logging
import os
import typing
from collections.abc import Iterator
from typing import Any

import pytest

import skate as ray
from skate import actor, autoscaler, runtime_context, types, widgets
from skate.client.session.logging_config import LoggingConfig
from skate.experimental import tqdm_ray
from skate.job_config import JobConfig


@pytest.fixture
def local() -> Iterator[None]:
    ray.init(num_cpus=2, local_mode=True)
    yield
    ray.shutdown()


def test_actor_and_runtime_context_are_the_same_names() -> None:
    assert actor.method is ray.method
    assert runtime_context.get_runtime_context is ray.get_runtime_context
    assert isinstance(ray.remote(type("C", (), {})), actor.ActorClass)


def test_other_languages_are_refused() -> None:
    assert [each.name for each in ray.Language] == ["PYTHON", "JAVA", "CPP"]
    with pytest.raises(NotImplementedError, match="a.B.c"):
        ray.java_function("a.B", "c")
    with pytest.raises(NotImplementedError, match="a.B"):
        ray.java_actor_class("a.B")


def test_the_client_builder_starts_here_without_an_address() -> None:
    builder = (
        ray.client("local")
        .namespace("mine")
        .env({"env_vars": {"A": "1"}})
        ._init_args(local_mode=True, num_cpus=1)
    )
    with builder.connect():
        assert ray.get_runtime_context().namespace == "mine"
        assert ray.get(ray.remote(lambda: os.environ.get("A")).remote()) == "1"
    assert not ray.is_initialized()


def test_logging_config_is_checked() -> None:
    config = ray.LoggingConfig(encoding="JSON", log_level="DEBUG", additional_log_standard_attrs=["name"])
    assert config.to_dict() == {
        "encoding": "JSON",
        "log_level": "DEBUG",
        "additional_log_standard_attrs": ["name"],
    }
    assert LoggingConfig.from_dict({**config.to_dict(), "later": 1}) == config
    for given in ({"encoding": "XML"}, {"log_level": "LOUD"}, {"additional_log_standard_attrs": ["nme"]}):
        with pytest.raises(ValueError, match="XML|LOUD|nme"):
            ray.LoggingConfig(**given)


def test_job_config() -> None:
    config = JobConfig(metadata={"who": "me"}, ray_namespace="there", runtime_env={"env_vars": {"B": "2"}})
    assert config.metadata == {"who": "me"}
    assert JobConfig().ray_namespace != JobConfig().ray_namespace
    assert JobConfig.from_json({"namespace": "n", "jvm_options": ["-x"]}).ray_namespace == "n"
    with pytest.raises(ValueError, match="eternal"):
        JobConfig(default_actor_lifetime="eternal")
    with pytest.raises(TypeError, match="5"):
        JobConfig(metadata={"n": 5})  # type: ignore[dict-item]
    with pytest.raises(TypeError, match="list"):
        JobConfig(code_search_path="/a")  # type: ignore[arg-type]
    with ray.init(num_cpus=1, local_mode=True, job_config=config):
        assert ray.get_runtime_context().namespace == "there"
        assert ray.get(ray.remote(lambda: os.environ.get("B")).remote()) == "2"


def test_refs_have_a_type() -> None:
    assert typing.get_args(types.ObjectRef[int]) == (int,)


def test_objects_of_clients_are_ordinary_ones() -> None:
    from skate.util.client import common

    assert (common.ClientObjectRef, common.ClientActorHandle) == (ray.ObjectRef, ray.actor.ActorHandle)


def test_widgets_make_plain_tables() -> None:
    assert "<td>a&lt;</td><td>1</td>" in widgets.make_table_html_repr({"a<": 1}, title="T")
    with pytest.raises(NotImplementedError, match="table.html"):
        widgets.Template("table.html")


# the autoscaler


def test_a_demand_that_cannot_be_met_is_warned_of(local: None, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING, logger="skate.autoscaler"):
        autoscaler.sdk.request_resources(num_cpus=2)
        autoscaler.sdk.request_resources(bundles=[{"CPU": 1}])
        assert caplog.text == ""
        autoscaler.sdk.request_resources(num_cpus=1, bundles=[{"CPU": 2, "GPU": 1}])
    assert "CPU: 3 of 2" in caplog.text and "GPU: 1 of 0" in caplog.text


@pytest.mark.parametrize("given", [{"num_cpus": 1.5}, {"bundles": {"CPU": 1}}, {"bundles": [1]}])
def test_demands_are_checked(given: dict[str, Any]) -> None:
    with pytest.raises(TypeError):
        autoscaler.sdk.request_resources(**given)


def test_the_providers_of_clouds_are_refused() -> None:
    for name in (
        "bootstrap_config", "fillout_defaults", "get_docker_host_mount_location", "register_callback_handler",
    ):  # fmt: skip
        arguments = ("a", "b") if name == "register_callback_handler" else ("config.yaml",)
        with pytest.raises(NotImplementedError, match=name):
            getattr(autoscaler.sdk, name)(*arguments)
    autoscaler.sdk.configure_logging(log_style="pretty")


# experimental


def test_progress_in_a_driver_without_a_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    assert list(tqdm_ray.tqdm([1, 2], desc="load", flush_interval_s=0)) == [1, 2]
    lines = capsys.readouterr().err.splitlines()
    assert [line.split(" [")[0] for line in lines] == [
        "load:  50%|##########          | 1/2",
        "load: 100%|####################| 2/2",
        "load: 100%|####################| 2/2",
    ]


def test_progress_in_a_worker_is_printed(local: None, capsys: pytest.CaptureFixture[str]) -> None:
    @ray.remote
    def work() -> None:
        with tqdm_ray.tqdm(desc="steps", unit="step") as bar:
            bar.update(3)
            bar.set_description("more")
            bar.refresh()

    ray.get(work.remote())
    shown = capsys.readouterr()
    assert [line.split(" [")[0] for line in shown.out.splitlines()] == ["steps: 3 step", "more: 3 step"]
    assert shown.err == ""


def test_progress_on_a_terminal_stays_on_its_line(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.stderr.isatty", lambda: True, raising=False)
    bar = tqdm_ray.tqdm(total=2, flush_interval_s=0)
    bar.update()
    tqdm_ray.safe_print("a line")
    bar.update()
    bar.close()
    shown = capsys.readouterr()
    assert shown.out == "a line\n"
    assert shown.err.count("\n") == 1 and shown.err.count("\r\x1b[K") == 2
    with pytest.raises(ValueError, match="iterable"):
        list(bar)


def test_where_objects_are(local: None) -> None:
    from skate.experimental import get_local_object_locations, get_object_locations

    small, large = ray.put(b"x"), ray.put(bytes(1_000_000))
    found = get_object_locations([small, large])
    node = ray.get_runtime_context().get_node_id()
    assert [found[ref]["node_ids"] for ref in (small, large)] == [[node], [node]]
    assert found[large]["object_size"] >= 1_000_000
    assert get_local_object_locations([small])[small]["did_spill"] is False
    assert get_object_locations([]) == {}
    with pytest.raises(TypeError, match="list of ObjectRefs"):
        get_object_locations(small)  # type: ignore[arg-type]


def test_what_experimental_lacks_says_why() -> None:
    from skate import experimental

    with pytest.raises(AttributeError, match="no NIXL.*shared memory"):
        _ = experimental.register_nixl_memory
    with pytest.raises(DeprecationWarning, match="resources="):
        experimental.set_resource("widget", 1)


# functions that cannot be tasks


def test_a_coroutine_function_is_no_task() -> None:
    async def later() -> None: ...

    for decorate in (ray.remote, ray.remote(num_cpus=1)):
        with pytest.raises(
            ValueError, match=r"'async def' should not be used for remote tasks.*later is one.*asyncio\.run"
        ):
            decorate(later)
