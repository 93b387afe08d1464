"""Values that travel unchanged: to the store and back, into a task, and out of a task."""

from __future__ import annotations

import collections
import dataclasses
import datetime
import decimal
import enum
import fractions
import functools
import pathlib
import re
import uuid

import pytest
import ray

pytestmark = pytest.mark.usefixtures("cluster")


@ray.remote
def echo(value):
    return value


class Colour(enum.Enum):
    RED = 1
    BLUE = "b"


class Level(enum.IntEnum):
    LOW = 1
    HIGH = 2


@dataclasses.dataclass
class Order:
    name: str
    items: list[int] = dataclasses.field(default_factory=list)


@dataclasses.dataclass(frozen=True, slots=True)
class Frozen:
    x: int
    y: int


Pair = collections.namedtuple("Pair", ["left", "right"])


class Plain:
    def __init__(self, x):
        self.x = x

    def __eq__(self, other):
        return type(other) is type(self) and other.x == self.x

    def __hash__(self):
        return hash(self.x)


class Slotted:
    __slots__ = ("a",)

    def __init__(self, a):
        self.a = a

    def __eq__(self, other):
        return type(other) is type(self) and other.a == self.a

    __hash__ = None


class Reduced:
    """Pickles itself through __reduce__."""

    def __init__(self, x):
        self.x = x
        self.rebuilt = False

    def __reduce__(self):
        return rebuild, (self.x,)


def rebuild(x):
    value = Reduced(x)
    value.rebuilt = True
    return value


class Stateful:
    """Drops what cannot travel in __getstate__ and makes it anew in __setstate__."""

    def __init__(self, x):
        self.x = x
        self.stream = (i for i in range(3))

    def __getstate__(self):
        return {"x": self.x}

    def __setstate__(self, state):
        self.x = state["x"]
        self.stream = (i for i in range(3))


class Words(list):
    """A subclass of a builtin with an attribute."""


VALUES = {
    "none": None,
    "true": True,
    "zero": 0,
    "negative": -17,
    "beyond-64-bit": 2**100,
    "float": 0.1,
    "infinity": float("inf"),
    "complex": 1 + 2j,
    "text": "plain",
    "empty-text": "",
    "text-beyond-the-bmp": "zażółć \U0001f680",
    "lone-surrogate": "\ud800",
    "nul-character": "a\0b",
    "bytes": b"\x00\xff",
    "bytearray-in-a-list": [bytearray(b"abc")],
    "list": [1, [2, [3]]],
    "empty-list": [],
    "tuple": (1, (2,)),
    "empty-tuple": (),
    "set": {1, 2},
    "frozenset": frozenset({1}),
    "dict": {"a": {"b": 1}},
    "dict-with-int-keys": {1: "a", 2: "b"},
    "dict-with-tuple-keys": {(1, 2): 3},
    "dict-with-none-key": {None: 0},
    "ordered-dict": collections.OrderedDict([("z", 1), ("a", 2)]),
    "defaultdict": collections.defaultdict(list, {"a": [1]}),
    "counter": collections.Counter("hello"),
    "deque": collections.deque([1, 2], maxlen=5),
    "range": range(2, 20, 3),
    "slice": slice(1, 2, 3),
    "ellipsis": ...,
    "not-implemented": NotImplemented,
    "datetime": datetime.datetime(2024, 2, 29, 12, tzinfo=datetime.timezone.utc),
    "date": datetime.date(2024, 2, 29),
    "timedelta": datetime.timedelta(days=1, microseconds=1),
    "decimal": decimal.Decimal("1.10"),
    "fraction": fractions.Fraction(1, 3),
    "uuid": uuid.UUID(int=7),
    "path": pathlib.PurePosixPath("/a/b"),
    "pattern": re.compile(r"a+b", re.IGNORECASE),
    "enum": Colour.BLUE,
    "int-enum": Level.HIGH,
    "dataclass": Order("o", [1, 2]),
    "frozen-dataclass": Frozen(1, 2),
    "namedtuple": Pair(1, [2]),
    "plain-object": Plain([1]),
    "slotted-object": Slotted("a"),
    "builtin-function": len,
    "type": dict,
    "module-level-class": Plain,
    "module": re,
}


def same(left, right):
    return type(left) is type(right) and left == right


