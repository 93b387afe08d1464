"""``get`` of several refs of which one has failed, and what errors of tasks look like."""

from __future__ import annotations

import pickle
import sys
import threading
import time

import pytest
import ray
from ray.exceptions import GetTimeoutError, RayError, RayTaskError

pytestmark = pytest.mark.usefixtures("cluster")


@ray.remote
def fail(text="failed"):
    raise ValueError(text)


@ray.remote
def held(gate):
    gate.wait()
    return "released"


@ray.remote
def echo(value):
    return value


@pytest.fixture
def slow(gate):
    """A task that ends only when the test does."""
    release = gate("release")
    ref = held.remote(release)
    yield ref
    release.open()
    ray.get(ref)


# ---------------------------------------------------------------- the first failure ends the wait


@pytest.mark.parametrize("failed_first", [True, False])
def test_get_of_a_list_raises_as_soon_as_one_has_failed(slow, failed_first):
    refs = [fail.remote(), slow] if failed_first else [slow, fail.remote()]
    with pytest.raises(ValueError, match="failed"):
        ray.get(refs, timeout=60)


def test_get_of_a_list_with_a_timeout_raises_the_failure_and_not_the_timeout(slow):
    failed = fail.remote()
    ray.wait([failed])
    with pytest.raises(ValueError):
        ray.get([slow, failed], timeout=0.5)


def test_get_of_a_list_raises_what_fails_while_it_waits(slow, gate):
    go = gate("go")

    @ray.remote
    def later(go):
        go.wait()
        raise KeyError("later")

    refs = [slow, later.remote(go)]
    threading.Timer(0.1, go.open).start()
    with pytest.raises(KeyError):
        ray.get(refs, timeout=60)


def test_get_in_a_task_raises_as_soon_as_one_has_failed(gate):
    release = gate("release")

    @ray.remote(num_cpus=0)
    def waits(release):
        pending = held.options(num_cpus=0).remote(release)
        try:
            ray.get([pending, fail.options(num_cpus=0).remote()], timeout=60)
        except ValueError:
            return "raised"
        finally:
            release.open()

    assert ray.get(waits.remote(release), timeout=60) == "raised"


def test_get_of_calls_of_an_actor_raises_as_soon_as_one_has_failed(gate):
    release = gate("release")

    @ray.remote(max_concurrency=2)
    class Actor:
        def slow(self, release):
            release.wait()

        def bad(self):
            raise ValueError("bad")

    actor = Actor.remote()
    refs = [actor.slow.remote(release), actor.bad.remote()]
    with pytest.raises(ValueError, match="bad"):
        ray.get(refs, timeout=60)
    release.open()
    ray.get(refs[0])


def test_get_of_a_list_with_a_dead_actor_raises_at_once(slow):
    @ray.remote
    class Actor:
        def call(self):
            return 1

    actor = Actor.remote()
    ray.get(actor.call.remote())
    ray.kill(actor)
    with pytest.raises(ray.exceptions.RayActorError):
        ray.get([slow, actor.call.remote()], timeout=60)


def test_get_of_a_list_with_a_failed_stream_item_raises_at_once(slow):
    @ray.remote
    def stream():
        yield 1
        raise ValueError("late")

    first, second = stream.remote()
    with pytest.raises(ValueError, match="late"):
        ray.get([first, slow, second], timeout=60)


def test_get_of_a_borrowed_failure_raises_at_once(gate):
    release = gate("release")

    @ray.remote(num_cpus=0)
    def waits(refs):
        try:
            ray.get(refs, timeout=60)
        except ValueError:
            return "raised"

    pending = held.options(num_cpus=0).remote(release)
    assert ray.get(waits.remote([pending, fail.remote()]), timeout=60) == "raised"
    release.open()
    ray.get(pending)


def test_other_failures_do_not_disturb_a_get(gate):
    release = gate("release")
    pending = held.remote(release)
    others = [fail.remote() for _ in range(5)]
    threading.Timer(0.05, release.open).start()
    assert ray.get([pending, echo.remote(1)], timeout=60) == ["released", 1]
    for ref in others:
        with pytest.raises(ValueError):
            ray.get(ref)


@pytest.mark.parametrize("timeout", [-1, -5, 30, 30.0, None])
def test_get_takes_this_timeout(timeout):
    assert ray.get(echo.remote(1), timeout=timeout if timeout != -5 else 5) == 1


def test_get_with_timeout_zero_of_several_pending_refs(slow):
    with pytest.raises(GetTimeoutError):
        ray.get([slow, slow], timeout=0)


