"""The error tree, and task errors raised as instances of the task's exception type."""

import asyncio
import builtins
import copy
import dataclasses
import gc
import inspect
import pickle
import sys
import traceback
import weakref

import pytest

from skate import exceptions
from skate.exceptions import ActorDeath, RayActorError, RayError, RayTaskError

# None before Python 3.11.
ExceptionGroup = getattr(builtins, "ExceptionGroup", None)
BaseExceptionGroup = getattr(builtins, "BaseExceptionGroup", None)

TREE = {
    "RayError": ["Exception"],
    "CrossLanguageError": ["RayError"],
    "TaskCancelledError": ["RayError"],
    "RayTaskError": ["RayError"],
    "LocalRayletDiedError": ["RayError"],
    "WorkerCrashedError": ["RayError"],
    "RayActorError": ["RayError"],
    "ActorDiedError": ["RayActorError"],
    "ActorUnavailableError": ["RayActorError"],
    "RaySystemError": ["RayError"],
    "AuthenticationError": ["RayError"],
    "UserCodeException": ["RayError"],
    "ObjectStoreFullError": ["RayError"],
    "OutOfDiskError": ["RayError"],
    "OutOfMemoryError": ["RayError"],
    "NodeDiedError": ["RayError"],
    "ObjectLostError": ["RayError"],
    "ObjectFetchTimedOutError": ["ObjectLostError"],
    "RpcError": ["RayError"],
    "ReferenceCountingAssertionError": ["ObjectLostError", "AssertionError"],
    "ObjectFreedError": ["ObjectLostError"],
    "OwnerDiedError": ["ObjectLostError"],
    "ObjectReconstructionFailedError": ["ObjectLostError"],
    "GetTimeoutError": ["RayError", "TimeoutError"],
    "PlasmaObjectNotAvailable": ["RayError"],
    "AsyncioActorExit": ["RayError"],
    "RuntimeEnvSetupError": ["RayError"],
    "TaskPlacementGroupRemoved": ["RayError"],
    "ActorPlacementGroupRemoved": ["RayError"],
    "PendingCallsLimitExceeded": ["RayError"],
    "TaskUnschedulableError": ["RayError"],
    "ActorUnschedulableError": ["RayError"],
    "ObjectRefStreamEndOfStreamError": ["RayError"],
    "StreamingGeneratorReplayInconsistentError": ["RaySystemError"],
    "OufOfBandObjectRefSerializationException": ["RayError"],
    "RayChannelError": ["RaySystemError"],
    "RayChannelTimeoutError": ["RayChannelError", "TimeoutError"],
    "RayCgraphCapacityExceeded": ["RaySystemError"],
    "RayDirectTransportError": ["RaySystemError"],
    "UnserializableException": ["RayError"],
    "ActorAlreadyExistsError": ["ValueError", "RayError"],
    "ActorHandleNotFoundError": ["ValueError", "RayError"],
}


@pytest.mark.parametrize("name", TREE)
def test_the_tree_has_rays_names_and_bases(name):
    cls = getattr(exceptions, name)
    assert [base.__name__ for base in cls.__bases__] == TREE[name]
    assert cls.__module__ == "skate.exceptions"


#: Exceptions that Ray lacks, because it waits forever or has no standing node on one machine.
OURS = {"DeadlockError", "NodeGoneError"}


def test_the_tree_has_no_other_exceptions():
    names = {
        name
        for name, value in vars(exceptions).items()
        if inspect.isclass(value) and issubclass(value, BaseException)
    }
    assert names == set(TREE) | OURS


