"""Errors raised by tasks: the type that arrives, its contents, and the tree of error classes."""

from __future__ import annotations

import builtins
import os
import pickle
import re

import pytest
import ray
from ray.exceptions import RayError, RayTaskError, WorkerCrashedError

pytestmark = pytest.mark.usefixtures("cluster")


class Refused(Exception):
    """An exception of the user's own, at module level."""


class WithFields(Exception):
    def __init__(self, code, detail):
        super().__init__(code, detail)
        self.code = code
        self.detail = detail


@ray.remote
def fail_with(error):
    raise error


BUILTIN_ERRORS = [
    ArithmeticError("e"),
    AssertionError("e"),
    AttributeError("e"),
    FileNotFoundError(2, "no such file"),
    ImportError("e"),
    IndexError("e"),
    KeyError("e"),
    MemoryError("e"),
    NotImplementedError("e"),
    OSError(5, "e"),
    OverflowError("e"),
    RuntimeError("e"),
    StopIteration("e"),
    TimeoutError("e"),
    TypeError("e"),
    UnicodeDecodeError("utf-8", b"\xff", 0, 1, "bad start"),
    ValueError("e"),
    ZeroDivisionError("e"),
]


@pytest.mark.parametrize("error", BUILTIN_ERRORS, ids=lambda error: type(error).__name__)
def test_core_5_builtin_exception_is_caught_by_its_own_type(error):
    with pytest.raises(type(error)) as caught:
        ray.get(fail_with.remote(error))
    assert isinstance(caught.value, RayTaskError)


def test_core_5_exception_is_caught_as_ray_task_error():
    with pytest.raises(RayTaskError):
        ray.get(fail_with.remote(KeyError("k")))


def test_core_5_exception_is_caught_as_ray_error():
    with pytest.raises(RayError):
        ray.get(fail_with.remote(KeyError("k")))


def test_core_5_base_class_of_the_cause_catches_too():
    with pytest.raises(LookupError):
        ray.get(fail_with.remote(KeyError("k")))


def test_core_5_unrelated_type_does_not_catch():
    with pytest.raises(KeyError) as caught:
        ray.get(fail_with.remote(KeyError("k")))
    assert not isinstance(caught.value, ValueError)


def test_core_5_name_of_the_raised_class_shows_the_cause():
    with pytest.raises(RayTaskError) as caught:
        ray.get(fail_with.remote(KeyError("k")))
    assert type(caught.value).__name__ == "RayTaskError(KeyError)"


def test_core_5_cause_is_the_original_exception():
    with pytest.raises(RayTaskError) as caught:
        ray.get(fail_with.remote(ValueError("original", 7)))
    assert type(caught.value.cause) is ValueError
    assert caught.value.cause.args == ("original", 7)


def test_core_5_text_has_the_remote_traceback():
    @ray.remote
    def outer():
        def deep_inside():
            raise ValueError("the reason")

        deep_inside()

    with pytest.raises(ValueError) as caught:
        ray.get(outer.remote())
    text = str(caught.value)
    assert "deep_inside" in text
    assert "the reason" in text
    assert "test_errors.py" in text


def test_core_5_text_names_the_task():
    @ray.remote
    def miscalculate():
        raise ValueError

    with pytest.raises(ValueError, match="miscalculate"):
        ray.get(miscalculate.remote())


def test_core_5_own_exception_class_at_module_level():
    with pytest.raises(Refused, match="not today"):
        ray.get(fail_with.remote(Refused("not today")))


def test_core_5_own_exception_class_defined_in_a_function():
    class Local(Exception):
        pass

    @ray.remote
    def fail():
        raise Local("here")

    with pytest.raises(RayTaskError) as caught:
        ray.get(fail.remote())
    assert type(caught.value.cause).__name__ == "Local"


def test_core_5_fields_of_an_own_exception_arrive_on_the_cause():
    with pytest.raises(WithFields) as caught:
        ray.get(fail_with.remote(WithFields(404, "gone")))
    assert (caught.value.cause.code, caught.value.cause.detail) == (404, "gone")


def test_core_5_attributes_of_the_cause_are_readable_on_the_error():
    with pytest.raises(WithFields) as caught:
        ray.get(fail_with.remote(WithFields(404, "gone")))
    assert caught.value.code == 404


def test_core_5_exception_that_cannot_be_pickled_still_arrives_as_a_task_error():
    @ray.remote
    def fail():
        error = ValueError("holds a generator")
        error.generator = (i for i in range(3))
        raise error

    with pytest.raises(RayTaskError, match="holds a generator"):
        ray.get(fail.remote())


def test_core_5_exception_whose_constructor_does_not_take_its_args_arrives():
    class Picky(Exception):
        def __init__(self, *, reason):
            super().__init__(reason)

    @ray.remote
    def fail():
        raise Picky(reason="only by keyword")

    with pytest.raises(RayError, match="only by keyword"):
        ray.get(fail.remote())


