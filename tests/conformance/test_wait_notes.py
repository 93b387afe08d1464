"""Notes on stderr about a long wait: where it is, and why the value is not ready."""

from __future__ import annotations

from collections.abc import Callable
from textwrap import dedent
from typing import Any

import pytest

WAITS = """
    import os, sys, time
    import ray
    from waiting import Gate
    ray.init(num_cpus=2, START)

    @ray.remote
    def opens(path):
        Gate(path).wait()
        return path

    @ray.remote(num_cpus=2)
    def needs_two(value=None): return 1

    @ray.remote
    class Holder:
        def ready(self): return True

    class Watch:
        '''Stderr of this program; what is waited for continues once a note has come.'''
        def __init__(self, path): self.path, self.text = path, ""
        def write(self, text):
            self.text += text
            if "waiting for" in self.text and self.text.endswith("\\n"): open(self.path, "w").close()
            return sys.__stderr__.write(text)
        def flush(self): sys.__stderr__.flush()

    path = sys.argv[0] + ".gate"
    sys.stderr = Watch(path)
"""

NOTES = {
    "resources": (
        """
        held = opens.options(num_cpus=2).remote(path)
        ray.get([needs_two.remote()])
        """,
        ["no CPU: 2 requested, 0 of 2 free", "held by opens", "program.py"],
    ),
    "arguments": (
        """
        ray.get(needs_two.remote(opens.remote(path)))
        """,
        ["1 of its arguments is still computed", "opens: runs on worker"],
    ),
    "a task that runs": (
        """
        ray.get(opens.remote(path))
        """,
        ["runs on worker", "it was submitted at"],
    ),
    "a call behind another": (
        """
        @ray.remote
        class Slow:
            def first(self, path):
                Gate(path).wait()
            def second(self): return 1
        slow = Slow.remote()
        slow.first.remote(path)
        ray.get(slow.second.remote())
        """,
        ["actor Slow is busy with Slow.first", "1 call before this one"],
    ),
    "an actor that starts again": (
        """
        @ray.remote(max_restarts=1, max_task_retries=1)
        class Crashes:
            def __init__(self, path):
                if ray.get_runtime_context().was_current_actor_reconstructed:
                    Gate(path).wait()
            def crash(self):
                if not ray.get_runtime_context().was_current_actor_reconstructed: os._exit(1)
        crashes = Crashes.remote(path)
        ray.get(crashes.crash.remote())
        """,
        ["actor Crashes", "restarting"],
    ),
    "some of many": (
        """
        ray.wait([opens.remote(path), opens.remote(path)], num_returns=2)
        """,
        ["for 2 of 2 values, 2 are not available", "the first was submitted at"],
    ),
    "a stream": (
        """
        @ray.remote(num_returns="streaming")
        def stream(path):
            Gate(path).wait()
            yield 1
        next(stream.remote(path))
        """,
        ["runs on worker"],
    ),
    "with a timeout": (
        """
        ray.get(opens.remote(path), timeout=60)
        """,
        ["runs on worker"],
    ),
}


@pytest.mark.chosen_difference("Ray says nothing while it waits", id="D-messages")
@pytest.mark.parametrize("what", NOTES)
def test_a_wait_that_lasts_says_why(what: str, script: Callable[..., Any]) -> None:
    program, parts = NOTES[what]
    done = script(dedent(WAITS) + dedent(program), SKATE_WAIT_NOTE_SECONDS="0.6")
    assert done.returncode == 0, done.stderr
    for part in ("skate: waiting for 1 s", *parts):
        assert part in done.stderr, done.stderr


@pytest.mark.chosen_difference("Ray says nothing while it waits", id="D-messages")
def test_notes_can_be_turned_off(script: Callable[..., Any]) -> None:
    program = """
        @ray.remote
        def later():
            time.sleep(1.2)  # longer than any patience that could be meant
        ray.get(later.remote())
    """
    done = script(dedent(WAITS) + dedent(program), SKATE_WAIT_NOTE_SECONDS="0")
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.chosen_difference("Ray says nothing while it waits", id="D-messages")
def test_what_a_library_has_under_way_is_not_told_of(script: Callable[..., Any]) -> None:
    program = """
        import ray.data
        class Slow:
            def __init__(self):
                time.sleep(1.5)  # the work under test is slow: longer than the first note would take
            def __call__(self, batch):
                time.sleep(1.5)  # as slow
                return batch
        pool = ray.data.ActorPoolStrategy(size=1)
        assert ray.data.range(4).map_batches(Slow, compute=pool).materialize().count() == 4
    """
    done = script(dedent(WAITS) + dedent(program), SKATE_WAIT_NOTE_SECONDS="0.5")
    assert (done.returncode, done.stderr) == (0, "")