CAUSE = KeyError("k")
EXAMPLES = [
    exceptions.RayError("text"),
    exceptions.CrossLanguageError("from java"),
    exceptions.TaskCancelledError(),
    exceptions.TaskCancelledError("abcd", "by hand"),
    exceptions.LocalRayletDiedError(),
    exceptions.WorkerCrashedError(),
    exceptions.WorkerCrashedError("killed by signal 9"),
    exceptions.RayActorError(),
    exceptions.RayActorError(actor_id="ab", error_msg="text", actor_init_failed=True, preempted=True),
    exceptions.ActorDiedError(),
    exceptions.ActorDiedError("a sentence"),
    exceptions.ActorDiedError(ActorDeath("boom", actor_id="ab", reason="RAY_KILL")),
    exceptions.ActorDiedError(cause=RayTaskError("f", "tb", KeyError(1), actor_id="cd")),
    exceptions.ActorUnavailableError("restarting", b"\x01" * 16),
    exceptions.ActorUnavailableError(error_message="restarting", actor_id=None),
    exceptions.RaySystemError("why", "traceback"),
    exceptions.AuthenticationError(message="no token"),
    exceptions.UserCodeException("text"),
    exceptions.ObjectStoreFullError(),
    exceptions.ObjectStoreFullError("needs 5 GiB, has 1 GiB."),
    exceptions.OutOfDiskError("text"),
    exceptions.OutOfMemoryError("text"),
    exceptions.NodeDiedError(message="text"),
    exceptions.ObjectLostError("ab", None, "main.py:3"),
    exceptions.ObjectLostError(object_ref_hex="ab"),
    exceptions.ObjectFetchTimedOutError("ab", None, ""),
    exceptions.RpcError("text", rpc_code=14),
    exceptions.ReferenceCountingAssertionError("ab", None, ""),
    exceptions.ObjectFreedError("ab", None, ""),
    exceptions.OwnerDiedError("ab", b"addr", ""),
    exceptions.ObjectReconstructionFailedError("ab", "OBJECT_UNRECONSTRUCTABLE_PUT"),
    exceptions.ObjectReconstructionFailedError("ab", reason_message="text", call_site="x.py:1"),
    exceptions.GetTimeoutError("waited 1 s"),
    exceptions.RuntimeEnvSetupError("text"),
    exceptions.RuntimeEnvSetupError(),
    exceptions.TaskPlacementGroupRemoved(),
    exceptions.ActorPlacementGroupRemoved("group g was removed"),
    exceptions.TaskUnschedulableError("text"),
    exceptions.ActorUnschedulableError(error_message="text"),
    exceptions.UnserializableException("text"),
    exceptions.ActorAlreadyExistsError("text"),
    exceptions.ActorHandleNotFoundError("text"),
    exceptions.RayChannelTimeoutError("text"),
    RayTaskError("f", "tb", CAUSE, pid=7, submit_site="a.py:1"),
    RayTaskError("f", "tb", CAUSE, pid=7).as_instanceof_cause(),
]


def visible(exc):
    state = {name: value for name, value in vars(exc).items() if not isinstance(value, BaseException)}
    state.pop("cause", None)
    return type(exc).__name__, str(exc), state


@pytest.mark.parametrize("exc", EXAMPLES, ids=lambda e: type(e).__name__)
def test_every_error_survives_pickling_and_copying_with_its_attributes(exc):
    for twin in (pickle.loads(pickle.dumps(exc)), copy.copy(exc), copy.deepcopy(exc)):
        assert visible(twin) == visible(exc)
        assert isinstance(twin, RayError)


def test_a_death_in_words():
    death = ActorDeath(
        "killed by ray.kill()", actor_id="ab", class_name="Counter", name="n", pid=4, reason="RAY_KILL"
    )
    error = exceptions.ActorDiedError(death)
    text = "The actor Counter (actor_id=ab, name='n', pid=4) is dead [RAY_KILL]: killed by ray.kill()"
    assert str(error) == f"{exceptions.ActorDiedError.BASE_ERROR_MSG} {text}"
    assert (error.actor_id, error.actor_init_failed, error.preempted) == ("ab", False, False)
    assert "ActorDeath(actor_id='ab'" in repr(error.cause)


def test_an_actor_whose_constructor_failed():
    error = exceptions.ActorDiedError.from_task_error(
        RayTaskError(
            "A.__init__", "Traceback (most recent call last):\nKeyError: 1", KeyError(1), actor_id="ab"
        )
    )
    assert error.actor_init_failed
    assert error.actor_id == "ab"
    assert "KeyError: 1" in str(error)
    assert isinstance(error, RayActorError)


def test_a_timeout_is_a_timeout():
    with pytest.raises(TimeoutError, match="text"):
        raise exceptions.GetTimeoutError("text")


# ---------------------------------------------------------------- task errors


class NeedsArguments(Exception):
    def __init__(self, code, reason):
        super().__init__(f"{code}: {reason}")
        self.code = code
        self.reason = reason


class NeedsKeywords(ValueError):
    def __init__(self, *, code):
        self.code = code


class CountsItsInstances(Exception):
    made = 0

    def __init__(self):
        type(self).made += 1


class Slotted(ValueError):
    __slots__ = ("code",)

    def __init__(self, code):
        self.code = code


class OddNew(Exception):
    def __new__(cls, a, b):
        return super().__new__(cls, a)

    def __init__(self, a, b):
        self.b = b


class ArgsProperty(Exception):
    @property
    def args(self):
        return ("from the property",)