@pytest.mark.parametrize(
    ("given", "error", "text"),
    [
        (5, ValueError, "Invalid type of object refs"),
        ("text", ValueError, "Invalid type of object refs"),
        (None, ValueError, "Invalid type of object refs"),
        ((), ValueError, "Invalid type of object refs"),
        ({}, ValueError, "Invalid type of object refs"),
        ([1], TypeError, "Attempting to call `get` on the value 1"),
        (["x"], TypeError, "Attempting to call `get` on the value x"),
        ([None], TypeError, "Attempting to call `get` on the value None"),
    ],
)
def test_get_says_what_it_was_given(given, error, text):
    with pytest.raises(error, match=text):
        ray.get(given)


def test_put_of_a_ref_is_refused_by_this_phrase():
    with pytest.raises(TypeError, match=r"Calling 'put' on an ray\.ObjectRef is not allowed"):
        ray.put(ray.put(1))


def test_put_of_what_cannot_be_pickled_says_so():
    with pytest.raises(TypeError, match="Could not serialize the put value"):
        ray.put(threading.Lock())


def test_put_with_an_owner_is_refused():
    with pytest.raises(ValueError, match="_owner"):
        ray.put(1, _owner=object())


@pytest.mark.parametrize("count", [0, 1, 3])
def test_put_takes_one_positional_argument(count):
    if count == 1:
        assert ray.get(ray.put(1)) == 1
    else:
        with pytest.raises(TypeError):
            ray.put(*range(count))


@pytest.mark.parametrize(
    ("call", "error", "text"),
    [
        (lambda ref: ray.wait(ref), TypeError, r"wait\(\) expected a list of ray\.ObjectRef"),
        (lambda ref: ray.wait((ref,)), TypeError, r"wait\(\) expected a list of ray\.ObjectRef"),
        (lambda ref: ray.wait({ref}), TypeError, r"wait\(\) expected a list of ray\.ObjectRef"),
        (lambda ref: ray.wait([1]), TypeError, r"wait\(\) expected a list of ray\.ObjectRef"),
        (lambda ref: ray.wait([ref, ref]), ValueError, "Wait requires a list of unique ray_waitables"),
        (lambda ref: ray.wait([ref], num_returns=0), ValueError, "Invalid number of objects to return 0"),
        (lambda ref: ray.wait([ref], num_returns=-1), ValueError, "Invalid number of objects to return -1"),
        (
            lambda ref: ray.wait([ref], num_returns=2),
            ValueError,
            "num_returns cannot be greater than the number",
        ),
        (lambda ref: ray.wait([ref], timeout=-1), ValueError, "'timeout' argument must be nonnegative"),
        (lambda ref: ray.wait([ref], 1), TypeError, "positional argument"),
        (lambda ref: ray.cancel(1), TypeError, r"ray\.cancel\(\) only supported for object refs"),
        (lambda ref: ray.cancel([ref]), TypeError, r"ray\.cancel\(\) only supported for object refs"),
        (lambda ref: ray.cancel(None), TypeError, r"ray\.cancel\(\) only supported for object refs"),
        (lambda ref: ray.cancel(ref, True), TypeError, "positional argument"),
    ],
)
def test_wait_and_cancel_say_what_they_were_given(call, error, text):
    with pytest.raises(error, match=text):
        call(ray.put(1))


def test_force_cancel_of_a_call_is_refused_by_this_phrase(gate):
    release = gate("release")

    @ray.remote
    class Actor:
        def call(self, release):
            release.wait()
            return 1

    actor = Actor.remote()
    ref = actor.call.remote(release)
    with pytest.raises(ValueError, match="force=True is not supported for actor tasks"):
        ray.cancel(ref, force=True)
    release.open()
    assert ray.get(ref) == 1


def test_cancel_of_an_actor_is_refused():
    @ray.remote
    class Actor:
        pass

    with pytest.raises(TypeError, match=r"ray\.kill"):
        ray.cancel(Actor.remote())


# ---------------------------------------------------------------- what the error is


def failure_of(ref):
    with pytest.raises(RayTaskError) as caught:
        ray.get(ref)
    return caught.value


@pytest.mark.parametrize("args", [(), ("boom",), ("boom", 3), (None,)])
def test_argument_of_a_task_error_is_its_cause(args):
    @ray.remote
    def boom():
        raise ValueError(*args)

    error = failure_of(boom.remote())
    (cause,) = error.args
    assert type(cause) is ValueError
    assert cause.args == args
    assert error.cause.args == args


def test_repr_of_a_task_error_shows_its_cause():
    assert repr(failure_of(fail.remote("boom"))) == "RayTaskError(ValueError)(ValueError('boom'))"


def test_class_of_a_task_error_is_named_after_its_cause():
    cls = type(failure_of(fail.remote()))
    assert cls.__name__ == cls.__qualname__ == "RayTaskError(ValueError)"
    assert issubclass(cls, (RayTaskError, ValueError, RayError))


