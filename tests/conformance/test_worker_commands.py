"""``py_executable`` of a runtime environment, and what workers print."""

from __future__ import annotations

import contextlib
import io
import os
import sys

import pytest
import ray
from waiting import wait_for


@ray.remote
def variable(name):
    return os.environ.get(name)


@pytest.mark.parametrize(
    "command",
    [sys.executable, f"{sys.executable} -X dev", f"env {sys.executable}", f"env ONE=1 {sys.executable}"],
)
def test_command_that_starts_python(cluster, command):
    env = {"py_executable": command}
    assert ray.get(variable.options(runtime_env=env).remote("ONE")) == ("1" if "ONE=1" in command else None)


def test_variables_of_a_command_stand_beside_those_of_the_environment(cluster):
    env = {"py_executable": f"env ONE=1 {sys.executable}", "env_vars": {"TWO": "2"}}
    task = variable.options(runtime_env=env)
    assert ray.get([task.remote("ONE"), task.remote("TWO")]) == ["1", "2"]


def test_actor_with_a_command(cluster):
    @ray.remote
    class Actor:
        def read(self, name):
            return os.environ.get(name)

    env = {"py_executable": f"env ONE=1 {sys.executable}"}
    assert ray.get(Actor.options(runtime_env=env).remote().read.remote("ONE")) == "1"


@pytest.mark.parametrize("quoted", [False, True])
def test_script_in_the_working_directory_starts_python(fresh, tmp_path, quoted):
    (tmp_path / "start.sh").write_text(
        f"export FROM_SCRIPT=yes\n{sys.executable} {chr(34) + '$@' + chr(34) if quoted else '$@'}\n"
    )
    (tmp_path / "beside.py").write_text("VALUE = 3\n")
    fresh(num_cpus=1, runtime_env={"working_dir": str(tmp_path), "py_executable": "bash ./start.sh"})

    @ray.remote
    def look():
        import beside

        return os.environ.get("FROM_SCRIPT"), beside.VALUE

    assert ray.get(look.remote()) == ("yes", 3)


# ---------------------------------------------------------------- output


@contextlib.contextmanager
def printing(start):
    """Capture the driver's output of its workers; not a fixture, because pytest replaces stdout after those."""
    taken = io.StringIO()
    with contextlib.redirect_stdout(taken):
        start(num_cpus=1, log_to_driver=True)
        yield taken.getvalue
        ray.shutdown()


def test_output_without_a_newline_reaches_the_driver(fresh, gate):
    release = gate("release")

    @ray.remote
    def parts():
        for i in range(3):
            print(f"part{i}", end=" ", flush=True)
        release.wait()

    with printing(fresh) as printed:
        ref = parts.remote()
        wait_for(lambda: "part2" in printed(), what="the beginning of a line")
        release.open()
        ray.get(ref)


def test_output_without_a_newline_at_the_end_of_a_task_reaches_the_driver(fresh):
    @ray.remote
    def parts():
        print("no newline", end="")

    with printing(fresh) as printed:
        ray.get(parts.remote())
        wait_for(lambda: "no newline" in printed(), what="the last words of a task")


def test_whole_lines_stay_whole(fresh):
    @ray.remote
    def lines():
        for i in range(50):
            print(f"line {i} ends")

    with printing(fresh) as printed:
        ray.get(lines.remote())
        wait_for(lambda: "line 49 ends\n" in printed(), what="the last line")
        assert all(f"line {i} ends\n" in printed() for i in range(50))
