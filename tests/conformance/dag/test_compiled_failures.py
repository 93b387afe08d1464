"""Compiled graphs when something goes wrong: in a method, in an actor, in the calling program."""

from __future__ import annotations

import copy
import os
import pickle
import signal
import time
from typing import Any

import pytest
import ray
from dag.stages import Stage
from ray.dag import DAGContext, InputNode, MultiOutputNode
from ray.exceptions import (
    ActorDiedError,
    RayActorError,
    RayCgraphCapacityExceeded,
    RayChannelError,
    RayChannelTimeoutError,
    RayTaskError,
)
from waiting import wait_for


@pytest.fixture(scope="module")
def one() -> Any:
    actor = Stage.remote()
    ray.get(actor.pid.remote())
    return actor


def plain(actor: Any, method: str = "echo") -> Any:
    with InputNode() as given:
        return getattr(actor, method).bind(given)


# -- methods that fail


def test_an_exception_travels_to_the_get_of_its_execution_only(compile_: Any, one: Any) -> None:
    graph = compile_(plain(one, "fail_if_even"))
    for _ in range(2):
        assert ray.get(graph.execute(1)) == 1
        with pytest.raises(ValueError, match="2 is even") as caught:
            ray.get(graph.execute(2))
        assert isinstance(caught.value, RayTaskError)
        assert "fail_if_even" in str(caught.value)


def test_an_exception_passes_through_the_stages_behind(compile_: Any, one: Any) -> None:
    second = Stage.remote()
    with InputNode() as given:
        graph = compile_(second.keep.bind(one.fail_if_even.bind(given)))
    with pytest.raises(ValueError, match="4 is even"):
        ray.get(graph.execute(4))
    assert ray.get(graph.execute(5)) == [5]


def test_an_exception_passes_inside_an_actor(compile_: Any) -> None:
    stage = Stage.remote()
    with InputNode() as given:
        graph = compile_(stage.keep.bind(stage.fail_if_even.bind(given)))
    with pytest.raises(ValueError, match="4 is even"):
        ray.get(graph.execute(4))
    assert ray.get(graph.execute(5)) == [5]


@pytest.mark.parametrize("single", [True, False])
def test_an_exception_in_each_output(compile_: Any, one: Any, single: bool) -> None:
    other = Stage.remote()
    with InputNode() as given:
        graph = compile_(MultiOutputNode([one.fail_if_even.bind(given), other.fail_if_even.bind(given)]))
    for _ in range(2):
        refs = graph.execute(2)
        for requested in refs if single else [refs]:
            with pytest.raises(ValueError, match="2 is even"):
                ray.get(requested)
        assert ray.get(graph.execute(3)) == [3, 3]


@pytest.mark.parametrize("failing", [0, 1, 2])
@pytest.mark.parametrize("which", ["all", "another"])
def test_a_get_raises_as_soon_as_one_output_has_failed(
    compile_: Any, gate: Any, failing: int, which: str
) -> None:
    stages = [Stage.remote() for _ in range(3)]
    hold = gate("hold")
    with InputNode() as given:
        graph = compile_(
            MultiOutputNode(
                [
                    stage.fail.bind(given) if number == failing else stage.wait_for_file.bind(given)
                    for number, stage in enumerate(stages)
                ]
            )
        )
    refs = graph.execute(str(hold.path))
    with pytest.raises(ValueError, match="cannot take"):
        ray.get(refs if which == "all" else refs[(failing + 1) % 3])
    hold.open()


def test_after_a_failure_the_other_outputs_belong_to_the_next_execution(compile_: Any) -> None:
    first, second = Stage.remote(), Stage.remote()
    with InputNode() as given:
        graph = compile_(MultiOutputNode([first.fail_if_even.bind(given), second.add.bind(given)]))
    for _ in range(3):
        with pytest.raises(ValueError, match="even"):
            ray.get(graph.execute(2))
    assert ray.get(graph.execute(1)) == [1, 7]


def test_a_method_with_two_results_that_fails(compile_: Any, one: Any) -> None:
    with InputNode() as given:
        graph = compile_(MultiOutputNode(list(one.two_or_fail.bind(given))))
    for _ in range(3):
        for ref in graph.execute(1):
            with pytest.raises(RuntimeError, match="no two of 1"):
                ray.get(ref)


