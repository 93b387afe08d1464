"""The output of workers arrives at the driver: each line whole, in order, with the name of its worker."""

from __future__ import annotations

import os
import re
from collections.abc import Callable

from tests.process.programs import Program

LINE = re.compile(r"^\((?P<name>.+) pid=(?P<pid>\d+)\) (?P<text>.*)$")


def texts(lines: list[str], name: str | None = None) -> list[str]:
    matches = [LINE.match(line) for line in lines]
    return [m["text"] for m in matches if m is not None and name in (None, m["name"])]


def test_lines_carry_name_and_pid_and_go_to_the_same_stream(run: Callable[..., Program]) -> None:
    done = run(
        """
        import os, sys
        ray.init(START)
        @ray.remote
        def task():
            print("to stdout")
            print("to stderr", file=sys.stderr)
            return os.getpid()
        @ray.remote
        class Actor:
            def __init__(self):
                print("constructed")
            def call(self):
                print("called")
                return os.getpid()
        pid = ray.get(task.remote())
        actor = Actor.remote()
        other = ray.get(actor.call.remote())
        named = Actor.options(name="my name").remote()
        ray.get(named.call.remote())
        ray.shutdown()
        print("driver", pid, other)
        """
    )
    _, pid, other = done.lines[-1].split()
    assert f"(task pid={pid}) to stdout" in done.lines
    assert f"(task pid={pid}) to stderr" in done.err.splitlines()
    assert "to stderr" not in done.out and "to stdout" not in done.err
    assert [line for line in done.lines if line.startswith(f"(Actor pid={other})")] == [
        f"(Actor pid={other}) constructed",
        f"(Actor pid={other}) called",
    ]
    assert texts(done.lines, "my name") == ["constructed", "called"]


def test_a_hundred_thousand_lines_arrive_in_order(run: Callable[..., Program]) -> None:
    done = run(
        """
        ray.init(START)
        @ray.remote
        def flood(which):
            for n in range(50_000):
                print(which, n)
        ray.get([flood.remote("a"), flood.remote("b")])
        """
    )
    found = texts(done.lines, "flood")
    assert len(found) == 100_000
    for which in "ab":
        assert [text for text in found if text.startswith(which)] == [f"{which} {n}" for n in range(50_000)]


def test_everything_printed_before_the_end_arrives(run: Callable[..., Program]) -> None:
    done = run(
        """
        import os, subprocess, sys
        ray.init(START)
        @ray.remote
        def unfinished():
            print("no newline", end="")
        @ray.remote
        def from_c():
            os.write(1, b"raw line\\n")
            os.write(2, b"raw error\\n")
            os.write(1, b"raw unfinished")
        @ray.remote
        def from_a_child():
            subprocess.run(["sh", "-c", "echo child; echo child error >&2"], check=True)
        @ray.remote(max_retries=0)
        def dies():
            print("before the end")
            print("unfinished before the end", end="")
            sys.stdout.flush()
            os.kill(os.getpid(), 9)
        @ray.remote
        class Leaves:
            def go(self):
                print("last words")
                ray.actor.exit_actor()
        ray.get(from_c.remote())
        ray.get(from_a_child.remote())
        try: ray.get(dies.remote())
        except ray.exceptions.WorkerCrashedError: pass
        leaves = Leaves.remote()
        try: ray.get(leaves.go.remote())
        except ray.exceptions.RayActorError: pass
        ray.get(unfinished.remote())
        """
    )
    found = texts(done.lines)
    wanted = [
        "raw line",
        "raw unfinished",
        "child",
        "before the end",
        "unfinished before the end",
        "last words",
    ]
    for text in [*wanted, "no newline"]:
        assert any(text in each for each in found), (text, done.story())
    assert {"raw error", "child error"} <= set(texts(done.err.splitlines()))
    assert all(LINE.match(line) for line in done.lines), done.out


def test_unfinished_line_of_a_task_that_is_killed_with_the_driver_arrives(
    run: Callable[..., Program],
) -> None:
    done = run(
        """
        import os, sys, time
        ray.init(START)
        @ray.remote
        def waits(path):
            print("progress 50 %", end="", flush=True)
            open(path, "w").close()
            time.sleep(60)
        ref = waits.remote(sys.argv[0] + ".begun")
        while not os.path.exists(sys.argv[0] + ".begun"):
            time.sleep(0.002)
        """
    )
    assert "progress 50 %" in texts(done.lines)


def test_log_to_driver_false_is_silent(run: Callable[..., Program]) -> None:
    done = run(
        """
        import os, sys
        ray.init(START, log_to_driver=False)
        @ray.remote
        def noisy():
            for n in range(5000):
                print("noise", n)
                print("noise", n, file=sys.stderr)
            os.write(1, b"noise")
            return "quiet"
        print(ray.get(noisy.remote()))
        """
    )
    assert done.out == "quiet\n" and done.err == ""


