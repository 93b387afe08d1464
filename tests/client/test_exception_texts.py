"""Task errors: their messages, and how they pass from task to task."""

import os
import threading
import traceback

from skate import exceptions
from skate.exceptions import RayTaskError
from tests.client.test_exceptions import HasOurNames, NeedsArguments, raised


def test_the_text_tells_where_it_ran_and_where_it_was_submitted():
    error = RayTaskError(
        "A.method",
        'Traceback (most recent call last):\n  File "a.py", line 3, in method\n    boom()\nKeyError: 1\n',
        KeyError(1),
        pid=7,
        ip="10.0.0.1",
        actor_repr="A(1)",
        actor_id="ab",
        submit_site="main.py:12",
    )
    assert str(error.as_instanceof_cause()).splitlines() == [
        "ray::A.method() (pid=7, ip=10.0.0.1, actor_id=ab, repr=A(1))",
        "  submitted at main.py:12",
        '  File "a.py", line 3, in method',
        "    boom()",
        "KeyError: 1",
    ]


def test_what_python_prints_of_an_uncaught_one():
    dual = RayTaskError(
        "f", "Traceback (most recent call last):\nKeyError: 1\n", KeyError(1)
    ).as_instanceof_cause()
    text = "".join(traceback.format_exception(raised(dual)))
    assert "skate.exceptions.RayTaskError(KeyError): ray::f() (pid=" in text
    assert text.endswith("KeyError: 1\n")


def test_defaults_are_of_this_process():
    error = RayTaskError("f", "tb", KeyError(1))
    assert error.pid == os.getpid()
    assert error.proctitle == "ray::f"
    assert (error.actor_repr, error.actor_id, error.submit_site) == (None, None, None)


def test_a_task_error_about_a_task_error_has_the_first_cause():
    inner = RayTaskError("inner", "tb", KeyError(1))
    for cause in (inner, inner.as_instanceof_cause()):
        outer = RayTaskError("outer", "tb", cause)
        assert outer.cause is inner.cause
        assert isinstance(outer.as_instanceof_cause(), KeyError)


def test_a_failed_input_fails_the_task_with_the_same_cause_and_says_so():
    upstream = RayTaskError(
        "first", "Traceback (most recent call last):\nKeyError: 1\n", HasOurNames(), pid=7
    )
    for one in (upstream, upstream.as_instanceof_cause()):
        error = RayTaskError.for_failed_input("second", one, submit_site="b.py:2")
        assert error.cause is upstream.cause
        assert error.pid == 7
        assert "of the input arguments for this task could not be computed:\n  ray::first() (pid=7" in str(
            error
        )
        assert "submitted at b.py:2" in str(error)


def test_a_failed_input_that_is_no_task_error():
    died = exceptions.ActorDiedError("gone")
    error = RayTaskError.for_failed_input("second", died).as_instanceof_cause()
    assert isinstance(error, exceptions.ActorDiedError)
    assert "ActorDiedError: gone" in str(error)


def test_duals_can_be_made_by_many_threads_at_once():
    error = RayTaskError("f", "tb", NeedsArguments(1, "r"))
    made = []
    threads = [threading.Thread(target=lambda: made.append(error.as_instanceof_cause())) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(timeout=30)
    assert len(made) == 8
    assert all(isinstance(one, NeedsArguments) for one in made)
