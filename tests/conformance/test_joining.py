"""A second program joins the session of another by the address that init() has returned."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from typing import Any

import pytest
import ray
from waiting import wait_for

Script = Callable[..., "subprocess.CompletedProcess[str]"]


@pytest.fixture
def address(cluster: None) -> str:
    """Of the session that this process hosts."""
    found: str = ray.get_runtime_context().gcs_address
    return found


@pytest.fixture
def second(address: str, script: Script) -> Callable[..., str]:
    """Runs the lines of a program that has joined, and returns what it printed."""

    def run(*lines: str, join: str = "", **environment: str) -> str:
        namespace = ray.get_runtime_context().namespace
        given = join or f"address={address!r}, namespace={namespace!r}, log_to_driver=False"
        text = "\n".join(["import os, ray", f"context = ray.init({given})", *lines])
        done = script(text, **environment)
        assert done.returncode == 0, done.stderr
        return done.stdout

    return run


@ray.remote(num_cpus=0)
class Box:
    def __init__(self) -> None:
        self.value: Any = None

    def put(self, value: Any) -> None:
        self.value = value

    def take(self) -> Any:
        return self.value

    def job(self) -> str:
        return ray.get_runtime_context().get_job_id()


def test_a_second_program_sees_the_resources_of_the_session(second: Callable[..., str]) -> None:
    assert second("print(ray.cluster_resources()['CPU'])").split() == ["2.0"]


def test_the_context_of_a_second_program_names_the_same_session(
    second: Callable[..., str], address: str
) -> None:
    output = second("print(context.address_info['address'], len(ray.nodes()), ray.is_initialized())")
    assert output.split() == [address, "1", "True"]


def test_tasks_of_a_second_program_run(second: Callable[..., str]) -> None:
    lines = [
        "@ray.remote",
        "def double(x): return 2 * x",
        "print(sum(ray.get([double.remote(i) for i in range(50)])))",
    ]
    assert second(*lines).split() == ["2450"]


def test_both_programs_are_jobs_of_their_own(second: Callable[..., str]) -> None:
    other = second("print(ray.get_runtime_context().get_job_id())").strip()
    assert other != ray.get_runtime_context().get_job_id()


def test_a_second_program_calls_a_named_actor_of_the_first(second: Callable[..., str]) -> None:
    box = Box.options(name="given").remote()
    ray.get(box.put.remote({"from": "first"}))
    assert second("print(ray.get(ray.get_actor('given').take.remote()))").strip() == "{'from': 'first'}"


def test_a_value_that_a_second_program_gives_to_an_actor_stays_when_it_leaves(
    second: Callable[..., str],
) -> None:
    box = Box.options(name="kept").remote()
    ray.get(box.put.remote(None))
    second("box = ray.get_actor('kept')", "ray.get(box.put.remote(b'x' * 300_000))")
    assert ray.get(box.take.remote()) == b"x" * 300_000


def test_an_array_of_the_first_is_read_by_the_second(second: Callable[..., str]) -> None:
    numpy = pytest.importorskip("numpy")
    box = Box.options(name="array").remote()
    ray.get(box.put.remote(numpy.arange(100_000)))
    assert second("print(ray.get(ray.get_actor('array').take.remote()).sum())").split() == ["4999950000"]


def test_a_detached_actor_of_a_second_program_outlives_it(second: Callable[..., str]) -> None:
    second(
        "@ray.remote(num_cpus=0)",
        "class Counter:",
        "    n = 0",
        "    def add(self): self.n += 1; return self.n",
        "counter = Counter.options(name='detached', lifetime='detached').remote()",
        "assert ray.get(counter.add.remote()) == 1",
    )
    counter = ray.get_actor("detached")
    assert ray.get(counter.add.remote()) == 2
    ray.kill(counter)


def test_an_actor_of_a_second_program_ends_with_it(second: Callable[..., str]) -> None:
    second(
        "@ray.remote(num_cpus=0)",
        "class Passing:",
        "    def ready(self): return True",
        "passing = Passing.options(name='passing').remote()",
        "assert ray.get(passing.ready.remote())",
    )

    def gone() -> bool:
        try:
            ray.get_actor("passing")
        except ValueError:
            return True
        return False

    wait_for(gone, what="the actor to end with its program", timeout_s=30)


def test_another_namespace_hides_the_names(second: Callable[..., str], address: str) -> None:
    box = Box.options(name="hidden").remote()
    ray.get(box.put.remote(1))
    mine = ray.get_runtime_context().namespace
    output = second(
        "try: ray.get_actor('hidden')",
        "except ValueError as error: print('unknown')",
        f"print(ray.get(ray.get_actor('hidden', namespace={mine!r}).take.remote()))",
        join=f"address={address!r}, namespace='other', log_to_driver=False",
    )
    assert output.split() == ["unknown", "1"]


def test_a_program_without_a_namespace_has_one_of_its_own(second: Callable[..., str], address: str) -> None:
    output = second(
        "print(ray.get_runtime_context().namespace)", join=f"address={address!r}, log_to_driver=False"
    )
    assert output.strip() not in ("", ray.get_runtime_context().namespace)


def test_shutdown_of_the_second_leaves_the_session(second: Callable[..., str]) -> None:
    second("ray.shutdown()", "assert not ray.is_initialized()")
    assert ray.get(ray.remote(lambda: 5).remote()) == 5


def test_the_second_may_leave_and_come_again(second: Callable[..., str], address: str) -> None:
    again = f"ray.init(address={address!r}, log_to_driver=False)"
    output = second("ray.shutdown()", again, "print(ray.get(ray.remote(lambda: 6).remote()))")
    assert output.split() == ["6"]


def test_the_address_may_come_from_the_environment(second: Callable[..., str], address: str) -> None:
    output = second("print(context.address_info['address'])", join="log_to_driver=False", RAY_ADDRESS=address)
    assert output.strip() == address


def test_what_the_tasks_of_the_second_print_is_printed_there(
    second: Callable[..., str], address: str
) -> None:
    lines = [
        "@ray.remote",
        "def speak(): print('words of a task')",
        "ray.get(speak.remote())",
        "ray.shutdown()",
    ]
    assert "words of a task" in second(*lines, join=f"address={address!r}")


def test_resources_cannot_be_named_when_joining(second: Callable[..., str], address: str) -> None:
    output = second(
        "ray.shutdown()",
        f"try: ray.init(address={address!r}, num_cpus=3)",
        "except ValueError as error: print(error)",
    )
    assert "num_cpus" in output


def test_the_runtime_env_of_the_second_is_its_own(second: Callable[..., str], address: str) -> None:
    output = second(
        "print(ray.get(ray.remote(lambda: os.environ.get('COLOUR')).remote()))",
        join=f"address={address!r}, log_to_driver=False, runtime_env={{'env_vars': {{'COLOUR': 'green'}}}}",
    )
    assert output.strip() == "green"
    assert ray.get(ray.remote(lambda: __import__("os").environ.get("COLOUR")).remote()) is None


@pytest.mark.chosen_difference("Ray tries for a minute and more", id="D-address-ended")
def test_a_session_that_has_ended_cannot_be_joined(script: Script) -> None:
    done = script(
        """
        import ray
        address = ray.init(START, num_cpus=1).address_info["address"]
        ray.shutdown()
        try:
            ray.init(address=address, log_to_driver=False)
        except (ConnectionError, RuntimeError) as error:
            print("refused", error)
        """
    )
    assert "refused there is no session at skate://" in done.stdout, done.stderr
