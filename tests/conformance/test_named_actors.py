"""Names, namespaces, get_if_exists and detached actors."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Any

import pytest
import ray
from ray.exceptions import ActorAlreadyExistsError, ActorDiedError, RayActorError
from ray.util import list_named_actors
from waiting import wait_for

pytestmark = pytest.mark.usefixtures("cluster")


def box_class() -> Any:
    @ray.remote
    class Box:
        def __init__(self, value: Any = None) -> None:
            self.value = value

        def get(self) -> Any:
            return self.value

        def pid(self) -> int:
            return os.getpid()

        def crash(self) -> None:
            os._exit(1)

    return Box


@pytest.fixture
def name(request: pytest.FixtureRequest) -> Iterator[str]:
    """A name of the test's own, free again after it."""
    mine = request.node.name.partition("[")[0] + str(abs(hash(request.node.name)))
    yield mine
    for namespace in {entry["namespace"] for entry in list_named_actors(all_namespaces=True)}:
        try:
            ray.kill(ray.get_actor(mine, namespace=namespace))
        except ValueError:
            continue


def named(name: str, namespace: str | None = None) -> bool:
    try:
        ray.get_actor(name, namespace=namespace)
    except ValueError:
        return False
    return True


def test_core_26_get_actor_finds_a_live_actor(name: str) -> None:
    box = box_class().options(name=name).remote(5)
    found = ray.get_actor(name)
    assert isinstance(found, ray.actor.ActorHandle)
    assert ray.get(found.get.remote()) == 5
    assert ray.get(found.pid.remote()) == ray.get(box.pid.remote())
    assert found == box


def test_core_26_name_in_the_decorator(name: str) -> None:
    @ray.remote(name=name)
    class Box:
        def get(self) -> int:
            return 1

    box = Box.remote()
    assert ray.get(ray.get_actor(name).get.remote()) == 1
    del box


def test_core_26_get_actor_inside_a_task(name: str) -> None:
    @ray.remote
    def read() -> Any:
        return ray.get(ray.get_actor(name).get.remote())

    box = box_class().options(name=name).remote(6)
    assert ray.get(read.remote()) == 6
    del box


def test_core_26_get_actor_inside_an_actor(name: str) -> None:
    @ray.remote
    class Reader:
        def read(self) -> Any:
            return ray.get(ray.get_actor(name).get.remote())

    box = box_class().options(name=name).remote(6)
    assert ray.get(Reader.remote().read.remote()) == 6
    del box


def test_core_26_actor_named_by_a_task_is_found_by_the_driver(name: str) -> None:
    box = box_class()

    @ray.remote
    def make() -> None:
        ray.get(box.options(name=name, lifetime="detached").remote(7).get.remote())

    ray.get(make.remote())
    assert ray.get(ray.get_actor(name).get.remote()) == 7


def test_core_26_duplicate_name_refused(name: str) -> None:
    box = box_class().options(name=name).remote(1)
    with pytest.raises(ValueError, match=name) as raised:
        box_class().options(name=name).remote(2)
    assert isinstance(raised.value, ActorAlreadyExistsError)
    assert ray.get(ray.get_actor(name).get.remote()) == 1
    del box


def test_core_26_get_actor_of_an_unknown_name() -> None:
    with pytest.raises(ValueError, match="nobody"):
        ray.get_actor("nobody")


@pytest.mark.parametrize("missing", ["", None], ids=["empty", "none"])
def test_core_26_get_actor_without_a_name(missing: Any) -> None:
    with pytest.raises(ValueError):
        ray.get_actor(missing)


def test_core_26_empty_name_is_refused() -> None:
    with pytest.raises(ValueError, match="name"):
        box_class().options(name="").remote()


@pytest.mark.parametrize("how", ["options", "get_actor"])
def test_core_26_empty_namespace_is_refused(how: str, name: str) -> None:
    with pytest.raises(ValueError, match="namespace"):
        if how == "options":
            box_class().options(name=name, namespace="").remote()
        else:
            ray.get_actor(name, namespace="")


def test_core_26_names_are_unique_per_namespace_only(name: str) -> None:
    here = box_class().options(name=name).remote("here")
    other = box_class().options(name=name, namespace="there").remote("there")
    assert ray.get(ray.get_actor(name).get.remote()) == "here"
    assert ray.get(ray.get_actor(name, namespace="there").get.remote()) == "there"
    del here, other


