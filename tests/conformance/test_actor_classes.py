"""Attributes of actor classes, handles and methods, and rejected uses."""

from __future__ import annotations

import copy
from typing import Any

import pytest
import ray

pytestmark = pytest.mark.usefixtures("cluster")

METHODS = ["act", "act_async", "_hidden", "of_base", "of_class", "of_nothing", "values"]


class Base:
    LIMIT = 3
    TABLE = {"a": 1}  # noqa: RUF012
    name = "a name of the class's own"

    def of_base(self) -> str:
        return "base"

    @classmethod
    def of_class(cls) -> int:
        return cls.LIMIT

    @staticmethod
    def of_nothing(value: int) -> int:
        return value + 1


class Actor(Base):
    """An actor with a bit of everything."""

    OWN = "own"

    def __init__(self) -> None:
        self.done = False

    def act(self, value: Any = None) -> Any:
        return value

    async def act_async(self) -> str:
        return "async"

    def _hidden(self) -> str:
        return "hidden"

    def values(self, count: int) -> Any:
        for number in range(count):  # noqa: UP028 (Ray cannot send into an iterator of C)
            yield number

    @property
    def size(self) -> int:
        return 1


def made(**options: Any) -> Any:
    return ray.remote(**options)(Actor) if options else ray.remote(Actor)


@pytest.fixture(scope="module")
def kept() -> dict[str, Any]:
    return {}


@pytest.fixture
def handle(kept: dict[str, Any]) -> Any:
    if "handle" not in kept:
        kept["handle"] = made().options(num_cpus=0).remote()
    return kept["handle"]


@pytest.mark.parametrize(
    ("name", "value"), [("LIMIT", 3), ("TABLE", {"a": 1}), ("OWN", "own"), ("name", Base.name)]
)
def test_attribute_of_the_class_is_read_from_the_actor_class(name: str, value: Any) -> None:
    assert getattr(made(), name) == value


def test_static_and_class_methods_of_an_actor_class_can_be_called() -> None:
    assert made().of_nothing(1) == 2
    assert made().of_class() == 3


@pytest.mark.parametrize("name", ["nothing", "limit", "_none"])
def test_attribute_that_the_class_lacks_is_an_attribute_error(name: str) -> None:
    with pytest.raises(AttributeError):
        getattr(made(), name)


@pytest.mark.parametrize("name", [*METHODS, "LIMIT", "OWN", "remote", "options", "bind"])
def test_dir_of_an_actor_class_names(name: str) -> None:
    assert name in dir(made())


@pytest.mark.parametrize("name", METHODS)
def test_methods_of_an_actor_class_are_callable(name: str) -> None:
    assert callable(getattr(made(), name))


def test_original_class_can_be_had_back() -> None:
    assert made().__ray_actor_class__ is Actor


def test_metadata_of_an_actor_class() -> None:
    metadata = made().__ray_metadata__
    assert issubclass(metadata.modified_class, Actor)
    assert metadata.class_name.endswith("Actor")
    assert metadata.modified_class.LIMIT == 3


def test_actor_class_is_of_a_public_type() -> None:
    assert isinstance(made(), ray.actor.ActorClass)
    assert not isinstance(made(), type)


def test_actor_class_cannot_be_inherited_from() -> None:
    actor_class = made()
    with pytest.raises(ray.actor.ActorClassInheritanceException, match="[Ii]nherit"):

        class More(actor_class):
            pass


def test_inheritance_error_is_a_type_error() -> None:
    assert issubclass(ray.actor.ActorClassInheritanceException, TypeError)


def test_actor_class_of_a_derived_class_is_fine() -> None:
    @ray.remote(num_cpus=0)
    class Derived(Base):
        def own(self) -> str:
            return super().of_base() + " derived"

    actor = Derived.remote()
    assert ray.get([actor.of_base.remote(), actor.own.remote()]) == ["base", "base derived"]


@pytest.mark.parametrize("name", [*METHODS, "__ray_ready__", "__ray_call__", "__ray_terminate__"])
def test_dir_of_a_handle_names_its_methods(handle: Any, name: str) -> None:
    assert name in dir(handle)


@pytest.mark.parametrize("name", ["LIMIT", "OWN", "size", "done", "name", "public", "__init__x"])
def test_dir_of_a_handle_names_nothing_else(handle: Any, name: str) -> None:
    assert name not in dir(handle)


