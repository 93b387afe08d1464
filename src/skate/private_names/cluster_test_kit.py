"""Functions of Ray's test kit that tests of programs import: processes, actors, nodes and scripts."""

from __future__ import annotations

import contextlib
import fnmatch
import os
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from typing import Any

import psutil

import skate
from skate.private_names import state
from skate.private_names.test_kit import run_string_as_driver_nonblocking, wait_for_condition
from skate.util.placement_group import placement_group_table

# processes


def _alive(pid: int) -> bool:
    try:
        return bool(psutil.Process(pid).status() != psutil.STATUS_ZOMBIE)
    except psutil.NoSuchProcess:
        return False


def wait_for_pid_to_exit(pid: int, timeout: float = 20) -> None:
    """Wait until a process has ended. Raises RuntimeError after `timeout` seconds."""
    wait_for_condition(lambda: not _alive(pid), timeout=timeout)


def wait_for_children_of_pid(pid: int, num_children: int = 1, timeout: float = 20) -> None:
    """Wait until a process has at least `num_children` children."""
    wait_for_condition(lambda: len(psutil.Process(pid).children()) >= num_children, timeout=timeout)


def wait_for_children_of_pid_to_exit(pid: int, timeout: float = 20) -> None:
    """Wait until the current children of a process have ended. Raises RuntimeError after `timeout` seconds."""
    _, alive = psutil.wait_procs(psutil.Process(pid).children(), timeout=timeout)
    if alive:
        raise RuntimeError(
            f"children of process {pid} are still running after {timeout} s: {[each.pid for each in alive]}"
        )


def check_call_subprocess(argv: list[str], capture_stdout: bool = False, capture_stderr: bool = False) -> Any:
    """Run a command; return (stdout, stderr) as text if either is captured. Raises CalledProcessError on failure."""
    done = subprocess.run(
        argv,
        stdout=subprocess.PIPE if capture_stdout else None,
        stderr=subprocess.PIPE if capture_stderr else None,
        text=True,
        check=True,
    )
    return (done.stdout, done.stderr) if capture_stdout or capture_stderr else None


def check_call_ray(args: list[str], capture_stdout: bool = False, capture_stderr: bool = False) -> Any:
    """Run the command `skate`, the equivalent of `ray`, as `check_call_subprocess` does."""
    return check_call_subprocess([sys.executable, "-m", "skate", *args], capture_stdout, capture_stderr)


def run_string_as_driver_stdout_stderr(
    driver_script: str, env: dict[str, str] | None = None, encode: str = "utf-8", timeout: float | None = 300
) -> tuple[str, str]:
    """Run a script to its end and return its stdout and stderr. Raises CalledProcessError on failure."""
    with run_string_as_driver_nonblocking(driver_script, env, stderr=subprocess.PIPE) as process:
        out, err = process.communicate(timeout=timeout)
    if process.returncode:
        raise subprocess.CalledProcessError(process.returncode, process.args, out, err)
    return out.decode(encode), err.decode(encode)


# conditions


def wait_for_assertion(
    assertion_predictor: Callable[..., Any],
    timeout: float = 10,
    retry_interval_ms: float = 100,
    raise_exceptions: bool = False,
    **kwargs: Any,
) -> None:
    """Call a function until its assertions hold. After `timeout` seconds, call it once more to raise its error."""

    def holds() -> bool:
        try:
            assertion_predictor(**kwargs)
        except AssertionError:
            return False
        return True

    try:
        wait_for_condition(holds, timeout, retry_interval_ms, raise_exceptions)
    except RuntimeError:
        assertion_predictor(**kwargs)


def wait_until_succeeded_without_exception(
    func: Callable[..., Any],
    exceptions: tuple[type[BaseException], ...],
    *args: Any,
    timeout_ms: float = 1000,
    retry_interval_ms: float = 100,
    raise_last_ex: bool = False,
) -> bool:
    """Call a function until it raises none of `exceptions`. Return False if it still does after `timeout_ms`."""
    deadline = time.monotonic() + timeout_ms / 1000
    while True:
        try:
            func(*args)
        except exceptions:
            if time.monotonic() > deadline:
                if raise_last_ex:
                    raise
                return False
            time.sleep(retry_interval_ms / 1000)
        else:
            return True


