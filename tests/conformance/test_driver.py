"""The driver's life: init, shutdown, again; what runs by itself; threads and event loops."""

from __future__ import annotations

import os

import pytest
import ray


@ray.remote
def echo(value):
    return value


def test_core_42_not_initialized_at_first(fresh):
    assert ray.is_initialized() is False


def test_core_42_initialized_after_init_and_not_after_shutdown(fresh):
    fresh(num_cpus=1)
    assert ray.is_initialized() is True
    ray.shutdown()
    assert ray.is_initialized() is False


def test_core_42_shutdown_without_init_is_harmless(fresh):
    ray.shutdown()
    ray.shutdown()


def test_core_42_init_twice_is_a_runtime_error(cluster):
    with pytest.raises(RuntimeError, match="ignore_reinit_error"):
        ray.init(num_cpus=1)


def test_core_42_cluster_works_on_after_a_refused_second_init(cluster):
    with pytest.raises(RuntimeError):
        ray.init(num_cpus=1)
    assert ray.get(echo.remote(1)) == 1


def test_core_42_ignore_reinit_error_keeps_the_running_cluster(cluster):
    ray.init(num_cpus=1, ignore_reinit_error=True)
    assert ray.cluster_resources()["CPU"] == 2.0


def test_core_42_ignore_reinit_error_returns_a_context(cluster):
    again = ray.init(ignore_reinit_error=True)
    assert again.address_info["node_id"] == ray.get_runtime_context().get_node_id()


def test_core_42_init_again_after_shutdown(fresh):
    fresh(num_cpus=1)
    assert ray.get(echo.remote(1)) == 1
    ray.shutdown()
    fresh(num_cpus=2)
    assert ray.cluster_resources()["CPU"] == 2.0
    assert ray.get(echo.remote(2)) == 2


def test_core_42_remote_function_defined_before_init_works(fresh):
    late = ray.remote(lambda: "defined first")
    assert ray.is_initialized() is False
    fresh(num_cpus=1)
    assert ray.get(late.remote()) == "defined first"


def test_core_42_remote_function_used_in_one_cluster_works_in_the_next(fresh):
    state = {"v": 1}
    read = ray.remote(lambda: state["v"])
    fresh(num_cpus=1)
    assert ray.get(read.remote()) == 1
    ray.shutdown()
    fresh(num_cpus=1)
    assert ray.get(read.remote()) == 1


def test_core_42_actor_class_used_in_one_cluster_works_in_the_next(fresh):
    @ray.remote
    class Actor:
        def ping(self):
            return "pong"

    for _ in range(2):
        fresh(num_cpus=1)
        assert ray.get(Actor.remote().ping.remote()) == "pong"
        ray.shutdown()


def test_core_42_first_remote_call_starts_a_cluster(fresh):
    ref = echo.remote("by itself")
    assert ray.is_initialized()
    assert ray.get(ref) == "by itself"


def test_core_42_first_put_starts_a_cluster(fresh):
    ref = ray.put("by itself")
    assert ray.is_initialized()
    assert ray.get(ref) == "by itself"


def test_core_42_first_actor_starts_a_cluster(fresh):
    @ray.remote
    class Actor:
        def ping(self):
            return "pong"

    actor = Actor.remote()
    assert ray.is_initialized()
    assert ray.get(actor.ping.remote()) == "pong"


def test_core_42_ref_of_an_ended_cluster_is_not_usable_in_the_next(fresh):
    fresh(num_cpus=1)
    ref = echo.remote("old")
    ray.get(ref)
    ray.shutdown()
    fresh(num_cpus=1)
    with pytest.raises((ray.exceptions.RayError, ValueError, RuntimeError)):
        ray.get(ref, timeout=2)


def test_core_42_shutdown_with_tasks_still_running_returns(fresh, gate):
    started, release = gate("started"), gate("release")
    fresh(num_cpus=1)

    @ray.remote
    def hold():
        started.open()
        release.wait(60)

    hold.remote()
    started.wait()
    ray.shutdown()
    assert not ray.is_initialized()


def test_context_of_init_tells_versions_and_addresses(fresh):
    context = fresh(num_cpus=1)
    assert context.ray_version == ray.__version__
    assert context.python_version.count(".") == 2
    assert {"node_id", "session_dir"} <= set(context.address_info)


def test_context_of_init_shuts_down_at_the_end_of_a_with_block(fresh):
    with fresh(num_cpus=1):
        assert ray.get(echo.remote(1)) == 1
    assert not ray.is_initialized()


def test_context_of_init_shuts_down_when_the_block_raises(fresh):
    with pytest.raises(KeyError), fresh(num_cpus=1):
        raise KeyError
    assert not ray.is_initialized()


