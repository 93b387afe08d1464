"""Names that tests of programs take from Ray's test kit and from its common functions."""

from __future__ import annotations

import asyncio
import os
import pathlib
import subprocess
import sys
from typing import Any

import pytest
import ray
from ray._common import test_utils
from ray._common import utils as common
from ray._private import test_utils as kit
from ray._private import utils as private

KIT = [
    "wait_for_condition", "run_string_as_driver_nonblocking", "chdir", "check_call_ray", "check_call_subprocess",
    "client_test_enabled", "convert_actor_state", "external_redis_test_enabled", "generate_system_config_map",
    "get_actor_node_id", "get_current_unused_port", "get_non_head_nodes", "get_other_nodes",
    "is_placement_group_removed", "kill_actor_and_wait_for_failure", "no_resource_leaks_excluding_node_resources",
    "placement_group_assert_no_leak", "put_object", "recursive_fnmatch", "run_string_as_driver_stdout_stderr",
    "same_elements", "wait_for_assertion", "wait_for_children_of_pid", "wait_for_children_of_pid_to_exit",
    "wait_for_num_actors", "wait_for_pid_to_exit", "wait_until_succeeded_without_exception",
]  # fmt: skip


@pytest.mark.parametrize("name", KIT)
def test_the_kit_has(name: str) -> None:
    assert callable(getattr(kit, name))


@ray.remote(num_cpus=0)
class Held:
    def pid(self) -> int:
        return os.getpid()


def test_processes_are_waited_for() -> None:
    process = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    kit.wait_for_children_of_pid(os.getpid(), num_children=1, timeout=10)
    with pytest.raises(Exception):  # noqa: B017  (Ray's type here is none that one would name)
        kit.wait_for_pid_to_exit(process.pid, timeout=0.2)
    process.communicate(b"\n")
    kit.wait_for_pid_to_exit(process.pid, timeout=10)


def test_an_actor_that_is_killed_ends_its_process(cluster: None) -> None:
    actor = Held.remote()
    pid = ray.get(actor.pid.remote())
    ray.kill(actor)
    kit.wait_for_pid_to_exit(pid)


def test_the_node_of_an_actor(cluster: None) -> None:
    assert kit.get_actor_node_id(Held.remote()) == ray.get_runtime_context().get_node_id()


def test_groups_are_removed(cluster: None) -> None:
    group = ray.util.placement_group([{"CPU": 1}])
    ray.get(group.ready())
    assert not kit.is_placement_group_removed(group)
    kit.placement_group_assert_no_leak([group])
    kit.wait_for_condition(lambda: kit.is_placement_group_removed(group))


@pytest.mark.parametrize("use_put", [True, False])
def test_a_value_by_put_or_by_a_task(cluster: None, use_put: bool) -> None:
    assert ray.get(kit.put_object([1, 2], use_put)) == [1, 2]


def test_nothing_leaks_when_nothing_runs(cluster: None) -> None:
    kit.wait_for_condition(kit.no_resource_leaks_excluding_node_resources)


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        ([1, 2], [2, 1], True),
        ([1, 1], [1, 2], False),
        ([{}], [{}], True),
        ([], [], True),
    ],
)
def test_same_elements(one: Any, other: Any, same: bool) -> None:
    assert kit.same_elements(one, other) is same


def test_assertions_are_waited_for() -> None:
    seen: list[int] = []

    def enough() -> None:
        seen.append(1)
        assert len(seen) >= 3

    kit.wait_for_assertion(enough, retry_interval_ms=1)
    with pytest.raises(AssertionError, match="never"):
        kit.wait_for_assertion(_never, timeout=0.1, retry_interval_ms=10)


def _never() -> None:
    raise AssertionError("never")


def test_waiting_until_nothing_is_raised() -> None:
    calls: list[int] = []

    def works_the_third_time(limit: int) -> None:
        calls.append(1)
        if len(calls) < limit:
            raise KeyError

    assert kit.wait_until_succeeded_without_exception(
        works_the_third_time, (KeyError,), 3, retry_interval_ms=1
    )
    assert not kit.wait_until_succeeded_without_exception(
        works_the_third_time, (KeyError,), 10**9, timeout_ms=20, retry_interval_ms=5
    )


def test_files_by_pattern(tmp_path: pathlib.Path) -> None:
    (tmp_path / "deep").mkdir()
    (tmp_path / "deep" / "a.log").write_text("")
    (tmp_path / "b.txt").write_text("")
    assert [pathlib.Path(each).name for each in kit.recursive_fnmatch(str(tmp_path), "*.log")] == ["a.log"]


def test_another_working_directory(tmp_path: pathlib.Path) -> None:
    before = os.getcwd()
    with kit.chdir(str(tmp_path)):
        assert os.getcwd() == str(tmp_path)
    assert os.getcwd() == before