@pytest.mark.parametrize("name", ["LIMIT", "OWN", "size", "done", "name", "nothing", "public"])
def test_handle_has_methods_only(handle: Any, name: str) -> None:
    with pytest.raises(AttributeError):
        getattr(handle, name)


@pytest.mark.parametrize(
    ("name", "arguments", "value"),
    [
        ("act", [5], 5),
        ("act", [], None),
        ("act_async", [], "async"),
        ("_hidden", [], "hidden"),
        ("of_base", [], "base"),
        ("of_class", [], 3),
        ("of_nothing", [1], 2),
    ],
)
def test_methods_of_all_kinds_are_called(handle: Any, name: str, arguments: list[Any], value: Any) -> None:
    assert ray.get(getattr(handle, name).remote(*arguments)) == value


def test_generator_method_gives_a_generator(handle: Any) -> None:
    refs = handle.values.remote(3)
    assert isinstance(refs, ray.ObjectRefGenerator)
    assert [ray.get(ref) for ref in refs] == [0, 1, 2]


def test_id_of_a_handle_is_an_actor_id(handle: Any) -> None:
    identity = handle._actor_id
    assert isinstance(identity, ray.ActorID)
    assert identity.hex() == ray.get(
        handle.__ray_call__.remote(lambda self: ray.get_runtime_context().get_actor_id())
    )


def test_handles_are_equal_if_their_actors_are(handle: Any) -> None:
    other = made().options(num_cpus=0).remote()
    twin = ray.get(ray.put(handle))
    assert handle == twin and hash(handle) == hash(twin)
    assert handle != other and handle != 1
    assert len({handle, twin, other}) == 2


def test_copy_of_a_handle_is_of_the_same_actor(handle: Any) -> None:
    assert ray.get(copy.copy(handle).act.remote(1)) == 1


def test_repr_of_a_handle_names_class_and_id(handle: Any) -> None:
    assert repr(handle) == f"Actor(Actor, {handle._actor_id.hex()})"


def test_call_of_the_class_says_what_to_do() -> None:
    with pytest.raises(TypeError, match=r"cannot be instantiated directly.*Actor\.remote\(\)"):
        made()()


def test_call_of_a_method_says_what_to_do(handle: Any) -> None:
    with pytest.raises(TypeError, match=r"cannot be called directly.*\.act\.remote\(\)"):
        handle.act()


@pytest.mark.parametrize(
    ("arguments", "named"),
    [((1, 2), {}), ((), {"other": 1}), ((1,), {"value": 2})],
    ids=["many", "unknown", "twice"],
)
def test_wrong_arguments_of_a_method_are_refused_at_the_call(
    handle: Any, arguments: tuple[Any, ...], named: dict[str, Any]
) -> None:
    with pytest.raises(TypeError):
        handle.act.remote(*arguments, **named)


def test_wrong_arguments_of_a_constructor_are_refused_at_the_call() -> None:
    with pytest.raises(TypeError):
        made().remote(1)


@pytest.mark.parametrize("name", ["done", "public", "act", "remote", "options", "_handle"])
def test_method_is_called_though_the_instance_has_an_attribute_of_its_name(name: str) -> None:
    def __init__(self: Any) -> None:
        setattr(self, name, "attribute")

    def method(self: Any) -> list[str]:
        return ["method", getattr(self, name)]

    cls = type("Twofold", (), {"__init__": __init__, name: method})
    actor = ray.remote(cls).options(num_cpus=0).remote()
    assert ray.get(getattr(actor, name).remote()) == ["method", "attribute"]


BAD = [
    ({"num_cpus": -1}, ValueError),
    ({"num_cpus": "x"}, TypeError),
    ({"num_gpus": -1}, ValueError),
    ({"max_concurrency": "2"}, TypeError),
    ({"max_pending_calls": "x"}, TypeError),
    ({"max_restarts": -2}, ValueError),
    ({"max_restarts": "x"}, TypeError),
    ({"max_task_retries": -2}, ValueError),
    ({"max_task_retries": "x"}, TypeError),
    ({"lifetime": "x"}, ValueError),
    ({"lifetime": 5}, TypeError),
    ({"name": 5}, TypeError),
    ({"namespace": 5}, TypeError),
    ({"get_if_exists": "yes"}, TypeError),
    ({"memory": -1}, ValueError),
    ({"resources": {"CPU": 1}}, ValueError),
    ({"resources": {"GPU": 1}}, ValueError),
    ({"resources": []}, TypeError),
    ({"resources": {"x": -1}}, ValueError),
    ({"accelerator_type": 5}, TypeError),
    ({"scheduling_strategy": 5}, TypeError),
    ({"runtime_env": 5}, TypeError),
    ({"enable_task_events": "x"}, TypeError),
    ({"label_selector": 5}, TypeError),
    ({"num_returns": 2}, ValueError),
    ({"max_retries": 1}, ValueError),
    ({"max_calls": 1}, ValueError),
    ({"retry_exceptions": True}, ValueError),
    ({"frobnicate": 1}, ValueError),
]