def test_context_can_be_disconnected(fresh):
    fresh(num_cpus=1).disconnect()
    assert not ray.is_initialized()


def test_init_takes_its_numbers(fresh):
    fresh(num_cpus=3, num_gpus=1, resources={"a": 3}, object_store_memory=100 * 1024 * 1024)
    resources = ray.cluster_resources()
    assert resources["CPU"] == 3.0
    assert resources["GPU"] == 1.0
    assert resources["a"] == 3.0
    assert resources["object_store_memory"] == pytest.approx(100 * 1024 * 1024, rel=0.1)


def test_init_with_labels_shows_them_on_the_node(fresh):
    fresh(num_cpus=1, labels={"region": "here"})
    assert ray.nodes()[0]["Labels"]["region"] == "here"


def test_init_with_namespace(fresh):
    fresh(num_cpus=1, namespace="mine")
    assert ray.get_runtime_context().namespace == "mine"
    assert ray.get(ray.remote(lambda: ray.get_runtime_context().namespace).remote()) == "mine"


def test_init_with_env_vars_for_all_tasks(fresh):
    fresh(num_cpus=1, runtime_env={"env_vars": {"SKATE_CONFORMANCE_JOB": "whole job"}})

    @ray.remote
    def read():
        return os.environ.get("SKATE_CONFORMANCE_JOB"), os.environ.get("SKATE_CONFORMANCE_TASK")

    assert ray.get(read.remote()) == ("whole job", None)
    added = read.options(runtime_env={"env_vars": {"SKATE_CONFORMANCE_TASK": "one task"}})
    assert ray.get(added.remote()) == ("whole job", "one task")


@pytest.mark.parametrize(
    ("options", "error"),
    [
        ({"num_cpus": -1}, ValueError),
        ({"no_such_option": 1}, (RuntimeError, TypeError, ValueError)),
        ({"object_store_memory": 1000}, ValueError),
        ({"namespace": ""}, ValueError),
        ({"resources": {"a": 1.5}}, ValueError),
    ],
    ids=["negative-cpus", "unknown-option", "store-too-small", "empty-namespace", "fraction-of-a-resource"],
)
def test_bad_init_is_refused_and_leaves_nothing_running(fresh, options, error):
    with pytest.raises(error):
        fresh(**options)
    assert not ray.is_initialized()


def test_call_that_needs_a_cluster_says_so(fresh):
    with pytest.raises((RuntimeError, ray.exceptions.RaySystemError)):
        ray.cluster_resources()


def test_runtime_context_of_the_driver(cluster):
    context = ray.get_runtime_context()
    assert len(context.get_job_id()) == 8
    assert len(context.get_node_id()) == 56
    assert context.get_actor_id() is None


def test_namespace_of_the_driver_is_made_up_when_none_was_given(cluster):
    assert len(ray.get_runtime_context().namespace) >= 8


def test_version_is_the_one_whose_api_this_is():
    assert ray.__version__ == "2.60.0"


# SIGTERM


@pytest.mark.parametrize(
    "before", ["", "signal.signal(signal.SIGTERM, lambda *_: sys.exit(7))"], ids=["default", "own"]
)
def test_sigterm_ends_a_driver_as_sys_exit_does(script, before):
    """As Ray's own handler has it, which takes the place of one that was set before `init`."""
    done = script(f"""
        import atexit, os, signal, sys
        import ray

        {before}
        ray.init(num_cpus=1, START)
        atexit.register(lambda: print("atexit", flush=True))
        try:
            os.kill(os.getpid(), signal.SIGTERM)
            import time
            time.sleep(60)
        finally:
            print("finally", flush=True)
        """)
    assert done.stdout.split() == ["finally", "atexit"]
    assert done.returncode not in (0, 7)


def test_a_handler_of_sigterm_that_is_set_after_init_stays(script):
    done = script("""
        import os, signal, sys
        import ray

        ray.init(num_cpus=1, START)
        signal.signal(signal.SIGTERM, lambda *_: sys.exit(7))
        os.kill(os.getpid(), signal.SIGTERM)
        """)
    assert done.returncode == 7


def test_sigterm_interrupts_a_get(script):
    done = script("""
        import os, signal, threading, time
        import ray

        ray.init(num_cpus=1, START)

        @ray.remote
        def sleep():
            time.sleep(60)

        threading.Timer(0.5, os.kill, (os.getpid(), signal.SIGTERM)).start()
        try:
            ray.get(sleep.remote())
        except SystemExit:
            print("interrupted")
            raise
        """)
    assert done.stdout.split() == ["interrupted"]
    assert done.returncode > 0