@pytest.mark.parametrize("value", VALUES.values(), ids=VALUES.keys())
def test_value_is_the_same_after_put_and_get(value):
    assert same(ray.get(ray.put(value)), value)


@pytest.mark.parametrize("value", VALUES.values(), ids=VALUES.keys())
def test_value_is_the_same_after_going_through_a_task(value):
    assert same(ray.get(echo.remote(value)), value)


@pytest.mark.chosen_difference("Ray turns it into bytes", id="D-bytearray")
def test_bytearray_stays_a_bytearray():
    again = ray.get(echo.remote(bytearray(b"abc")))
    assert type(again) is bytearray
    assert again == b"abc"


def test_not_a_number_stays_not_a_number():
    value = ray.get(echo.remote(float("nan")))
    assert value != value


def test_negative_zero_keeps_its_sign():
    assert str(ray.get(echo.remote(-0.0))) == "-0.0"


def test_dictionary_keeps_its_order():
    value = dict.fromkeys("zebra", 0)
    assert list(ray.get(echo.remote(value))) == list(value)


def test_deque_keeps_its_bound():
    assert ray.get(echo.remote(collections.deque([1], maxlen=5))).maxlen == 5


def test_enum_member_is_the_very_member():
    assert ray.get(echo.remote(Colour.RED)) is Colour.RED


def test_enum_member_is_the_very_member_in_a_task():
    assert ray.get(ray.remote(lambda c: c is Colour.RED).remote(Colour.RED))


def test_list_that_holds_itself():
    value = [1]
    value.append(value)
    again = ray.get(ray.put([Plain(value)]))[0].x
    assert again[1] is again


def test_objects_that_point_at_each_other():
    left, right = Plain(1), Plain(2)
    left.peer, right.peer = right, left
    again = ray.get(echo.remote(left))
    assert again.peer.peer is again


def test_object_with_reduce_is_rebuilt_by_it():
    again = ray.get(echo.remote(Reduced(3)))
    assert (again.x, again.rebuilt) == (3, True)


def test_object_with_getstate_and_setstate():
    again = ray.get(echo.remote(Stateful(3)))
    assert again.x == 3
    assert list(again.stream) == [0, 1, 2]


def test_subclass_of_list_keeps_class_and_attributes():
    words = Words(["a", "b"])
    words.language = "en"
    again = ray.get(echo.remote(words))
    assert type(again) is Words
    assert again == ["a", "b"]
    assert again.language == "en"


def test_bound_method_keeps_its_object():
    again = ray.get(echo.remote(Order("bound", [1]).items.index))
    assert again(1) == 0


def test_partial_keeps_function_and_arguments():
    assert ray.get(echo.remote(functools.partial(int, base=2)))("101") == 5


def test_lambda_in_a_dictionary():
    assert ray.get(echo.remote({"f": lambda x: x + 1}))["f"](1) == 2


def test_instance_of_a_local_dataclass():
    @dataclasses.dataclass
    class Local:
        x: int

    again = ray.get(echo.remote(Local(3)))
    assert dataclasses.asdict(again) == {"x": 3}


def test_member_of_a_local_enum():
    class Local(enum.Enum):
        A = 1

    assert ray.get(echo.remote(Local.A)).value == 1


def test_instance_of_a_local_namedtuple():
    local = collections.namedtuple("local", "x y")
    assert ray.get(echo.remote(local(1, 2)))._asdict() == {"x": 1, "y": 2}


def test_exception_with_cause_as_a_value():
    error = ValueError("outer", 1)
    again = ray.get(echo.remote(error))
    assert (type(again), again.args) == (ValueError, ("outer", 1))


@pytest.mark.parametrize("depth", [10, 200])
def test_deeply_nested_list(depth):
    value: list = []
    for _ in range(depth):
        value = [value]
    assert ray.get(echo.remote(value)) == value


@pytest.mark.parametrize("length", [0, 1, 255, 256, 65_535, 65_536, 100 * 1024 - 1, 100 * 1024, 2**20 + 1])
def test_bytes_of_any_length(length):
    value = bytes(i % 251 for i in range(256)) * (length // 256 + 1)
    assert ray.get(echo.remote(value[:length])) == value[:length]


def test_long_text():
    text = "ż" * 400_000
    assert ray.get(echo.remote(text)) == text


def test_list_of_many_small_values():
    value = [(i, str(i)) for i in range(20_000)]
    assert ray.get(echo.remote(value)) == value