class HasOurNames(Exception):
    def __init__(self):
        super().__init__("text")
        self.pid = "theirs"
        self.function_name = "theirs"
        self.cause = "theirs"


class CauseProperty(Exception):
    @property
    def cause(self):
        raise AssertionError("read")


@dataclasses.dataclass(frozen=True)
class Frozen(Exception):
    code: int


@dataclasses.dataclass
class Mutable(Exception):
    code: int


class GetAttr(Exception):
    def __getattr__(self, name):
        if name == "made_up":
            return 42
        raise AttributeError(name)


class NoSetattr(Exception):
    def __setattr__(self, name, value):
        raise AttributeError(name)


class TwoBases(KeyError, AttributeError):
    pass


class Base(BaseException):
    pass


class StrRaises(Exception):
    def __str__(self):
        raise RuntimeError("no")


class Final(Exception):
    def __init_subclass__(cls, **kwargs):
        raise TypeError("Final is final")


def raised(exc):
    """Raise `exc`, and return it."""
    try:
        raise exc
    except BaseException as caught:  # whatever was raised comes back
        return caught


CAUSES = [
    KeyError("k"),
    ValueError("a", 1),
    OSError(2, "none", "file", None, "file2"),
    OSError("plain"),
    FileNotFoundError(2, "none", "file"),
    StopIteration(5),
    StopAsyncIteration(5),
    UnicodeDecodeError("utf8", b"ab", 0, 1, "bad"),
    UnicodeEncodeError("ascii", "é", 0, 1, "bad"),
    SyntaxError("bad", ("f", 1, 2, "text")),
    ImportError("none", name="n", path="p"),
    AttributeError("none", name="n", obj=5),
    MemoryError(),
    RecursionError("deep"),
    NeedsArguments(1, "r"),
    NeedsKeywords(code=5),
    CountsItsInstances(),
    Slotted(5),
    OddNew(1, 2),
    ArgsProperty("x"),
    HasOurNames(),
    CauseProperty("x"),
    Frozen(5),
    Mutable(5),
    GetAttr("x"),
    NoSetattr("x"),
    TwoBases("k"),
    Base("x"),
    StrRaises("x"),
    exceptions.ActorDiedError("gone"),
    exceptions.GetTimeoutError("late"),
    exceptions.TaskCancelledError("id"),
]
if sys.version_info >= (3, 11):
    CAUSES.append(ExceptionGroup("group", [ValueError(1), KeyError(2)]))

named = pytest.mark.parametrize("cause", CAUSES, ids=lambda e: type(e).__name__)


@named
def test_a_task_error_is_caught_as_itself_and_as_its_cause(cause):
    error = RayTaskError("f", "Traceback (most recent call last):\n  text\nX: y\n", raised(cause), pid=7)
    dual = error.as_instanceof_cause()
    for cls in (RayTaskError, type(cause)):
        with pytest.raises(cls) as caught:
            raise dual
        assert caught.value is dual
    assert type(dual).__name__ == type(dual).__qualname__ == f"RayTaskError({type(cause).__name__})"
    assert dual.cause is cause
    assert BaseException.args.__get__(dual) == (cause,)  # past a property of the cause's class
    assert str(dual) == str(error)
    assert "f() (pid=7, ip=127.0.0.1)" in str(dual)


@named
def test_the_attributes_of_the_cause_are_those_of_the_dual_instance(cause):
    dual = RayTaskError("f", "tb", cause).as_instanceof_cause()
    names = {*vars(cause), *getattr(type(cause), "__slots__", ())}
    names |= {"errno", "strerror", "filename", "filename2", "value", "reason", "start", "encoding", "object"}
    names |= {"msg", "lineno", "name", "path", "obj", "made_up", "code"}
    for name in names - {"cause", "__notes__"}:
        absent = object()
        assert getattr(dual, name, absent) == getattr(cause, name, absent) or not hasattr(cause, name)


@named
def test_the_dual_instance_survives_pickling(cause):
    error = RayTaskError("f", "tb", cause, pid=7, submit_site="a.py:1")
    for one in (error, error.as_instanceof_cause()):
        again = pickle.loads(pickle.dumps(one))
        assert type(again).__name__ == type(one).__name__
        assert str(again) == str(one)
        assert isinstance(again, RayTaskError)
        assert type(again.cause) is type(cause)
        assert again.cause.args == cause.args or isinstance(cause, BaseException)
        assert repr(again.cause) == repr(cause)


def test_no_constructor_runs_again():
    CountsItsInstances.made = 0
    error = RayTaskError("f", "tb", CountsItsInstances())
    pickle.loads(pickle.dumps(error.as_instanceof_cause()))
    assert CountsItsInstances.made == 1