@pytest.mark.parametrize("where", ["decorator", "options"])
@pytest.mark.parametrize(
    ("given", "error"), BAD, ids=lambda value: str(value) if isinstance(value, dict) else ""
)
def test_bad_option_of_an_actor_is_refused(given: dict[str, Any], error: type[Exception], where: str) -> None:
    with pytest.raises(error):
        if where == "decorator":
            ray.remote(**given)(Actor)
        else:
            made().options(**given)


@pytest.mark.parametrize(
    "given",
    [
        {"num_cpus": 0},
        {"num_cpus": 0.5},
        {"num_cpus": None},
        {"num_gpus": None},
        {"memory": 1 << 20},
        {"resources": {"x": 1.5}},
        {"resources": None},
        {"max_restarts": -1},
        {"max_task_retries": -1},
        {"max_concurrency": 5},
        {"max_pending_calls": -1},
        {"lifetime": None},
        {"lifetime": "non_detached"},
        {"name": None},
        {"namespace": None},
        {"get_if_exists": False},
        {"enable_task_events": False},
        {"runtime_env": {}},
        {"runtime_env": None},
        {"scheduling_strategy": "SPREAD"},
        {"scheduling_strategy": "DEFAULT"},
        {"scheduling_strategy": None},
        {"label_selector": {}},
        {"allow_out_of_order_execution": None},
    ],
    ids=str,
)
def test_option_of_an_actor_is_taken(given: dict[str, Any]) -> None:
    assert hasattr(ray.remote(**given)(Actor), "remote")
    assert hasattr(made().options(**given), "remote")


class Plain:
    def act(self) -> int:
        return 1


@pytest.mark.parametrize("kind", ["async", "threaded", "async_by_options"])
def test_order_cannot_be_asked_of_actors_that_run_calls_side_by_side(kind: str) -> None:
    with pytest.raises(
        ValueError, match="Ray can't execute actor tasks in order.*allow_out_of_order_execution=True"
    ):
        if kind == "async":
            made(allow_out_of_order_execution=False).remote()
        elif kind == "threaded":
            ray.remote(Plain).options(max_concurrency=2, allow_out_of_order_execution=False).remote()
        else:
            made().options(allow_out_of_order_execution=False).remote()


def test_order_can_be_asked_of_a_plain_actor() -> None:
    actor = ray.remote(Plain).options(allow_out_of_order_execution=False, num_cpus=0).remote()
    assert ray.get(actor.act.remote()) == 1


@pytest.mark.parametrize("where", ["decorator", "options"])
@pytest.mark.parametrize(
    ("given", "error"),
    [
        ({"frobnicate": 1}, (ValueError, TypeError, AssertionError)),
        ({"num_cpus": 1}, (ValueError, TypeError, AssertionError)),
        ({"max_retries": 1}, (ValueError, TypeError, AssertionError)),
    ],
    ids=["unknown", "of_actors", "of_tasks"],
)
def test_bad_option_of_a_method_is_refused(
    handle: Any, given: dict[str, Any], error: Any, where: str
) -> None:
    with pytest.raises(error):
        if where == "decorator":
            ray.method(**given)
        else:
            handle.act.options(**given).remote()


def test_method_decorator_may_stand_bare() -> None:
    @ray.remote(num_cpus=0)
    class Bare:
        @ray.method
        def one(self) -> int:
            return 1

        @ray.method()
        def two(self) -> int:
            return 2

    actor = Bare.remote()
    assert ray.get([actor.one.remote(), actor.two.remote()]) == [1, 2]


def test_method_decorator_wants_a_function() -> None:
    with pytest.raises(AssertionError, match="@ray.method"):
        ray.method(1)