def test_text_of_a_task_error_begins_with_its_title():
    assert "ray::fail()" in str(failure_of(fail.remote()))


def test_text_of_a_task_error_ends_with_the_exception():
    assert str(failure_of(fail.remote("the end"))).rstrip().endswith("ValueError: the end")


def test_title_of_a_nested_function_is_its_own_name():
    @ray.remote
    def nested():
        raise ValueError

    assert "ray::nested()" in str(failure_of(nested.remote()))


def test_title_of_a_method_has_the_class():
    @ray.remote
    class Actor:
        def bad(self):
            raise ValueError

    actor = Actor.remote()
    assert "ray::Actor.bad()" in str(failure_of(actor.bad.remote()))


def test_text_of_a_failed_input_has_this_phrase():
    text = str(failure_of(echo.remote(fail.remote("first"))))
    assert "At least one of the input arguments for this task could not be computed:\n" in text
    assert "ray::echo()" in text
    assert "ray::fail()" in text


@pytest.mark.parametrize("depth", [1, 2, 4])
def test_failed_input_goes_through_all_that_depend_on_it(depth):
    ref = fail.remote("deep")
    for _ in range(depth):
        ref = echo.remote(ref)
    error = failure_of(ref)
    assert isinstance(error, ValueError)
    assert str(error.cause) == "deep"


def test_error_raised_again_in_a_task_keeps_its_cause():
    @ray.remote
    def outer():
        ray.get(fail.remote("inner"))

    error = failure_of(outer.remote())
    assert isinstance(error, ValueError)
    assert str(error.cause) == "inner"
    assert "ray::outer()" in str(error)
    assert "ray::fail()" in str(error)


def test_task_error_has_no_python_cause_or_context():
    error = failure_of(fail.remote())
    assert error.__cause__ is None


def test_key_error_is_caught_as_one():
    @ray.remote
    def missing():
        return {}["key"]

    with pytest.raises(KeyError, match="key"):
        ray.get(missing.remote())


def test_class_of_ones_own_with_fields_is_caught_with_them():
    class Own(Exception):
        def __init__(self, code, detail="d"):
            super().__init__(code)
            self.code = code
            self.detail = detail

    @ray.remote
    def raises():
        raise Own(7)

    error = failure_of(raises.remote())
    assert type(error).__name__ == "RayTaskError(Own)"
    assert (error.code, error.detail) == (7, "d")


def test_task_error_can_be_pickled_and_raised_again():
    error = failure_of(fail.remote("again"))
    try:
        again = pickle.loads(pickle.dumps(error))
    except Exception:  # Ray's own cannot always
        pytest.skip("it cannot be pickled on this target")
    assert isinstance(again, RayTaskError)


@pytest.mark.chosen_difference("on Ray reading such an exception ends the driver", id="D-error-parts")
def test_exception_whose_reading_exits_arrives():
    class Exits(Exception):
        def __reduce__(self):
            return (sys.exit, (3,))

    @ray.remote(max_retries=0)
    def bad():
        raise Exits("text")

    error = failure_of(bad.remote())
    assert type(error.cause).__name__ == "Exits"
    assert ray.get(echo.remote(1)) == 1


@pytest.mark.chosen_difference("Ray's worker ends", id="D-error-parts")
@pytest.mark.parametrize("failure", [RuntimeError, SystemExit, GeneratorExit])
def test_exception_that_cannot_be_pickled_arrives(failure):
    class Stuck(Exception):
        def __reduce__(self):
            raise failure("no pickle")

    @ray.remote(max_retries=0)
    def bad():
        raise Stuck("text")

    assert "text" in str(failure_of(bad.remote()))


@pytest.mark.parametrize("place", ["attribute", "argument"])
def test_exception_that_holds_a_lock_arrives_as_a_ray_error(place):
    class Holds(Exception):
        def __init__(self, *args):
            super().__init__(*args)
            if place == "attribute":
                self.lock = threading.Lock()

    @ray.remote
    def bad():
        raise Holds("text", *([threading.Lock()] if place == "argument" else []))

    with pytest.raises(RayError, match="text"):
        ray.get(bad.remote())


def test_exception_that_wants_more_than_its_arguments_arrives_as_a_ray_error():
    class Wants(Exception):
        def __init__(self, one, two):
            super().__init__(one)

    @ray.remote
    def bad():
        raise Wants("text", 2)

    with pytest.raises(RayError, match="text"):
        ray.get(bad.remote())


def test_unhandled_failures_do_not_disturb_what_follows():
    for _ in range(3):
        fail.remote()
    deadline = time.monotonic() + 30
    while time.monotonic() < deadline and ray.get(echo.remote(1)) != 1:
        pass
    assert ray.get(echo.remote(2)) == 2