def test_core_26_actor_of_another_namespace_is_not_found_without_it(name: str) -> None:
    other = box_class().options(name=name, namespace="there").remote()
    with pytest.raises(ValueError):
        ray.get_actor(name)
    assert named(name, "there")
    del other


def test_core_26_duplicate_in_another_namespace_is_refused(name: str) -> None:
    other = box_class().options(name=name, namespace="there").remote()
    with pytest.raises(ActorAlreadyExistsError):
        box_class().options(name=name, namespace="there").remote()
    del other


def test_core_26_get_if_exists_returns_the_one_there_is(name: str) -> None:
    first = box_class().options(name=name, get_if_exists=True).remote(1)
    second = box_class().options(name=name, get_if_exists=True).remote(2)
    assert ray.get([first.get.remote(), second.get.remote()]) == [1, 1]
    assert first == second


def test_core_26_get_if_exists_from_many_tasks_makes_one(name: str) -> None:
    box = box_class()

    @ray.remote
    def ask() -> int:
        return ray.get(box.options(name=name, get_if_exists=True, lifetime="detached").remote().pid.remote())

    assert len(set(ray.get([ask.remote() for _ in range(4)]))) == 1


def test_core_26_get_if_exists_needs_a_name() -> None:
    with pytest.raises(ValueError, match="name"):
        box_class().options(get_if_exists=True).remote()


def test_core_26_get_if_exists_honours_the_namespace(name: str) -> None:
    here = box_class().options(name=name, get_if_exists=True).remote("here")
    other = box_class().options(name=name, namespace="there", get_if_exists=True).remote("there")
    assert ray.get([here.get.remote(), other.get.remote()]) == ["here", "there"]


def test_core_26_list_named_actors_of_this_namespace(name: str) -> None:
    here = box_class().options(name=name).remote()
    other = box_class().options(name=name + "b", namespace="there").remote()
    ray.get([here.get.remote(), other.get.remote()])
    assert name in list_named_actors()
    assert name + "b" not in list_named_actors()


def test_core_26_list_named_actors_of_all_namespaces(name: str) -> None:
    other = box_class().options(name=name, namespace="there").remote()
    ray.get(other.get.remote())
    assert {"name": name, "namespace": "there"} in list_named_actors(all_namespaces=True)


def test_core_26_unnamed_actors_are_not_listed() -> None:
    before = list_named_actors(all_namespaces=True)
    box = box_class().remote()
    ray.get(box.get.remote())
    assert list_named_actors(all_namespaces=True) == before


def test_core_26_kill_frees_the_name(name: str) -> None:
    ray.get(box_class().options(name=name, lifetime="detached").remote(1).get.remote())
    ray.kill(ray.get_actor(name))
    wait_for(lambda: not named(name), what="the name to be free")
    again = box_class().options(name=name).remote(2)
    assert ray.get(again.get.remote()) == 2
    assert name in list_named_actors()


def test_core_26_going_out_of_scope_frees_the_name(name: str) -> None:
    box = box_class().options(name=name).remote()
    ray.get(box.get.remote())
    del box
    wait_for(lambda: not named(name), what="the name to be free")


def test_core_26_crash_frees_the_name(name: str) -> None:
    box = box_class().options(name=name).remote()
    with pytest.raises(ActorDiedError):
        ray.get(box.crash.remote(), timeout=30)
    del box
    wait_for(lambda: not named(name), what="the name to be free")


@pytest.mark.chosen_difference(
    "a dead actor has no name; Ray keeps it taken while somebody holds a handle to the dead actor",
    id="D-dead-name",
)
def test_core_26_crash_frees_the_name_though_a_handle_is_held(name: str) -> None:
    box = box_class().options(name=name).remote(1)
    with pytest.raises(ActorDiedError):
        ray.get(box.crash.remote(), timeout=30)
    wait_for(lambda: not named(name), what="the name to be free")
    again = box_class().options(name=name).remote(2)
    assert ray.get(again.get.remote()) == 2