def test_both_outputs_of_a_program() -> None:
    out, err = kit.run_string_as_driver_stdout_stderr(
        "import sys; print('out'); print('err', file=sys.stderr)"
    )
    assert ("out" in out, "err" in err) == (True, True)


def test_a_program_that_fails() -> None:
    with pytest.raises(subprocess.CalledProcessError):
        test_utils.run_string_as_driver("raise SystemExit(3)")


def test_settings_of_the_system() -> None:
    assert "a" in str(kit.generate_system_config_map(a=1))


# common functions


@pytest.mark.parametrize("home", [common], ids=["common"])
def test_ids_as_text(home: Any) -> None:
    assert home.binary_to_hex(b"\x01\xff") == "01ff"
    assert home.hex_to_binary("01ff") == b"\x01\xff"


@pytest.mark.parametrize(
    ("text", "expected"),
    [("1", True), ("true", True), ("True", True), ("0", False), ("no", False), (None, True)],
)
def test_a_variable_as_truth(monkeypatch: pytest.MonkeyPatch, text: str | None, expected: bool) -> None:
    monkeypatch.delenv("A_VARIABLE", raising=False)
    if text is not None:
        monkeypatch.setenv("A_VARIABLE", text)
    assert common.env_bool("A_VARIABLE", True) is expected


@pytest.mark.parametrize(("text", "expected"), [("12", 12), ("x", 5), (None, 5)])
def test_a_variable_as_number(monkeypatch: pytest.MonkeyPatch, text: str | None, expected: int) -> None:
    monkeypatch.delenv("A_VARIABLE", raising=False)
    if text is not None:
        monkeypatch.setenv("A_VARIABLE", text)
    assert common.env_integer("A_VARIABLE", 5) == expected


@pytest.mark.parametrize(
    ("path", "expected"),
    [("os.path.join", os.path.join), ("os.getpid", os.getpid)],
)
def test_an_import_by_path(path: str, expected: Any) -> None:
    assert common.import_attr(path) is expected


def test_mistakes_of_an_import_by_path() -> None:
    with pytest.raises(TypeError):
        common.import_attr(None)
    with pytest.raises(ValueError, match="at most one colon"):
        common.import_attr("a:b:c")
    with pytest.raises(ModuleNotFoundError):
        common.import_attr("no_such_module.name")
    with pytest.raises(AttributeError):
        common.import_attr("os.nothing")


def test_a_class_by_path() -> None:
    assert common.load_class("pathlib.Path") is pathlib.Path
    with pytest.raises(ValueError, match="valid path"):
        common.load_class("Path")


def test_names_of_parameters() -> None:
    assert sorted(common.get_function_args(lambda a, b=1: None)) == ["a", "b"]


def test_an_event_loop() -> None:
    async def running() -> bool:
        return common.get_or_create_event_loop() is asyncio.get_running_loop()

    assert asyncio.run(running())


def test_a_task_in_the_background() -> None:
    async def main() -> list[int]:
        done: list[int] = []

        async def work() -> None:
            done.append(1)

        await common.run_background_task(work())
        return done

    assert asyncio.run(main()) == [1]


def test_random_text() -> None:
    text = common.get_random_alphanumeric_string(10)
    assert len(text) == 10 and text.isalnum()


def test_a_folder_is_made_once(tmp_path: pathlib.Path) -> None:
    for _ in range(2):
        common.try_to_create_directory(str(tmp_path / "a" / "b"))
    assert (tmp_path / "a" / "b").is_dir()


@pytest.mark.parametrize(
    ("formatted", "original"),
    [
        ({"CPU": 1}, {"CPU": 1}),
        ({"CPU_group_0_4482dec0": 1, "CPU_group_4482dec0": 2}, {"CPU": 2}),
        ({"bundle_group_4482dec0": 1000, "memory_group_4482dec0": 5}, {"memory": 5}),
        ({}, {}),
    ],
)
def test_resources_of_groups(formatted: dict[str, float], original: dict[str, float]) -> None:
    assert private.parse_pg_formatted_resources_to_original(formatted) == original


def test_memory_and_cpus() -> None:
    assert common.get_system_memory() > 0
    assert private.get_used_memory() > 0
    assert private.get_num_cpus() >= 1


def test_variables_are_set(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("A_VARIABLE", "before")
    private.update_envs({"A_VARIABLE": "${A_VARIABLE}:after"})
    assert os.environ["A_VARIABLE"] == "before:after"


def test_namespaces_are_checked() -> None:
    private.validate_namespace("name")
    with pytest.raises(ValueError, match="not a valid namespace"):
        private.validate_namespace("")
    with pytest.raises(TypeError, match="namespace must be None or a string"):
        private.validate_namespace(1)
