"""Phrases of refusals that programs match: actors by name, handles, get, queues and pools."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from typing import Any

import pytest
import ray
from ray.exceptions import ActorDiedError, GetTimeoutError
from ray.util import ActorPool
from ray.util.queue import Empty, Full, Queue

pytestmark = pytest.mark.usefixtures("cluster")


@ray.remote
def function(x: int = 1) -> int:
    return x


@ray.remote(num_cpus=0)
class Box:
    def __init__(self, content: int = 0) -> None:
        self.content = content

    def open(self) -> int:
        return self.content


def _twice() -> None:
    kept = Box.options(name="twice").remote()
    ray.get(kept.open.remote())
    Box.options(name="twice").remote()


def _inherit() -> None:
    class Child(Box):  # type: ignore[misc]
        pass


def _unknown_option() -> None:
    @ray.remote(nonsense=1)
    class Strange:
        pass


def _captures_a_lock() -> None:
    lock = threading.Lock()
    ray.remote(lambda: lock).remote()


def _actor_with_a_lock() -> None:
    lock = threading.Lock()

    class Locked:
        def get(self) -> Any:
            return lock

    ray.remote(Locked).remote()


def _captures_too_much() -> None:
    large = bytes(100 * 2**20)
    ray.remote(lambda: len(large)).remote()


def _killed() -> None:
    actor = Box.remote()
    ray.get(actor.open.remote())
    ray.kill(actor)
    while True:  # Ray lets calls pass until the process has ended
        ray.get(actor.open.remote())


def _exited() -> None:
    @ray.remote(num_cpus=0)
    class Leaver:
        def leave(self) -> None:
            ray.actor.exit_actor()

    ray.get(Leaver.remote().leave.remote())


def _exits() -> None:
    @ray.remote(num_cpus=0)
    class Crasher:
        def crash(self) -> None:
            os._exit(1)

    ray.get(Crasher.remote().crash.remote())


def _twice_in_a_pool() -> None:
    actor = Box.remote()
    ActorPool([actor]).push(actor)


CASES: list[tuple[Callable[[], Any], type[BaseException], str]] = [
    (_twice, ValueError, r"The name twice \(namespace=.*\) is already taken"),
    (_twice, ValueError, r"Please use\s+a different name"),
    (_captures_a_lock, TypeError, "Could not serialize the function"),
    (_actor_with_a_lock, TypeError, "Could not serialize the actor class"),
    (lambda: function.remote(threading.Lock()), TypeError, "Could not serialize the argument"),
    (_captures_too_much, ValueError, "The remote function .* is too large"),
    (lambda: ray.get(3), ValueError, "'object_refs' must either be an ObjectRef or a list of ObjectRefs"),
    (lambda: ray.ObjectRef(b"short"), ValueError, "needs to have length"),
    (_unknown_option, ValueError, "Invalid option keyword nonsense for actors"),
    (_killed, ActorDiedError, "it was killed by `ray.kill"),
    (_killed, ActorDiedError, "The actor died unexpectedly before finishing this task"),
    (_exits, ActorDiedError, "The actor died unexpectedly before finishing this task"),
    (_exited, ActorDiedError, "exit_actor"),
    (lambda: ray.get_actor(""), ValueError, "Please supply a non-empty value to get_actor"),
    (lambda: ray.get_actor(None), ValueError, "Please supply a non-empty value to get_actor"),
    (lambda: ray.get_actor("absent"), ValueError, "Failed to look up actor with name 'absent'"),
    (lambda: ray.get_actor("absent", namespace=5), TypeError, "namespace must be None or a string"),
    (lambda: ray.get_actor("absent", namespace=""), ValueError, '"" is not a valid namespace'),
    (lambda: Box.options(name="").remote(), ValueError, "Actor name cannot be an empty string"),
    (lambda: Box.options(name=5).remote(), TypeError, "The type of keyword 'name' must be"),
    (lambda: Box.options(get_if_exists=True).remote(), ValueError, "The actor name must be specified to use `get_if_exists`"),
    (lambda: Box(), TypeError, "Actors cannot be instantiated directly"),
    (lambda: function(), TypeError, "Remote functions cannot be called directly"),
    (lambda: Box.remote().open(), TypeError, "Actor methods cannot be called directly"),
    (lambda: Box.remote().open.remote(1), TypeError, "too many positional arguments"),
    (lambda: function.remote(1, 2), TypeError, "too many positional arguments"),
    (lambda: Box.remote(1, 2), TypeError, "too many positional arguments"),
    (lambda: function.remote(y=1), TypeError, "got an unexpected keyword argument 'y'"),
    (lambda: Box.remote(y=1), TypeError, "got an unexpected keyword argument 'y'"),
    (lambda: Box.remote().open.remote(y=1), TypeError, "got an unexpected keyword argument 'y'"),
    (lambda: Box.remote().absent, AttributeError, "has no attribute 'absent'"),
    (_inherit, TypeError, "Inheriting from actor classes is not currently supported"),
    (lambda: ray.kill("text"), ValueError, r"ray.kill\(\) only supported for actors"),
    (lambda: ray.kill(ray.put(1)), ValueError, r"ray.kill\(\) only supported for actors"),
    (lambda: ray.cancel("text"), TypeError, r"ray.cancel\(\) only supported for object refs"),
    (lambda: ray.cancel(Box.remote().open.remote(), force=True), ValueError, "force=True is not supported for actor tasks"),
    (lambda: ray.get(ray.remote(lambda: __import__("time").sleep(3)).remote(), timeout=0), GetTimeoutError,
     r"Get timed out: some object\(s\) not ready"),
    (lambda: ray.get({}), ValueError, "Invalid type of object refs, <class 'dict'>, is given"),
    (lambda: ray.wait(ray.put(1)), TypeError, "got a single ray.ObjectRef or ray.ObjectRefGenerator"),
    (lambda: ray.wait({1: 2}), TypeError, "or ray.ObjectRefGenerator, got <class .dict.>"),
    (lambda: ray.wait([1]), TypeError, "or ray.ObjectRefGenerator, got list containing <class .int.>"),
    (lambda: ray.wait([ray.put(1)], num_returns=2), ValueError, "num_returns cannot be greater than the number of ray_waitables"),
    (lambda: ray.wait([ray.put(1)], num_returns=0), ValueError, "Invalid number of objects to return 0"),
    (lambda: ray.wait([ray.put(1)], timeout=-1), ValueError, "The 'timeout' argument must be nonnegative"),
    (lambda: ray.put(ray.put(1)), TypeError, "Calling 'put' on an ray.ObjectRef is not allowed"),
    (lambda: ray.get_runtime_context().current_actor, RuntimeError, "This method is only available in an actor"),
    (lambda: Queue(maxsize=2).put_nowait_batch([1, 2, 3]), Full, "Cannot add 3 items to queue of size 0 and maxsize 2"),
    (lambda: Queue().get_nowait_batch(3), Empty, "Cannot get 3 items from queue of size 0"),
    (lambda: Queue().get(timeout=-1), ValueError, "'timeout' must be a non-negative number"),
    (lambda: ActorPool([]).get_next(), StopIteration, "No more results to get"),
    (_twice_in_a_pool, ValueError, "Actor already belongs to current ActorPool"),
    (lambda: ray.get(function.options(num_returns=2).remote()), TypeError, "int"),
    (lambda: ray.get(ray.remote(num_returns=2)(lambda: (1, 2, 3)).remote()), ValueError,
     "Task returned 3 objects, but num_returns=2"),
]  # fmt: skip


@pytest.mark.parametrize(
    ("call", "error", "phrase"), CASES, ids=[f"{i}-{c[2][:30]}" for i, c in enumerate(CASES)]
)
def test_phrase_of(call: Callable[[], Any], error: type[BaseException], phrase: str) -> None:
    with pytest.raises(error, match=phrase):
        call()