def test_another_number_of_results_than_said(compile_: Any) -> None:
    stage = Stage.remote()
    with InputNode() as given:
        graph = compile_(MultiOutputNode(list(stage.too_many.bind(given))))
    with pytest.raises(ValueError, match="Expected 2 outputs, but got 3 outputs"):
        ray.get(graph.execute(1))


def test_an_argument_that_cannot_be_pickled(compile_: Any, one: Any) -> None:
    graph = compile_(plain(one))
    with pytest.raises(TypeError):
        graph.execute(x for x in ())
    assert ray.get(graph.execute(1)) == 1


# -- refs


@pytest.mark.parametrize("way", ["get", "list", "method"])
def test_a_result_is_fetched_once(compile_: Any, one: Any, way: str) -> None:
    ref = compile_(plain(one)).execute(1)
    assert ray.get(ref) == 1
    with pytest.raises(
        ValueError,
        match=r"ray.get\(\) can only be called once on a CompiledDAGRef, and it was already called.",
    ):
        {"get": ray.get, "list": lambda r: ray.get([r]), "method": lambda r: r.get()}[way](ref)


@pytest.mark.parametrize(
    ("act", "phrase"),
    [
        (copy.copy, "CompiledDAGRef cannot be copied."),
        (copy.deepcopy, "CompiledDAGRef cannot be deep copied."),
        (pickle.dumps, "CompiledDAGRef cannot be pickled."),
    ],
)
def test_a_ref_stays_one_and_stays_here(compile_: Any, one: Any, act: Any, phrase: str) -> None:
    ref = compile_(plain(one)).execute(1)
    with pytest.raises(ValueError, match=phrase):
        act(ref)
    assert ray.get(ref) == 1


def test_a_ref_is_no_argument(compile_: Any, one: Any) -> None:
    ref = compile_(plain(one)).execute(1)
    function = ray.remote(lambda value: value)
    for call in (function.remote, one.echo.remote):
        with pytest.raises(TypeError, match="CompiledDAGRef cannot be used as Ray task/actor argument."):
            call(ref)
    with pytest.raises(TypeError):
        ray.put([ref])
    with pytest.raises(TypeError):
        ray.wait([ref])
    with pytest.raises(TypeError):
        ray.wait(ref)
    assert ray.get(ref) == 1


@pytest.mark.parametrize("other", [None, 1, "ref"])
def test_a_list_of_refs_holds_nothing_else(compile_: Any, one: Any, other: Any) -> None:
    ref = compile_(plain(one)).execute(1)
    with pytest.raises(
        ValueError,
        match="Invalid type of object refs. 'object_refs' must be a list of CompiledDAGRefs if there is any "
        "CompiledDAGRef within it.",
    ):
        ray.get([ref, ray.put(1) if other == "ref" else other])
    assert ray.get(ref) == 1


def test_refs_in_another_order(compile_: Any) -> None:
    graph = compile_(plain(Stage.remote(), "keep"))
    first, second = graph.execute("a"), graph.execute("b")
    assert ray.get(second) == ["a", "b"]
    assert ray.get(first) == ["a"]


def test_a_list_of_refs_of_several_executions(compile_: Any, one: Any) -> None:
    graph = compile_(plain(one))
    assert ray.get([graph.execute(number) for number in range(5)]) == [0, 1, 2, 3, 4]


@pytest.mark.parametrize("count", [10, 25])
def test_refs_that_are_let_go_of_make_room(compile_: Any, count: int) -> None:
    graph = compile_(plain(Stage.remote(), "add"))
    for _ in range(count):
        ref = graph.execute(1)
        del ref
    assert ray.get(graph.execute(1)) == count + 1


def test_a_ref_let_go_of_before_and_after_another(compile_: Any) -> None:
    graph = compile_(plain(Stage.remote(), "add"))
    first, second, third = (graph.execute(1) for _ in range(3))
    del second
    assert ray.get(first) == 1
    assert ray.get(third) == 3


def test_one_of_two_outputs_let_go_of(compile_: Any) -> None:
    stage = Stage.remote()
    with InputNode() as given:
        graph = compile_(MultiOutputNode([stage.add.bind(given), stage.add.bind(given)]))
    left, right = graph.execute(1)
    del right
    assert ray.get(left) == 1
    left, right = graph.execute(1)
    del left
    assert ray.get(right) == 4