def test_core_26_dead_actors_are_not_listed(name: str) -> None:
    box = box_class().options(name=name).remote(1)
    with pytest.raises(ActorDiedError):
        ray.get(box.crash.remote(), timeout=30)
    wait_for(lambda: name not in list_named_actors(), what="the dead actor to leave the list")


def test_core_26_failing_constructor_frees_the_name(name: str) -> None:
    @ray.remote
    class Fails:
        def __init__(self) -> None:
            raise ValueError("not today")

        def hi(self) -> None: ...

    fails = Fails.options(name=name).remote()
    with pytest.raises(RayActorError):
        ray.get(fails.hi.remote(), timeout=30)
    del fails
    wait_for(lambda: not named(name), what="the name to be free")


def test_core_26_name_survives_a_restart(name: str) -> None:
    box = box_class().options(name=name, max_restarts=1, max_task_retries=-1).remote(3)
    before = ray.get(box.pid.remote())
    os.kill(before, 9)
    assert wait_for(lambda: ray.get(ray.get_actor(name).pid.remote(), timeout=30) != before, what="a restart")
    assert ray.get(ray.get_actor(name).get.remote()) == 3


def test_core_26_a_handle_from_get_actor_does_not_keep_the_actor(name: str) -> None:
    box = box_class().options(name=name).remote()
    found = ray.get_actor(name)
    ray.get(found.get.remote())
    del box
    wait_for(lambda: not named(name), what="the name to be free")
    with pytest.raises(ActorDiedError):
        ray.get(found.get.remote(), timeout=30)


def test_core_25_detached_actor_stays_without_handles(name: str) -> None:
    detached = box_class().options(name=name, lifetime="detached").remote(8)
    pid = ray.get(detached.pid.remote())
    witness = box_class().remote()
    ray.get(witness.get.remote())
    del detached, witness
    assert ray.get(ray.get_actor(name).pid.remote(), timeout=30) == pid


def test_core_25_detached_actor_without_a_name_is_allowed() -> None:
    box = box_class().options(lifetime="detached").remote(9)
    assert ray.get(box.get.remote()) == 9
    ray.kill(box)


def test_core_25_detached_actor_outlives_the_actor_that_made_it(name: str) -> None:
    box = box_class()

    @ray.remote
    class Parent:
        def make(self) -> int:
            return ray.get(box.options(name=name, lifetime="detached").remote().pid.remote())

        def pid(self) -> int:
            return os.getpid()

    parent = Parent.remote()
    pid = ray.get(parent.make.remote())
    parent_pid = ray.get(parent.pid.remote())
    os.kill(parent_pid, 9)
    with pytest.raises(ActorDiedError):
        ray.get(parent.pid.remote(), timeout=30)
    assert ray.get(ray.get_actor(name).pid.remote(), timeout=30) == pid


def test_core_25_non_detached_lifetime_is_the_default(name: str) -> None:
    box = box_class().options(name=name, lifetime="non_detached").remote()
    ray.get(box.get.remote())
    del box
    wait_for(lambda: not named(name), what="the name to be free")


def test_core_26_actor_knows_its_name(name: str) -> None:
    @ray.remote
    class Knows:
        def name(self) -> str | None:
            return ray.get_runtime_context().get_actor_name()

    actor = Knows.options(name=name).remote()
    assert ray.get(actor.name.remote()) == name
    assert not ray.get(Knows.remote().name.remote())


def test_core_26_namespace_is_random_per_job_by_default(fresh: Any) -> None:
    fresh(num_cpus=1)
    first = ray.get_runtime_context().namespace
    ray.shutdown()
    fresh(num_cpus=1)
    second = ray.get_runtime_context().namespace
    assert first
    assert second
    assert first != second


def test_core_26_namespace_given_to_init(fresh: Any) -> None:
    fresh(num_cpus=1, namespace="ours")

    @ray.remote
    def where() -> str:
        return ray.get_runtime_context().namespace

    assert ray.get_runtime_context().namespace == "ours"
    assert ray.get(where.remote()) == "ours"
    box = box_class().options(name="it").remote(4)
    assert ray.get(ray.get_actor("it", namespace="ours").get.remote()) == 4
    assert list_named_actors(all_namespaces=True) == [{"name": "it", "namespace": "ours"}]
    del box
