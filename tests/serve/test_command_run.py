"""`serve run` as a separate process, with and without --reload."""

from __future__ import annotations

import os
import signal
import socket
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("yaml")
pytest.importorskip("uvicorn")

from tests.conformance.waiting import wait_for
from tests.process.programs import Program
from tests.serve.standing import free_port, get

PROGRAM = """
from skate import serve
import words

@serve.deployment(ray_actor_options={"num_cpus": 0})
class Says:
    def __init__(self, word):
        self.word = word

    def __call__(self, request):
        return self.word + words.TEXT

def build(args):
    return Says.bind(args.get("word", ""))

app = build({"word": "plain "})
"""


@pytest.fixture
def run(tmp_path: Path) -> Iterator[Callable[..., Program]]:
    """Start `serve run ...` in a folder with a program; it ends with the test."""
    started: list[Program] = []
    (tmp_path / "program.py").write_text(PROGRAM)
    (tmp_path / "words.py").write_text("TEXT = 'one'\n")

    def start(*words: str, **more: Any) -> Program:
        more.setdefault("SKATE_TMPDIR", str(tmp_path / "no-node"))
        started.append(Program("", tmp_path, command=("-m", "skate", "serve", "run", *words), **more))
        return started[-1]

    yield start
    for each in started:
        each.kill()


def refused(program: Program) -> str:
    """Return the error of a program, which must exit with 1 and leave nothing behind."""
    assert program.end() == 1, program.story()
    program.gone()
    assert program.err.startswith("serve run: "), program.story()
    return program.err


def test_until_control_c(run: Callable[..., Program]) -> None:
    port = free_port()
    program = run("program:build", "word=said ", "--port", str(port), "--route-prefix", "/x")
    program.wait_for_output(f"Serve runs at http://127.0.0.1:{port}/; Ctrl-C ends it")
    assert get(port, "/x") == (200, "said one") and get(port)[0] == 404
    os.kill(program.process.pid, signal.SIGINT)
    assert program.end() == 0, program.story()
    program.gone()
    assert get(port) == (0, "") and not program.err, program.story()


def test_control_c_while_it_deploys(run: Callable[..., Program], tmp_path: Path) -> None:
    text = PROGRAM.replace("self.word = word", "open('begun', 'w').close(); threading.Event().wait()")
    (tmp_path / "program.py").write_text("import threading\n" + text)
    program = run("program:app", "--port", str(free_port()))
    wait_for(lambda: (tmp_path / "begun").exists(), 30, "the constructor")
    os.kill(program.process.pid, signal.SIGINT)
    assert program.end() == 0, program.story()
    program.gone()


def test_a_port_that_is_taken(run: Callable[..., Program]) -> None:
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        port = other.getsockname()[1]
        output = refused(run("program:app", "--port", str(port)))
    assert f"Serve cannot listen on 127.0.0.1:{port}" in output and "Traceback" not in output


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        (["nowhere:app"], "there is no module 'nowhere'"),
        (["program:ap"], "module 'program' has no attribute 'ap'; applications there: app"),
        (["program:Says"], "call .bind(...) on it"),
        (["program:build", "word"], "must have the form key=value"),
        (["program:app", "--non-blocking"], "requires a node that continues to run"),
        (["two.yaml"], "two.yaml, line 3: applications[1].route_prefix: Found duplicate applications"),
    ],
)
def test_what_cannot_be_run(
    run: Callable[..., Program], tmp_path: Path, words: list[str], complaint: str
) -> None:
    (tmp_path / "two.yaml").write_text(
        "applications:\n- {name: a, import_path: 'program:app'}\n- {name: b, import_path: 'program:app'}\n"
    )
    output = refused(run(*words))
    assert complaint in output and "Traceback" not in output, output


def test_a_constructor_that_raises(run: Callable[..., Program], tmp_path: Path) -> None:
    (tmp_path / "words.py").write_text("import nothing_of_that_name\n")
    output = refused(run("program:app"))
    assert "No module named 'nothing_of_that_name'" in output and "words.py, line 1" in output
    (tmp_path / "words.py").write_text("TEXT = 'one'\n")
    text = PROGRAM.replace("self.word = word", "raise OSError('no weights in ' + word)")
    (tmp_path / "program.py").write_text(text)
    assert "no weights in plain" in refused(run("program:app", "--port", str(free_port())))


@pytest.mark.parametrize("target", ["program:app", "config.yaml"])
def test_reload(run: Callable[..., Program], tmp_path: Path, target: str) -> None:
    port = free_port()
    (tmp_path / "config.yaml").write_text(
        f"http_options: {{host: 127.0.0.1, port: {port}}}\napplications:\n- import_path: program:app\n"
    )
    words = ["--port", str(port)] if target == "program:app" else []
    program = run(target, "--reload", *words)
    program.wait_for_output("Watching .* for changes")
    assert get(port) == (200, "plain one")
    (tmp_path / "words.py").write_text("TEXT = 'two'\n")
    wait_for(lambda: get(port) == (200, "plain two"), 30, f"the changed module; {program.story()}")
    (tmp_path / "program.py").write_text("this is no Python\n" + PROGRAM)
    wait_for(lambda: "SyntaxError" in program.err, 30, f"the error of the broken version; {program.story()}")
    wait_for(
        lambda: "The previous version is still served" in program.err, 30, "the end of what is told of it"
    )
    assert get(port) == (200, "plain two"), "the version before the mistake is served on"
    (tmp_path / "program.py").write_text(PROGRAM.replace('"plain "', '"mended "'))
    wait_for(lambda: get(port) == (200, "mended two"), 30, f"the mended version; {program.story()}")
    os.kill(program.process.pid, signal.SIGINT)
    assert program.end() == 0, program.story()
    program.gone()