# -- limits


@pytest.mark.parametrize("limit", [1, 2, 5])
def test_as_many_executions_as_may_be_under_way(compile_: Any, one: Any, limit: int) -> None:
    graph = compile_(plain(one), _max_inflight_executions=limit)
    refs = [graph.execute(number) for number in range(limit)]
    with pytest.raises(
        RayCgraphCapacityExceeded,
        match=f"The compiled graph can't have more than {limit} in-flight executions, and you currently have {limit} "
        "in-flight executions. Retrieve an output using ray.get before submitting more requests or increase "
        "`_max_inflight_executions`. ",
    ):
        graph.execute(0)
    assert ray.get(refs) == list(range(limit))
    assert ray.get(graph.execute(9)) == 9


@pytest.mark.parametrize("multi", [False, True])
def test_as_many_results_as_may_be_kept(compile_: Any, one: Any, multi: bool) -> None:
    with InputNode() as given:
        node = one.echo.bind(given)
        graph = compile_(
            MultiOutputNode([node, one.echo.bind(given)]) if multi else node, _max_buffered_results=1
        )
    first, second = graph.execute(1), graph.execute(2)
    with pytest.raises(
        RayCgraphCapacityExceeded,
        match=r"The compiled graph can't have more than 1 buffered results, and you currently have 1 buffered results. "
        r"Call `ray.get\(\)` on CompiledDAGRef's \(or await on CompiledDAGFuture's\) to retrieve results, or increase "
        "`_max_buffered_results` if buffering is desired, note that this will increase driver memory usage.",
    ):
        ray.get(second)
    assert ray.get(first) == ([1, 1] if multi else 1)


def test_a_get_that_takes_too_long(compile_: Any, gate: Any) -> None:
    hold = gate("hold")
    graph = compile_(plain(Stage.remote(), "wait_for_file"))
    ref = graph.execute(str(hold.path))
    with pytest.raises(
        RayChannelTimeoutError, match="If the execution is expected to take a long time, increase"
    ):
        ray.get(ref, timeout=0.05)
    hold.open()


def test_a_timeout_is_a_timeout_error_and_a_channel_error() -> None:
    assert issubclass(RayChannelTimeoutError, (TimeoutError, RayChannelError))
    assert issubclass(RayChannelTimeoutError, TimeoutError)


def test_the_settings_of_the_process() -> None:
    context = DAGContext.get_current()
    assert context is DAGContext.get_current()
    assert (context.submit_timeout, context.get_timeout, context.teardown_timeout) == (10, 10, 30)
    assert (context.buffer_size_bytes, context.max_inflight_executions) == (1_000_000, 10)
    assert (context.max_buffered_results, context.overlap_gpu_communication) == (1000, False)
    assert context.read_iteration_timeout == 0.1


# -- the end


def test_nothing_goes_after_a_teardown(one: Any) -> None:
    graph = plain(one).experimental_compile()
    ref = graph.execute(1)
    assert graph.is_teardown is False
    graph.teardown()
    assert graph.is_teardown is True
    with pytest.raises(RayChannelError, match="Channel closed."):
        ray.get(ref)
    with pytest.raises(RayChannelError, match="Channel closed."):
        graph.execute(1)
    graph.teardown()
    assert ray.get(one.echo.remote(1)) == 1


def test_an_actor_goes_from_graph_to_graph(one: Any) -> None:
    for number in range(3):
        graph = plain(one).experimental_compile()
        assert ray.get(graph.execute(number)) == number
        graph.teardown()


def test_a_teardown_can_take_the_actors_with_it() -> None:
    actor = Stage.remote()
    graph = plain(actor).experimental_compile()
    assert ray.get(graph.execute(1)) == 1
    graph.teardown(kill_actors=True)
    with pytest.raises(RayActorError):
        ray.get(actor.echo.remote(1))


def test_an_actor_takes_other_calls_beside_a_graph(compile_: Any) -> None:
    actor = Stage.remote()
    graph = compile_(plain(actor, "add"))
    assert ray.get(graph.execute(1)) == 1
    assert ray.get(actor.add.remote(1)) == 2
    assert ray.get(graph.execute(1)) == 3
    assert ray.get(actor.pid.remote()) != os.getpid()


