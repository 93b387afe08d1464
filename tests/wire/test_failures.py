"""Exceptions on the wire: they always arrive, as completely as possible."""

import builtins
import dataclasses
import os
import pickle
import socket
import subprocess
import sys
import textwrap
import threading

import pytest
from hypothesis import given
from hypothesis import strategies as st

from skate.exceptions import ActorDiedError, RayTaskError
from skate.wire import failures
from skate.wire.failures import format_remote_traceback, pack_exception, unpack_exception

# None before Python 3.11.
ExceptionGroup = getattr(builtins, "ExceptionGroup", None)

SOURCE = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(failures.__file__))))


def trip(exc, tb=""):
    return unpack_exception(pack_exception(exc, tb))


def raised(exc, *, cause=None):
    try:
        if cause is not None:
            raise exc from cause
        raise exc
    except BaseException as caught:  # whatever was raised comes back
        return caught


class NeedsArguments(Exception):
    def __init__(self, code, reason):
        super().__init__(f"{code}: {reason}")
        self.code = code
        self.reason = reason


class ReducesItself(Exception):
    def __init__(self, code, *, extra):
        super().__init__(code)
        self.extra = extra

    def __reduce__(self):
        return _remake, (self.args[0], self.extra)


def _remake(code, extra):
    return ReducesItself(code, extra=extra + 1)


class ReducesBadly(ValueError):
    def __reduce__(self):
        raise RuntimeError("never")


class ReducesUnreadably(ValueError):
    def __reduce__(self):
        return int, ("no number",)


class Slotted(ValueError):
    __slots__ = ("code",)


@dataclasses.dataclass(frozen=True)
class Frozen(Exception):
    code: int


class Hostile(ValueError):
    def __str__(self):
        raise RuntimeError("no str")

    __repr__ = __str__


class Unreadable:
    """Pickles, but refuses to be made again."""

    def __reduce__(self):
        return int, ("no number",)

    def __repr__(self):
        return "<unreadable thing>"


class Plain(Exception):
    pass


# ---------------------------------------------------------------- what can travel


@pytest.mark.parametrize(
    "exc",
    [
        KeyError("k"),
        ValueError(),
        OSError(2, "none", "file"),
        OSError("plain"),
        UnicodeDecodeError("utf8", b"ab", 0, 1, "bad"),
        StopIteration(5),
        SystemExit(3),
        KeyboardInterrupt(),
        SyntaxError("bad", ("f", 1, 2, "text")),
        ImportError("none", name="n", path="p"),
        NeedsArguments(1, "r"),
        Frozen(5),
        ActorDiedError("gone"),
        Plain("x"),
    ],
    ids=lambda e: type(e).__name__,
)
def test_what_can_travel_arrives_as_it_was(exc):
    twin = trip(raised(exc))
    assert type(twin) is type(exc)
    assert (str(twin), repr(twin), twin.args) == (str(exc), repr(exc), exc.args)
    assert vars(twin) == vars(exc)
    for name in ("errno", "filename", "start", "value", "code", "lineno", "name", "path"):
        assert getattr(twin, name, None) == getattr(exc, name, None)


@given(
    args=st.lists(st.one_of(st.integers(), st.text(), st.binary(), st.none(), st.floats(allow_nan=False))),
    state=st.dictionaries(st.text("abc", min_size=1), st.one_of(st.integers(), st.lists(st.text()))),
)
def test_args_and_attributes_arrive(args, state):
    exc = Plain(*args)
    vars(exc).update(state)
    twin = trip(exc)
    assert twin.args == tuple(args)
    assert vars(twin) == state


def test_slots_arrive():
    exc = Slotted("x")
    exc.code = 5
    assert trip(exc).code == 5


def test_a_class_that_pickles_itself_is_asked():
    assert trip(ReducesItself(1, extra=1)).extra == 2