def same_elements(elems_a: Any, elems_b: Any) -> bool:
    """Return True if two collections have the same elements in any order. The elements need not be hashable."""
    left = list(elems_b)
    for each in elems_a:
        if each not in left:
            return False
        left.remove(each)
    return not left


def recursive_fnmatch(dirpath: str, pattern: str) -> list[str]:
    """Return the paths of all files in a folder and its subfolders whose names match a pattern."""
    return [
        os.path.join(root, name)
        for root, _, names in os.walk(dirpath)
        for name in fnmatch.filter(names, pattern)
    ]


# actors, groups and nodes


def convert_actor_state(state: Any) -> Any:
    """Return the name of an actor's state."""
    return state


def wait_for_num_actors(num_actors: int, state: str | None = None, timeout: float = 10) -> None:
    """Wait until there are at least `num_actors` actors, in `state` if given."""
    wait_for_condition(lambda: len(_actors(state)) >= num_actors, timeout=timeout)


def _actors(wanted: str | None) -> list[Any]:
    return [each for each in state.actors().values() if wanted in (None, each["State"])]


def kill_actor_and_wait_for_failure(actor: Any, timeout: float = 10, retry_interval_ms: float = 100) -> None:
    """Kill an actor, and wait until it is dead or has been restarted."""
    actor_id = actor._actor_id.hex()
    before = state.actors(actor_id)["NumRestarts"]
    skate.kill(actor)

    def failed() -> bool:
        now = state.actors(actor_id)
        return bool(now["State"] == "DEAD" or now["NumRestarts"] > before)

    wait_for_condition(failed, timeout, retry_interval_ms)


def get_actor_node_id(actor_handle: Any) -> str:
    """Call an actor and return the id of its node."""
    return str(
        skate.get(actor_handle.__ray_call__.remote(lambda _: skate.get_runtime_context().get_node_id()))
    )


def is_placement_group_removed(pg: Any) -> bool:
    """Return True if a placement group is removed or unknown."""
    table = placement_group_table(pg)
    return not table or bool(table["state"] == "REMOVED")


def placement_group_assert_no_leak(pgs_created: list[Any]) -> None:
    """Remove placement groups, and wait until all CPUs are free."""
    for each in pgs_created:
        skate.util.remove_placement_group(each)

    def free() -> bool:
        return bool(skate.available_resources().get("CPU") == skate.cluster_resources().get("CPU"))

    wait_for_condition(free)


def get_other_nodes(cluster: Any, exclude_head: bool = False) -> list[Any]:
    """Return all nodes except that of this process, and without the head if `exclude_head`."""
    mine = skate.get_runtime_context().get_node_id()
    head = [cluster.head_node] if exclude_head else []
    return [each for each in cluster.list_all_nodes() if each.node_id != mine and each not in head]


def get_non_head_nodes(cluster: Any) -> list[Any]:
    """Return all nodes except the head."""
    return [each for each in cluster.list_all_nodes() if each is not cluster.head_node]


def no_resource_leaks_excluding_node_resources() -> bool:
    """Return True if no resource is in use, apart from memory and the resources of single nodes."""

    def kept(amounts: dict[str, float]) -> dict[str, float]:
        return {key: each for key, each in amounts.items() if "node:" not in key and "memory" not in key}

    return bool(kept(skate.cluster_resources()) == kept(skate.available_resources()))


def put_object(obj: Any, use_ray_put: bool) -> Any:
    """Return a ref of a value, created by `put` or as the result of a task."""
    return skate.put(obj) if use_ray_put else skate.remote(lambda: obj).remote()


# the rest


def generate_system_config_map(**kwargs: Any) -> dict[str, Any]:
    """Return arguments for `init` with the given `_system_config`."""
    return {"_system_config": kwargs}


def get_gpu_visible_devices_env_var() -> str:
    """Return the name of the environment variable that limits the GPUs of a process."""
    return "CUDA_VISIBLE_DEVICES"


def get_current_unused_port() -> int:
    """Return a free port."""
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        return int(sock.getsockname()[1])


def client_test_enabled() -> bool:
    """Return False, because there is no thin client."""
    return False


def external_redis_test_enabled() -> bool:
    """Return False, because there is no Redis."""
    return False


@contextlib.contextmanager
def chdir(d: str) -> Iterator[None]:
    """Change the working directory within a block."""
    before = os.getcwd()
    os.chdir(d)
    try:
        yield
    finally:
        os.chdir(before)
