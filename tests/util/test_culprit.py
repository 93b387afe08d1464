"""Why a value cannot be serialized: the path to the culprit."""

from __future__ import annotations

import collections
import copyreg
import functools
import io
import socket
import threading
from collections.abc import Iterator
from typing import Any

import pytest

from skate.util import inspect_serializability
from skate.wire.culprit import Culprit, explain, find_culprits

LOCK = threading.Lock()


class Holder:
    def __init__(self, **held: Any) -> None:
        vars(self).update(held)


class Slotted:
    __slots__ = ("fine", "lock")

    def __init__(self) -> None:
        self.fine, self.lock = 1, LOCK


class Refusing:
    def __reduce__(self) -> Any:
        raise RuntimeError("never serialize me")


class Stateful:
    def __init__(self) -> None:
        self.lock = LOCK

    def __getstate__(self) -> Any:
        return ["a list", self.lock]

    def __setstate__(self, state: Any) -> None:
        pass


Point = collections.namedtuple("Point", ["x", "y"])


def found(obj: Any, name: str | None = None, **options: Any) -> list[str]:
    return [str(culprit) for culprit in find_culprits(obj, name, **options)]


@pytest.fixture
def sock() -> Iterator[socket.socket]:
    with socket.socket() as made:
        yield made


def test_what_can_be_serialized_has_no_culprits() -> None:
    assert find_culprits([1, {"a": (2, 3)}, Holder(x=1), found]) == []
    assert explain(5, "five") == "five can be serialized"


def test_the_path_leads_through_closures_and_attributes(sock: socket.socket) -> None:
    cfg = Holder(sock=sock, url="http://")

    def f() -> Any:
        def inner() -> Any:
            return cfg

        return inner

    assert found(f) == ["closure of f -> variable cfg -> .sock: socket"]
    (culprit,) = find_culprits(f)
    assert culprit.obj is sock
    assert culprit.parent is cfg
    assert culprit.names == ("f", "cfg", "sock")
    assert culprit.reason == "cannot pickle 'socket' object"


def test_globals_of_nested_functions_count_and_attribute_names_do_not() -> None:
    names: dict[str, Any] = {"cfg": Holder(lock=LOCK), "unused": threading.Lock(), "__name__": "nowhere"}
    exec("def f(x):\n    def g():\n        return cfg, x.unused\n    return g", names)
    assert found(names["f"]) == ["closure of f -> global cfg -> .lock: lock"]


def test_defaults() -> None:
    def f(fine: int = 1, lock: Any = LOCK, *, other: Any = None) -> None: ...

    def g(*, lock: Any = LOCK) -> None: ...

    assert found(f) == ["closure of f -> default of lock: lock"]
    assert found(g) == ["closure of g -> default of lock: lock"]


@pytest.mark.parametrize(
    ("value", "path"),
    [
        ([1, LOCK], "v -> [1]: lock"),
        ((0, [LOCK]), "v -> [0] -> [0]: lock"),
        ({"a": 1, "b": LOCK}, "v -> ['b']: lock"),
        (collections.OrderedDict(b=LOCK), "v -> ['b']: lock"),
        (collections.deque([1, LOCK]), "v -> [1]: lock"),
        (collections.defaultdict(list, k=[LOCK]), "v -> ['k'] -> [0]: lock"),
        (Point(1, LOCK), "v -> .y: lock"),
        (Holder(a=Holder(b=LOCK)), "v -> .a -> .b: lock"),
        (Slotted(), "v -> .lock: lock"),
        (Stateful(), "v -> state -> [1]: lock"),
        (functools.partial(max, 1, key=LOCK), "v -> argument key: lock"),
        (functools.partial(max, LOCK), "v -> argument 0: lock"),
        (Holder(lock=LOCK).__init__, "v -> .__self__ -> .lock: lock"),  # type: ignore[misc]
        (ValueError("why", LOCK), "v -> constructor argument 1: lock"),
        (LOCK, "v: lock"),
        ((item for item in [1]), "v: generator"),
        (Refusing(), "v: Refusing"),
    ],
)
def test_paths(value: Any, path: str, monkeypatch: pytest.MonkeyPatch) -> None:
    # Dask registers a reducer for exceptions.
    monkeypatch.delitem(copyreg.dispatch_table, type(value), raising=False)
    if path == "v -> [0] -> [0]: lock":
        value = ([LOCK],)
    assert found(value, "v") == [path]