@pytest.mark.parametrize("cls", [ReducesBadly, ReducesUnreadably])
def test_a_class_that_pickles_itself_badly_travels_in_parts(cls):
    exc = cls("x", 5)
    exc.code = 7
    twin = trip(exc)
    assert type(twin) is cls
    assert (twin.args, twin.code) == (("x", 5), 7)


# ---------------------------------------------------------------- what cannot


def test_attributes_that_cannot_travel_are_replaced_and_the_rest_arrives():
    exc = NeedsArguments(1, "r")
    exc.lock = threading.Lock()
    exc.thing = Unreadable()
    twin = trip(exc)
    assert type(twin) is NeedsArguments
    assert (twin.code, twin.reason) == (1, "r")
    assert repr(twin.lock) == repr(exc.lock)
    assert "pickle" in twin.lock.reason
    assert repr(twin.thing) == "<unreadable thing>"
    # What arrived can travel on.
    assert repr(trip(twin).lock) == repr(exc.lock)


def test_an_argument_that_cannot_travel_is_replaced():
    with socket.socket() as held:
        twin = trip(ValueError("text", held, 5))
    assert (twin.args[0], twin.args[2]) == ("text", 5)
    assert "socket" in repr(twin.args[1])


def local_class(*bases):
    held = threading.Lock()

    class Local(*bases):
        code = 5

        def method(self):
            return held

    return Local


def test_a_class_that_cannot_travel_is_stood_in_for_by_one_of_its_name_and_nearest_base():
    exc = local_class(ValueError)("text", 5)
    twin = trip(exc)
    assert isinstance(twin, ValueError)
    assert type(twin).__name__ == "Local"
    assert type(twin).__qualname__ == type(exc).__qualname__
    assert type(twin).__module__ == __name__
    assert (str(twin), repr(twin), twin.args) == (str(exc), repr(exc), exc.args)
    with pytest.raises(ValueError, match="text"):
        raise twin


def test_a_stand_in_has_every_base_that_the_class_had():
    twin = trip(local_class(KeyError, AttributeError)("k"))
    assert isinstance(twin, KeyError)
    assert isinstance(twin, AttributeError)
    user = trip(local_class(NeedsArguments)(1, "r"))
    assert isinstance(user, NeedsArguments)


def test_a_stand_in_can_travel_on_and_be_pickled():
    exc = local_class(ValueError)("text", 5)
    for twin in (trip(trip(exc)), pickle.loads(pickle.dumps(trip(exc)))):
        assert type(twin).__name__ == "Local"
        assert isinstance(twin, ValueError)
        assert (str(twin), repr(twin), twin.args) == (str(exc), repr(exc), exc.args)


def test_a_class_unknown_where_it_arrives_is_stood_in_for(tmp_path):
    (tmp_path / "only_there.py").write_text(
        textwrap.dedent(
            """
            class Known(KeyError):
                pass
            class Failure(Known):
                def __init__(self, a, b):
                    super().__init__(a + b)
            class Value:
                pass
            """
        )
    )
    program = textwrap.dedent(
        """
        import sys, only_there
        from skate.wire.failures import pack_exception
        from skate.exceptions import RayTaskError
        exc = only_there.Failure(1, 2)
        exc.value = only_there.Value()
        partly = ValueError(only_there.Value(), 5)
        for one in (exc, RayTaskError("f", "tb", exc), partly):
            print(pack_exception(one, "tb").hex())
        """
    )
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([SOURCE, str(tmp_path)])}
    run = subprocess.run(
        [sys.executable, "-c", program],
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
        env=environment,
    )
    failure, task_error, partly = [unpack_exception(bytes.fromhex(line)) for line in run.stdout.split()]
    assert isinstance(failure, KeyError)
    assert type(failure).__name__ == "Failure"
    assert (str(failure), failure.args) == ("3", (3,))
    assert isinstance(task_error, RayTaskError)
    assert isinstance(task_error.as_instanceof_cause(), KeyError)
    assert type(task_error.as_instanceof_cause()).__name__ == "RayTaskError(Failure)"
    assert type(partly) is ValueError
    assert partly.args[1] == 5
    assert "only_there" in partly.args[0].reason