def test_odd_lines(run: Callable[..., Program]) -> None:
    done = run(
        """
        import os, sys
        ray.init(START)
        @ray.remote
        def odd():
            print("x" * 3_000_000)
            os.write(1, b"\\xff\\xfe garbage \\x00 inside\\n")
            print("\\udcff lone surrogate, \\u00fcml\\u00e4ut, \\U0001f600")
            print("")
            print("windows\\r")
            print("bar 1\\rbar 2\\rbar 3")
            print("after")
        ray.get(odd.remote())
        """,
        PYTHONIOENCODING="utf-8",
    )
    with open(done.out_path, encoding="utf-8", errors="surrogateescape", newline="\n") as file:
        lines = file.read().split("\n")
    whole = "".join(m["text"] for line in lines if (m := LINE.match(line)) and set(m["text"]) == {"x"})
    assert len(whole) == 3_000_000
    found = [line.partition(") ")[2] for line in lines]
    assert any("garbage" in text and "inside" in text for text in found)
    assert any("lone surrogate, \u00fcml\u00e4ut, \U0001f600" in text for text in found)
    assert "windows" in found and "bar 1\rbar 2\rbar 3" in found and "after" in found
    assert any(line.startswith("(odd pid=") and line.endswith(") ") for line in lines)


def test_driver_whose_stdout_takes_ascii_only(run: Callable[..., Program]) -> None:
    done = run(
        """
        ray.init(START)
        @ray.remote
        def umlaut():
            print("before")
            print("\\u00fcml\\u00e4ut")
            print("after")
        ray.get(umlaut.remote())
        """,
        PYTHONIOENCODING="ascii:strict",
    )
    found = texts(done.lines, "umlaut")
    assert found[0] == "before" and found[-1] == "after" and "ml" in found[1] and len(found) == 3


CLOSED = {
    "closed": "sys.stdout.close()",
    "none": "sys.stdout = None",
    "descriptor": "os.close(1)",
    "raises": "sys.stdout = type('Bad', (), {'write': lambda self, text: 1 / 0, 'flush': lambda self: None})()",
}


def test_driver_without_stdout_goes_on(run: Callable[..., Program]) -> None:
    for how in CLOSED.values():
        done = run(
            f"""
            import os, sys
            ray.init(START)
            {how}
            # What is printed must not reach the connection of a worker that has taken the number of the output.
            @ray.remote(max_retries=0)
            def noisy(x):
                for n in range(2000):
                    print(n)
                print("on stderr", file=sys.stderr)
                return x
            assert ray.get([noisy.remote(i) for i in range(4)]) == [0, 1, 2, 3]
            ray.shutdown()
            os._exit(0)
            """
        )
        assert done.err.count("on stderr") == 4, (how, done.story())


def test_pipe_that_nobody_reads_blocks_no_task(program: Callable[..., Program]) -> None:
    read_end, write_end = os.pipe()
    started = program(
        """
        import os, sys
        ray.init(START)
        @ray.remote
        def noisy(x):
            for n in range(1000):
                print("line", n, "x" * 100)
            return x
        @ray.remote
        def quiet(x):
            return x
        # Five megabytes: far more than all the pipes hold together.
        assert ray.get([noisy.remote(i) for i in range(50)], timeout=30) == list(range(50))
        assert ray.get([quiet.remote(i) for i in range(100)], timeout=30) == list(range(100))
        sys.stderr.write("computed")
        sys.stderr.flush()
        ray.shutdown()
        os._exit(0)
        """,
        stdout=write_end,
    )
    os.close(write_end)
    try:
        assert started.end() == 0, started.story()
        assert "computed" in started.err
        started.gone()
    finally:
        os.close(read_end)


def test_stdout_that_is_replaced_gets_the_lines(run: Callable[..., Program]) -> None:
    """Replaces sys.stdout, like notebooks and pytest's capture."""
    run(
        """
        import contextlib, io
        ray.init(START)
        @ray.remote
        def speaks():
            print("captured")
        got = io.StringIO()
        with contextlib.redirect_stdout(got):
            ray.get(speaks.remote())
            ray.shutdown()
        assert got.getvalue().endswith(") captured\\n"), got.getvalue()
        """
    )


def test_an_actor_that_defines_its_text_shows_it(run: Callable[..., Program]) -> None:
    done = run(
        """
        ray.init(START)
        @ray.remote
        class Shard:
            def __init__(self, number):
                self.number = number
            def __repr__(self):
                return f"Shard({self.number})"
            def call(self):
                print("called")
        ray.get(Shard.remote(7).call.remote())
        ray.shutdown()
        """
    )
    assert texts(done.lines, "Shard(7)") == ["called"]