def test_sets() -> None:
    (path,) = found({LOCK}, "v")
    assert path.startswith("v -> element <unlocked _thread.lock object") and path.endswith(": lock")


def test_attributes_of_classes_that_are_sent_by_value() -> None:
    class Local:
        table = {"a": [LOCK]}

        @property
        def prop(self) -> Any:
            return LOCK

    assert found(Local) == ["Local -> .table -> ['a'] -> [0]: lock"]
    assert found(Local(), "v") == ["v -> class Local -> .table -> ['a'] -> [0]: lock"]


def test_arrays_and_frames() -> None:
    numpy = pytest.importorskip("numpy")
    pandas = pytest.importorskip("pandas")
    assert found(numpy.array([1, LOCK], dtype=object), "v") == ["v -> [1]: lock"]
    assert found(pandas.DataFrame({"a": [1, 2], "b": [3, LOCK]}), "v") == ["v -> ['b'] -> [1]: lock"]


def test_several_culprits_and_the_limit() -> None:
    value = {name: threading.Lock() for name in "abc"}
    assert found(value, "v") == ["v -> ['a']: lock", "v -> ['b']: lock", "v -> ['c']: lock"]
    assert len(found(value, "v", limit=2)) == 2


def test_one_object_is_reported_once() -> None:
    assert found({"a": LOCK, "b": [LOCK]}, "v") == ["v -> ['a']: lock"]


def test_cycles_end() -> None:
    value: dict[str, Any] = {}
    value["self"] = value
    value["lock"] = LOCK
    assert found(value, "v") == ["v -> ['lock']: lock"]

    class Loop:
        def __reduce__(self) -> Any:
            return list, ((self, LOCK),)

    assert found(Loop(), "v") != []


def test_a_long_list_takes_few_tries() -> None:
    values: list[Any] = list(range(100_000))
    values[77_777] = LOCK
    tries = 0

    def probe(obj: Any) -> None:
        nonlocal tries
        tries += 1
        if obj is LOCK or (isinstance(obj, list) and any(each is LOCK for each in obj)):
            raise TypeError("a lock")

    assert found(values, "v", probe=probe) == ["v -> [77777]: lock"]
    assert tries < 60


def test_depth_is_bounded() -> None:
    nested: Any = LOCK
    for _ in range(6):
        nested = [nested, 0]
    assert found(nested, "v", depth=2) == ["v -> [0] -> [0]: list"]
    deep: Any = []
    for _ in range(100_000):
        deep = [deep]
    (culprit,) = find_culprits(deep, "v")
    assert culprit.path == ("v",)
    assert culprit.reason == "it is nested too deeply"


def test_a_part_that_fails_only_in_company_is_reported_as_a_whole() -> None:
    def probe(obj: Any) -> None:
        if isinstance(obj, list) and len(obj) == 2:
            raise TypeError("two is too many")

    assert find_culprits([1, 2], "v", probe=probe) == [
        Culprit(("v",), [1, 2], "two is too many", ("v",), None)
    ]


def test_explain_names_what_where_and_what_to_do() -> None:
    def f() -> Any:
        return LOCK

    held = Holder(lock=LOCK)

    def g() -> Any:
        return held

    text = explain(g)
    assert "g cannot be serialized" in text
    assert "closure of g -> variable held -> .lock: lock (cannot pickle '_thread.lock' object)" in text
    assert "__getstate__" in text


def test_inspect_serializability() -> None:
    held = Holder(lock=LOCK)

    def g() -> Any:
        return held

    output = io.StringIO()
    fine, failures = inspect_serializability(g, print_file=output)
    assert not fine
    (failure,) = failures
    assert (failure.obj, failure.path, failure.parent, failure.name) == (
        LOCK,
        ("g", "held", "lock"),
        held,
        "lock",
    )
    assert "FailTuple(lock [path=g -> held -> lock" in repr(failure)
    assert "closure of g -> variable held -> .lock" in output.getvalue()
    assert inspect_serializability(5, "five", print_file=output) == (True, set())
    (shallow,) = inspect_serializability(g, depth=1, print_file=output)[1]
    assert shallow.obj is held
    assert inspect_serializability(LOCK, name="my lock", print_file=output)[0] is False