def test_an_exception_that_cannot_even_be_printed_arrives():
    twin = trip(Hostile("x"), "traceback")
    assert type(twin) is Hostile
    unknown = trip(local_class(Hostile)("x"))
    assert isinstance(unknown, Hostile)
    assert "raised RuntimeError" in str(unknown)


def test_an_exception_that_fights_back_arrives_by_name():
    class Fights(ValueError):
        def __getattribute__(self, name):
            raise RuntimeError("no")

    twin = trip(Fights("x"))
    assert isinstance(twin, ValueError)
    assert type(twin).__name__ == "Fights"


def test_text_is_not_sent_without_limit():
    packed = pack_exception(local_class(ValueError)("x" * 5_000_000))
    assert len(packed) < 20_000_000
    assert "characters more" in str(unpack_exception(packed))


# ---------------------------------------------------------------- chains, notes, groups


def test_causes_and_contexts_arrive():
    twin = trip(raised(KeyError("outer"), cause=raised(NeedsArguments(1, "r"), cause=OSError(2, "none"))))
    assert type(twin.__cause__) is NeedsArguments
    assert twin.__cause__.code == 1
    assert twin.__cause__.__cause__.errno == 2
    assert twin.__suppress_context__ is True
    try:
        try:
            raise ValueError("inner")
        except ValueError:
            raise KeyError("outer")  # noqa: B904
    except KeyError as caught:
        twin = trip(caught)
    assert str(twin.__context__) == "inner"
    assert twin.__cause__ is None
    assert twin.__suppress_context__ is False


def test_from_none_stays_from_none():
    try:
        try:
            raise ValueError("inner")
        except ValueError:
            raise KeyError("outer") from None
    except KeyError as caught:
        twin = trip(caught)
    assert twin.__cause__ is None
    assert twin.__suppress_context__ is True


def test_a_long_chain_is_cut_and_stays_small():
    exc = ValueError(0)
    for i in range(1, 400):
        exc = raised(ValueError(i), cause=exc)
    packed = pack_exception(exc)
    assert len(packed) < 200_000
    twin = unpack_exception(packed)
    length = 0
    while twin is not None:
        length += 1
        twin = twin.__cause__
    assert 10 <= length <= 20


def test_a_cause_that_is_the_context_as_well_arrives_once():
    # Twice would be 2 to the power of the length of the chain.
    try:
        try:
            raise ValueError("inner")
        except ValueError as inner:
            raise KeyError("outer") from inner
    except KeyError as caught:
        twin = trip(caught)
    assert type(twin.__cause__) is ValueError
    assert twin.__context__ is twin.__cause__


def test_what_an_attribute_error_was_raised_on_stays_behind():
    class Large:
        def __init__(self):
            self.content = bytes(10_000_000)

    with pytest.raises(AttributeError) as caught:
        Large().missing  # noqa: B018
    packed = pack_exception(caught.value)
    assert len(packed) < 10_000
    assert unpack_exception(packed).args == caught.value.args


def test_a_circle_of_causes_ends():
    first, second = ValueError(1), ValueError(2)
    first.__cause__, second.__cause__ = second, first
    twin = trip(first)
    assert (twin.args, twin.__cause__.args, twin.__cause__.__cause__) == ((1,), (2,), None)


def test_the_remote_traceback_is_the_cause_where_there_is_no_other():
    twin = trip(KeyError(1), "the text")
    assert "the text" in str(twin.__cause__)
    assert trip(KeyError(1)).__cause__ is None
    assert type(trip(raised(KeyError(1), cause=ValueError(2)), "the text").__cause__) is ValueError