def test_core_5_chained_exception_shows_what_it_came_from():
    @ray.remote
    def fail():
        try:
            {}["missing"]
        except KeyError as error:
            raise RuntimeError("could not look up") from error

    with pytest.raises(RuntimeError) as caught:
        ray.get(fail.remote())
    assert "could not look up" in str(caught.value)
    assert "missing" in str(caught.value)


def test_core_5_same_failed_ref_raises_every_time():
    ref = fail_with.remote(ValueError("again"))
    for _ in range(3):
        with pytest.raises(ValueError, match="again"):
            ray.get(ref)


def test_core_5_one_failure_in_a_list_is_raised():
    @ray.remote
    def ok():
        return 1

    with pytest.raises(ValueError, match="one"):
        ray.get([ok.remote(), fail_with.remote(ValueError("one")), ok.remote()])


def test_core_5_first_failure_in_list_order_is_raised():
    refs = [fail_with.remote(KeyError("a")), fail_with.remote(ValueError("b"))]
    ray.wait(refs, num_returns=2)
    with pytest.raises(KeyError):
        ray.get(refs)


def test_core_5_exception_returned_as_a_value_is_not_raised():
    @ray.remote
    def give():
        return ValueError("just a value")

    value = ray.get(give.remote())
    assert type(value) is ValueError
    assert value.args == ("just a value",)


def test_core_5_exception_put_as_a_value_is_not_raised():
    value = ray.get(ray.put(KeyError("k")))
    assert type(value) is KeyError


def test_core_5_error_in_a_nested_task_keeps_its_type_through_both():
    @ray.remote
    def outer():
        return ray.get(fail_with.remote(KeyError("inner")))

    with pytest.raises(KeyError) as caught:
        ray.get(outer.remote())
    assert isinstance(caught.value, RayTaskError)
    assert "outer" in str(caught.value)


def test_core_5_error_in_a_nested_task_can_be_handled_there():
    @ray.remote
    def outer():
        try:
            ray.get(fail_with.remote(KeyError("inner")))
        except KeyError:
            return "handled"

    assert ray.get(outer.remote()) == "handled"


def test_core_5_worker_works_on_after_a_failed_task():
    @ray.remote
    def ok():
        return "fine"

    for _ in range(5):
        with pytest.raises(ValueError):
            ray.get(fail_with.remote(ValueError()))
    assert ray.get(ok.remote()) == "fine"


def test_core_5_sys_exit_in_a_task_is_an_error_at_the_caller():
    @ray.remote(max_retries=0)
    def leave():
        raise SystemExit(3)

    with pytest.raises(RayError):
        ray.get(leave.remote())


def test_core_5_syntax_error_from_compiled_text():
    @ray.remote
    def compile_badly():
        compile("def (:", "<text>", "exec")

    with pytest.raises(SyntaxError):
        ray.get(compile_badly.remote())


def test_core_5_exception_group_arrives():
    group_type = getattr(builtins, "ExceptionGroup", None)
    if group_type is None:
        pytest.skip("exception groups came with Python 3.11")
    error = group_type("several", [ValueError("a"), KeyError("b")])
    with pytest.raises(RayTaskError) as caught:
        ray.get(fail_with.remote(error))
    assert "several" in str(caught.value)


@pytest.mark.chosen_difference("the class that Ray raises cannot be pickled", id="D-errors-are-values")
def test_core_5_task_error_can_be_pickled():
    with pytest.raises(RayTaskError) as caught:
        ray.get(fail_with.remote(ValueError("travels")))
    again = pickle.loads(pickle.dumps(caught.value))
    assert isinstance(again, RayTaskError)
    assert "travels" in str(again)


@pytest.mark.chosen_difference("Ray takes it for a failed input of the task", id="D-errors-are-values")
def test_core_5_task_error_can_be_passed_to_a_task():
    @ray.remote
    def describe(error):
        return isinstance(error, ValueError), isinstance(error, RayTaskError)

    with pytest.raises(ValueError) as caught:
        ray.get(fail_with.remote(ValueError("travels")))
    assert ray.get(describe.remote(caught.value)) == (True, True)


def test_core_4_dependent_task_fails_with_the_cause_type_of_its_input():
    @ray.remote
    def use(value):
        return value

    with pytest.raises(KeyError) as caught:
        ray.get(use.remote(fail_with.remote(KeyError("root"))))
    assert isinstance(caught.value, RayTaskError)
    assert "root" in str(caught.value)


def test_core_4_text_of_a_dependent_failure_names_both_tasks():
    @ray.remote
    def producer():
        raise KeyError("root")

    @ray.remote
    def consumer(value):
        return value

    with pytest.raises(KeyError) as caught:
        ray.get(consumer.remote(producer.remote()))
    assert "producer" in str(caught.value)
    assert "consumer" in str(caught.value)


