"""The ``skate`` command: a program run by it behaves as under ``python``, with ``ray`` meaning Skate."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap
import zipfile
from pathlib import Path

import pytest

import skate
from skate.command import main

SOURCE = str(Path(skate.__file__).parents[1])


def call(*words: str, cwd: Path, python: bool = False) -> subprocess.CompletedProcess[str]:
    """Run ``python -m skate words`` (or plain ``python words``) in a process of its own."""
    interpreter = [sys.executable] if python else [sys.executable, "-m", "skate"]
    return subprocess.run(
        [*interpreter, *words],
        cwd=cwd,
        capture_output=True,
        text=True,
        timeout=60,
        env={**os.environ, "PYTHONPATH": SOURCE, "PYTHONDONTWRITEBYTECODE": "1"},
        check=False,
    )


def write(folder: Path, name: str, code: str) -> Path:
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(textwrap.dedent(code))
    return path


# Ends in different ways; each has to look the same from outside under both.
ENDINGS = {
    "falls off the end": "print('done')",
    "exits with a number": "import sys; sys.exit(7)",
    "exits with a text": "import sys; sys.exit('no good')",
    "raises": "def deep():\n    raise ValueError('deep down')\n\ndeep()\n",
    "raises from another error": "try:\n    1 / 0\nexcept Exception as e:\n    raise KeyError() from e\n",
    "does not compile": "def x(:\n    pass\n",
    "raises a group of its own class": "class Odd(Exception):\n    pass\n\nraise Odd(Odd(1))\n",
    "has its own excepthook": "import sys\nsys.excepthook = lambda *a: print('mine', a[0].__name__)\n1 / 0\n",
    "runs atexit functions": "import atexit\natexit.register(print, 'last words')\nraise SystemExit(3)\n",
    "leaves a thread": "import threading as t\nt.Thread(target=lambda: print(__name__, 'thread')).start()\n",
    "is interrupted": "import os, signal\nos.kill(os.getpid(), signal.SIGINT)\nfor _ in range(10**9): pass\n",
}


@pytest.mark.parametrize("ending", ENDINGS)
def test_output_traceback_and_status_are_those_of_python(ending: str, tmp_path: Path) -> None:
    write(tmp_path, "program.py", ENDINGS[ending])
    expected = call("program.py", cwd=tmp_path, python=True)
    got = call("run", "program.py", cwd=tmp_path)
    assert (got.returncode, got.stdout, got.stderr) == (expected.returncode, expected.stdout, expected.stderr)


def test_an_interrupted_program_dies_by_the_signal(tmp_path: Path) -> None:
    write(tmp_path, "program.py", ENDINGS["is interrupted"])
    assert call("run", "program.py", cwd=tmp_path).returncode == -signal.SIGINT


SELF_PORTRAIT = """
    import sys
    print(sys.argv, sys.path[0], __name__, __file__, __spec__, __package__, type(__loader__).__name__)
    print(sorted(globals()), sys.modules["__main__"].__dict__ is globals())
    def annotated(x: int): ...
    print(annotated.__annotations__)
    """


@pytest.mark.parametrize("path", ["program.py", "below/program.py", "./below/program.py"])
def test_the_program_sees_itself_as_under_python(path: str, tmp_path: Path) -> None:
    write(tmp_path, path, SELF_PORTRAIT)
    words = [path, "--flag", "-x", "--", "--help", "a b"]
    assert call("run", *words, cwd=tmp_path).stdout == call(*words, cwd=tmp_path, python=True).stdout != ""


def test_a_linked_script_imports_from_where_it_really_lies(tmp_path: Path) -> None:
    write(tmp_path, "real/program.py", "import neighbour; print(neighbour.here)")
    write(tmp_path, "real/neighbour.py", "here = 'beside the real file'")
    (tmp_path / "link.py").symlink_to(tmp_path / "real" / "program.py")
    assert call("run", "link.py", cwd=tmp_path).stdout.strip() == "beside the real file"


def test_a_module_is_run_as_under_python(tmp_path: Path) -> None:
    write(tmp_path, "package/__init__.py", "")
    write(tmp_path, "package/__main__.py", "import sys; print('main of', __package__, sys.argv, sys.path[0])")
    write(tmp_path, "package/tool.py", "import sys; print(__name__, __package__, sys.argv[1:]); sys.exit(4)")
    for words in (["-m", "package", "-q"], ["-m", "package.tool", "--help"], ["-m", "package.missing"]):
        expected, got = call(*words, cwd=tmp_path, python=True), call("run", *words, cwd=tmp_path)
        assert (got.returncode, got.stdout, got.stderr) == (
            expected.returncode,
            expected.stdout,
            expected.stderr,
        )


def test_a_folder_and_a_zip_file_run_their_main(tmp_path: Path) -> None:
    main_file = write(tmp_path, "app/__main__.py", "import sys; print('main', sys.argv, sys.path[0])")
    with zipfile.ZipFile(tmp_path / "app.zip", "w") as archive:
        archive.write(main_file, "__main__.py")
    for path in ("app", "app.zip"):
        assert (
            call("run", path, "x", cwd=tmp_path).stdout
            == call(path, "x", cwd=tmp_path, python=True).stdout
            != ""
        )


def test_ray_means_skate_in_the_program(tmp_path: Path) -> None:
    write(tmp_path, "program.py", "import ray, skate, ray.util; print(ray is skate, ray.util is skate.util)")
    assert call("run", "program.py", cwd=tmp_path).stdout.split() == ["True", "True"]


def test_ray_means_skate_in_a_module_too(tmp_path: Path) -> None:
    write(tmp_path, "program.py", "import ray, skate; print(ray is skate)")
    assert call("run", "-m", "program", cwd=tmp_path).stdout.strip() == "True"


def test_the_verb_may_be_left_out_before_a_script(tmp_path: Path) -> None:
    write(tmp_path, "program.py", "import ray, sys; print(ray.__name__, sys.argv[1:])")
    assert call("program.py", "a", cwd=tmp_path).stdout.strip() == "skate ['a']"
    assert call("-m", "program", "a", cwd=tmp_path).stdout.strip() == "skate ['a']"


def test_a_script_that_is_not_there_is_named_and_ends_as_under_python(tmp_path: Path) -> None:
    got = call("run", "nowhere.py", cwd=tmp_path)
    assert got.returncode == call("nowhere.py", cwd=tmp_path, python=True).returncode == 2
    assert f"cannot open '{tmp_path / 'nowhere.py'}': No such file or directory" in got.stderr


TASKS = """
    import ray

    @ray.remote
    def who():
        import ray
        return ray.__name__

    @ray.remote
    class Counter:
        def __init__(self):
            self.count = 0
        def add(self, amount=1):
            self.count += amount
            return self.count

    if __name__ == "__main__":
        ray.init(num_cpus=2)
        counter = Counter.remote()
        print(ray.get([who.remote() for _ in range(3)]), ray.get([counter.add.remote() for _ in range(3)]))
        ray.shutdown()
    """


def test_an_unchanged_ray_program_computes_with_tasks_and_actors(tmp_path: Path) -> None:
    write(tmp_path, "program.py", TASKS)
    got = call("run", "program.py", cwd=tmp_path)
    assert got.stdout.strip() == "['skate', 'skate', 'skate'] [1, 2, 3]", got.stderr
    assert (got.returncode, got.stderr) == (0, "")


def test_the_version_is_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--version"]) == 0
    first, *rest = capsys.readouterr().out.splitlines()
    assert first.startswith("skate ")
    assert "API of Ray 2.60" in first
    assert not rest


@pytest.mark.parametrize("words", [["--help"], ["-h"], ["help"]])
def test_help_names_every_verb(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(words) == 0
    out = capsys.readouterr().out
    assert "run " in out
    assert "version " in out


def test_run_explains_itself(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["run", "--help"]) == 0
    assert "usage: skate run script.py" in capsys.readouterr().out


@pytest.mark.parametrize(
    "words", [[], ["run"], ["run", "--fast", "x.py"], ["run", "-m"], ["rum", "x.py"], ["--fast"]]
)
def test_a_command_line_that_makes_no_sense_shows_the_usage(
    words: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(words) == 2
    shown = capsys.readouterr()
    assert "usage: skate" in shown.out + shown.err


def test_the_misspelt_verb_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    main(["rum"])
    assert "no verb or script named 'rum'" in capsys.readouterr().err


@pytest.mark.parametrize(
    "words",
    [["--help"], ["version"], ["list", "--help"], ["run", "--help"], ["serve", "--help"], ["tune", "--help"]],
    ids=" ".join,
)
def test_a_reader_that_goes_away_is_no_error(words: list[str], tmp_path: Path) -> None:
    """As in `skate list tasks | head -1`: the pipe is closed before anything is written."""
    reading, writing = os.pipe()
    os.close(reading)
    with os.fdopen(writing, "wb") as closed:
        ended = subprocess.run(
            [sys.executable, "-m", "skate", *words],
            cwd=tmp_path,
            stdout=closed,
            stderr=subprocess.PIPE,
            text=True,
            timeout=60,
            env={**os.environ, "PYTHONPATH": SOURCE},
        )
    # argparse itself passes over a help text that nobody reads.
    assert ended.returncode in (
        (0, 128 + signal.SIGPIPE) if "--help" in words[1:] else (128 + signal.SIGPIPE,)
    )
    assert ended.stderr == ""


def test_a_program_meets_the_closed_pipe_itself(tmp_path: Path) -> None:
    write(tmp_path, "program.py", "print('line', flush=True)")
    results = []
    for words in (["-m", "skate", "run", "program.py"], ["program.py"]):
        reading, writing = os.pipe()
        os.close(reading)
        with os.fdopen(writing, "wb") as closed:
            ended = subprocess.run(
                [sys.executable, *words],
                cwd=tmp_path,
                stdout=closed,
                stderr=subprocess.PIPE,
                text=True,
                timeout=60,
                env={**os.environ, "PYTHONPATH": SOURCE},
            )
        results.append((ended.returncode, ended.stderr))
    assert results[0] == results[1]
    assert "BrokenPipeError" in results[0][1]