@pytest.mark.skipif(sys.version_info < (3, 11), reason="notes and groups came with Python 3.11")
class TestNotesAndGroups:
    def test_notes_arrive_also_on_stand_ins(self):
        for exc in (KeyError(1), local_class(ValueError)("x")):
            exc.add_note("a note")
            assert trip(exc).__notes__ == ["a note"]

    def test_groups_arrive_with_their_members(self):
        local = local_class(ValueError)("local")
        group = ExceptionGroup("group", [NeedsArguments(1, "r"), ExceptionGroup("inner", [local])])
        twin = trip(group)
        assert type(twin) is ExceptionGroup
        assert twin.message == "group"
        assert twin.exceptions[0].code == 1
        assert type(twin.exceptions[1].exceptions[0]).__name__ == "Local"
        only, rest = twin.split(NeedsArguments)
        assert len(only.exceptions) == len(rest.exceptions) == 1

    def test_a_group_that_cannot_travel_is_stood_in_for(self):
        twin = trip(local_class(ExceptionGroup)("group", [ValueError(1)]))
        assert str(twin) == "group (1 sub-exception)"

    def test_the_text_of_a_group_names_its_members(self):
        text = format_remote_traceback(raised(ExceptionGroup("group", [ValueError(1), KeyError(2)])))
        assert "ValueError: 1" in text
        assert "KeyError: 2" in text


# ---------------------------------------------------------------- task errors


@pytest.mark.parametrize("cause", [KeyError(1), NeedsArguments(1, "r"), local_class(KeyError)("k")], ids=repr)
def test_task_errors_arrive_with_their_cause(cause):
    cause.lock = threading.Lock()
    error = RayTaskError("f", "tb", cause, pid=7, actor_id="ab", submit_site="a.py:1")
    for one in (error, error.as_instanceof_cause()):
        twin = trip(one)
        assert type(twin).__name__ == type(one).__name__
        assert str(twin) == str(one)
        assert (twin.pid, twin.actor_id, twin.submit_site) == (7, "ab", "a.py:1")
        assert type(twin.cause).__name__ == type(cause).__name__
        assert repr(twin.cause) == repr(cause)
        assert twin.args[2 if one is error else 0] is twin.cause


def test_the_cause_of_a_task_error_keeps_its_own_cause():
    twin = trip(RayTaskError("f", "tb", raised(KeyError(1), cause=OSError(2, "none"))))
    assert twin.cause.__cause__.errno == 2


# ---------------------------------------------------------------- text


def user_function():
    raise KeyError("here")


class CallsUserCode:
    def __reduce__(self):
        user_function()


def test_the_text_shows_user_frames_only():
    # This test, then a frame of Skate's, then user code again.
    with pytest.raises(KeyError) as caught:
        failures._dumps(CallsUserCode())
    text = format_remote_traceback(caught.value)
    assert "in test_the_text_shows_user_frames_only" in text
    assert "in user_function" in text
    assert text.endswith("KeyError: 'here'\n")
    assert failures.__file__ not in text


def test_the_text_shows_skates_frames_when_there_are_no_others():
    with pytest.raises(KeyError) as caught:
        failures._stand_in({})
    only_ours = caught.value.with_traceback(caught.value.__traceback__.tb_next)
    assert failures.__file__ in format_remote_traceback(only_ours)


def test_the_text_has_the_whole_chain():
    text = format_remote_traceback(raised(KeyError("outer"), cause=raised(ValueError("inner"))))
    assert text.index("ValueError: inner") < text.index("direct cause") < text.index("KeyError: 'outer'")


def test_the_text_of_what_cannot_be_printed():
    assert "Hostile" in format_remote_traceback(raised(Hostile("x")))


def test_the_text_of_a_circle_ends():
    first, second = ValueError(1), ValueError(2)
    first.__cause__, second.__cause__ = second, first
    assert "ValueError: 2" in format_remote_traceback(first)