def test_an_actor_that_dies_in_a_method() -> None:
    actor, other = Stage.remote(), Stage.remote()
    ray.get([actor.pid.remote(), other.pid.remote()])
    with InputNode() as given:
        graph = other.echo.bind(actor.die.bind(given)).experimental_compile()
    with pytest.raises(ActorDiedError, match="The actor died unexpectedly before finishing this task."):
        ray.get(graph.execute(1))
    assert ray.get(other.echo.remote(2)) == 2


@pytest.mark.parametrize("way", ["kill", "signal"])
@pytest.mark.parametrize("place", [0, 1, 2])
def test_an_actor_that_is_killed(way: str, place: int) -> None:
    actors = [Stage.remote() for _ in range(3)]
    pid = ray.get([actor.pid.remote() for actor in actors])[place]
    with InputNode() as given:
        node: Any = given
        for actor in actors:
            node = actor.echo.bind(node)
    graph = node.experimental_compile()
    assert ray.get(graph.execute(1)) == 1
    if way == "kill":
        ray.kill(actors[place])
    else:
        os.kill(pid, signal.SIGKILL)
    with pytest.raises((ActorDiedError, RayChannelError)):
        until = time.monotonic() + 20
        while time.monotonic() < until:
            ray.get(graph.execute(1))
    rest = [actor for number, actor in enumerate(actors) if number != place]
    assert ray.get([actor.echo.remote(1) for actor in rest]) == [1, 1]


def test_ctrl_c_ends_a_program_that_waits_for_a_graph(script: Any) -> None:
    done = script(
        """
        import os, signal, threading, time
        import ray
        from ray.dag import InputNode

        ray.init(START)

        @ray.remote(num_cpus=0)
        class Actor:
            def sleep(self, seconds):
                os.kill(parent, signal.SIGINT)
                time.sleep(seconds)

            def know(self, pid):
                global parent
                parent = pid

        actor = Actor.remote()
        ray.get(actor.know.remote(os.getpid()))
        with InputNode() as given:
            graph = actor.sleep.bind(given).experimental_compile()
        try:
            ray.get(graph.execute(100), timeout=-1)
        except KeyboardInterrupt:
            print("interrupted", flush=True)
            os._exit(0)
        """,
        RAY_CGRAPH_teardown_timeout="0",
    )
    assert "interrupted" in done.stdout, done.stderr


def test_a_program_that_ends_with_a_graph_leaves_nothing_running(script: Any, tmp_path: Any) -> None:
    done = script(
        """
        import os
        import ray
        from ray.dag import InputNode

        ray.init(START)

        @ray.remote(num_cpus=0)
        class Actor:
            def pid(self, value):
                return os.getpid()

        actor = Actor.remote()
        with InputNode() as given:
            graph = actor.pid.bind(given).experimental_compile()
        print("pid", ray.get(graph.execute(1)))
        """
    )
    pid = int(done.stdout.split("pid ")[1].split()[0])
    wait_for(lambda: not os.path.exists(f"/proc/{pid}/cwd"), what="the actor to end")


# -- what works here and not in Ray


@pytest.mark.chosen_difference("an actor of Ray answers one graph at a time", id="D-graphs")
def test_an_actor_in_two_graphs(compile_: Any) -> None:
    actor = Stage.remote()
    left, right = compile_(plain(actor, "add")), compile_(plain(actor, "add"))
    assert [ray.get(left.execute(1)), ray.get(right.execute(1)), ray.get(left.execute(1))] == [1, 2, 3]


@pytest.mark.chosen_difference("a graph of Ray ends when a result cannot be sent", id="D-graphs")
def test_a_result_that_cannot_be_pickled(compile_: Any) -> None:
    actor = Stage.remote()
    graph = compile_(plain(actor, "lock_if_even"))
    with pytest.raises(TypeError, match="cannot be sent"):
        ray.get(graph.execute(2))
    assert ray.get(graph.execute(1)) == 1


@pytest.mark.chosen_difference("a ref of Ray is spent by a get that timed out", id="D-graphs")
def test_a_get_after_one_that_timed_out(compile_: Any, gate: Any) -> None:
    hold = gate("hold")
    ref = compile_(plain(Stage.remote(), "wait_for_file")).execute(str(hold.path))
    with pytest.raises(RayChannelTimeoutError):
        ray.get(ref, timeout=0.01)
    hold.open()
    assert ray.get(ref) == str(hold.path)