def test_where_both_have_a_name_the_users_wins_except_for_cause():
    dual = RayTaskError("f", "tb", HasOurNames(), pid=7).as_instanceof_cause()
    assert dual.pid == dual.function_name == "theirs"
    assert isinstance(dual.cause, HasOurNames)
    assert "f() (pid=7" in str(dual)


def test_each_raise_has_an_instance_of_its_own_and_the_class_is_kept():
    error = RayTaskError("f", "tb", KeyError(1))
    first, second = error.as_instanceof_cause(), error.as_instanceof_cause()
    assert first is not second
    assert type(first) is type(second)


def test_a_class_made_for_a_local_class_does_not_live_for_ever():
    def make():
        class Local(Exception):
            pass

        RayTaskError("f", "tb", Local()).as_instanceof_cause()
        return weakref.ref(Local)

    reference = make()
    # The first collection frees the generated class, which referred to Local.
    gc.collect()
    gc.collect()
    assert reference() is None


@pytest.mark.parametrize("cause", [Exception("x"), RayError("x")], ids=repr)
def test_a_cause_that_says_nothing_more_needs_no_dual_class(cause):
    error = RayTaskError("f", "tb", cause)
    assert error.as_instanceof_cause() is error


class Leaves(SystemExit):
    pass


@pytest.mark.parametrize(
    "cause",
    [SystemExit(3), Leaves(), KeyboardInterrupt()],
    ids=repr,
)
def test_what_would_end_the_caller_stays_a_plain_task_error(cause):
    error = RayTaskError("f", "tb", cause)
    assert error.as_instanceof_cause() is error
    assert not isinstance(error, type(cause))
    assert error.cause is cause


@pytest.mark.parametrize("cause", [GeneratorExit("x"), asyncio.CancelledError("x")], ids=repr)
def test_what_ends_a_generator_or_a_coroutine_is_caught_as_both(cause):
    error = RayTaskError("f", "tb", cause).as_instanceof_cause()
    assert isinstance(error, type(cause))
    assert isinstance(error, RayTaskError)
    assert error.cause is cause


def test_a_final_class_arrives_as_a_plain_task_error_that_says_why():
    error = RayTaskError("f", "tb", Final("x"))
    assert error.as_instanceof_cause() is error
    assert "Final cannot be subclassed (TypeError: Final is final)" in str(error)
    assert "RayTaskError" in str(error)


@pytest.mark.skipif(sys.version_info < (3, 11), reason="exception groups came with Python 3.11")
class TestGroups:
    def test_a_group_can_be_split(self):
        cause = ExceptionGroup("group", [ValueError(1), KeyError(2)])
        dual = RayTaskError("f", "tb", cause).as_instanceof_cause()
        assert dual.message == "group"
        assert dual.exceptions == cause.exceptions
        values, rest = dual.split(ValueError)
        assert [type(e) for e in values.exceptions] == [ValueError]
        assert [type(e) for e in rest.exceptions] == [KeyError]

    def test_a_group_with_what_ends_the_process_stays_plain(self):
        cause = BaseExceptionGroup("group", [SystemExit(1), ValueError(1)])
        error = RayTaskError("f", "tb", cause)
        assert error.as_instanceof_cause() is error

    def test_notes_are_kept_and_those_of_the_dual_instance_are_its_own(self):
        cause = KeyError(1)
        cause.add_note("remote")
        dual = RayTaskError("f", "tb", cause).as_instanceof_cause()
        dual.add_note("local")
        assert dual.__notes__ == ["remote", "local"]
        assert cause.__notes__ == ["remote"]
        assert pickle.loads(pickle.dumps(dual)).__notes__ == ["remote", "local"]

    def test_notes_that_the_remote_traceback_ends_with_are_printed_once(self):
        cause = KeyError(1)
        cause.add_note("remote")
        text = "".join(traceback.format_exception(cause))
        dual = RayTaskError("f", text, cause).as_instanceof_cause()
        dual.add_note("local")
        for error in (dual, pickle.loads(pickle.dumps(dual))):
            lines = "".join(traceback.format_exception(error)).splitlines()
            assert [line for line in lines if line in ("remote", "local")] == ["remote", "local"]
        assert dual.cause.__notes__ == ["remote"]


def test_errors_can_be_kept_in_sets_even_when_their_class_forbids_it():
    dual = RayTaskError("f", "tb", Mutable(1)).as_instanceof_cause()
    assert dual in {dual}