def test_core_4_two_failed_inputs_fail_the_task_once():
    @ray.remote
    def use(a, b):
        return a, b

    with pytest.raises((KeyError, ValueError)):
        ray.get(use.remote(fail_with.remote(KeyError("a")), fail_with.remote(ValueError("b"))))


def test_core_11_worker_that_dies_raises_worker_crashed_error():
    @ray.remote(max_retries=0)
    def die():
        os._exit(1)

    with pytest.raises(WorkerCrashedError):
        ray.get(die.remote())


def test_core_11_other_workers_go_on_after_one_died():
    @ray.remote(max_retries=0)
    def die():
        os._exit(1)

    @ray.remote
    def live():
        return "alive"

    doomed = die.remote()
    assert ray.get([live.remote() for _ in range(3)]) == ["alive"] * 3
    with pytest.raises(WorkerCrashedError):
        ray.get(doomed)


@pytest.mark.chosen_difference("Ray's text leads with out-of-memory whatever happened", id="D-messages")
def test_core_11_worker_crashed_error_names_task_and_exit_code():
    @ray.remote(max_retries=0)
    def die():
        os._exit(17)

    with pytest.raises(WorkerCrashedError) as caught:
        ray.get(die.remote())
    assert "die" in str(caught.value)
    assert "17" in str(caught.value)


@pytest.mark.chosen_difference("Ray does not say where the task was submitted", id="D-messages")
def test_core_5_text_names_the_line_that_submitted_the_task():
    with pytest.raises(ValueError) as caught:
        ray.get(fail_with.remote(ValueError("x")))
    first_line = test_core_5_text_names_the_line_that_submitted_the_task.__code__.co_firstlineno
    assert re.search(rf"test_errors\.py\D+{first_line + 3}\b", str(caught.value))


ERROR_TREE = [
    ("RayError", "Exception"),
    ("RayTaskError", "RayError"),
    ("TaskCancelledError", "RayError"),
    ("TaskUnschedulableError", "RayError"),
    ("TaskPlacementGroupRemoved", "RayError"),
    ("RayActorError", "RayError"),
    ("ActorDiedError", "RayActorError"),
    ("ActorUnavailableError", "RayActorError"),
    ("ActorUnschedulableError", "RayError"),
    ("ActorPlacementGroupRemoved", "RayError"),
    ("PendingCallsLimitExceeded", "RayError"),
    ("AsyncioActorExit", "RayError"),
    ("WorkerCrashedError", "RayError"),
    ("NodeDiedError", "RayError"),
    ("LocalRayletDiedError", "RayError"),
    ("OutOfMemoryError", "RayError"),
    ("OutOfDiskError", "RayError"),
    ("ObjectStoreFullError", "RayError"),
    ("ObjectLostError", "RayError"),
    ("ObjectFetchTimedOutError", "ObjectLostError"),
    ("ObjectFreedError", "ObjectLostError"),
    ("OwnerDiedError", "ObjectLostError"),
    ("ObjectReconstructionFailedError", "ObjectLostError"),
    ("ReferenceCountingAssertionError", "ObjectLostError"),
    ("ReferenceCountingAssertionError", "AssertionError"),
    ("GetTimeoutError", "RayError"),
    ("GetTimeoutError", "TimeoutError"),
    ("RuntimeEnvSetupError", "RayError"),
    ("UnserializableException", "RayError"),
    ("UserCodeException", "RayError"),
    ("CrossLanguageError", "RayError"),
    ("AuthenticationError", "RayError"),
    ("RpcError", "RayError"),
    ("ObjectRefStreamEndOfStreamError", "RayError"),
    ("PlasmaObjectNotAvailable", "RayError"),
    ("OufOfBandObjectRefSerializationException", "RayError"),
    ("RaySystemError", "RayError"),
    ("RayChannelError", "RaySystemError"),
    ("RayChannelTimeoutError", "RayChannelError"),
    ("RayChannelTimeoutError", "TimeoutError"),
    ("ActorAlreadyExistsError", "ValueError"),
    ("ActorAlreadyExistsError", "RayError"),
    ("ActorHandleNotFoundError", "ValueError"),
    ("ActorHandleNotFoundError", "RayError"),
]


@pytest.mark.parametrize(("name", "parent"), ERROR_TREE, ids=[f"{n}-{p}" for n, p in ERROR_TREE])
def test_error_class_has_its_place_in_the_tree(name, parent):
    builtin = {"Exception": Exception, "TimeoutError": TimeoutError, "AssertionError": AssertionError}
    builtin["ValueError"] = ValueError
    expected = builtin.get(parent) or getattr(ray.exceptions, parent)
    assert issubclass(getattr(ray.exceptions, name), expected)
