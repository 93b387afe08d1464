"""Programs that once lost a CPU, a worker or the driver, and another user who connects to a node."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.attack.limits import as_another_user, run_under
from tests.process.programs import Program
from tests.process.standing import Node

PROGRAMS = {
    "generators with backpressure that are abandoned": """
    ray.init(num_cpus=2, num_gpus=0, log_to_driver=False)
    @ray.remote(_generator_backpressure_num_objects=4)
    def gen():
        for i in range(50): yield i
    @ray.remote
    def one(): return 1
    for _ in range(4):
        g = gen.remote()
        assert ray.get(next(g)) == 0 and ray.get(next(g)) == 1
        del g
    assert ray.get([one.remote() for _ in range(10)], timeout=30) == [1] * 10
    """,
    "exceptions and values that exit when they are read": """
    import sys
    class Leaves(Exception):
        def __reduce__(self): return (sys.exit, (3,))
    class Value:
        def __reduce__(self): return (sys.exit, (3,))
    ray.init(num_cpus=1, num_gpus=0, log_to_driver=False)
    @ray.remote(max_retries=0)
    def fails(kind): raise kind("a text")
    @ray.remote(max_retries=0)
    def gives(): return Value()
    @ray.remote
    class Actor:
        def fails(self): raise Leaves("a text")
        def one(self): return 1
    for make in (lambda: fails.remote(Leaves), gives.remote):
        try:
            ray.get(make(), timeout=30)
            raise AssertionError("no error")
        except ray.exceptions.WorkerCrashedError as error: raise AssertionError("a worker died") from error
        except (ray.exceptions.RayError, SystemExit): pass
    actor = Actor.remote()
    try: ray.get(actor.fails.remote(), timeout=30); raise AssertionError("no error")
    except ray.exceptions.ActorDiedError as error: raise AssertionError("the actor died") from error
    except ray.exceptions.RayError: pass
    assert ray.get(actor.one.remote(), timeout=30) == 1
    """,
    "files that nest deeply": """
    import tempfile
    ray.init(num_cpus=2, num_gpus=0, log_to_driver=False)
    ray.data.DataContext.get_current().enable_progress_bars = False
    with tempfile.TemporaryDirectory() as folder:
        for text in (b'{"a":' + b"[" * 100000 + b"]" * 100000 + b"}", b"[" * 100000, b'{"a":' * 50000):
            with open(folder + "/x.jsonl", "wb") as file: file.write(text)
            try: ray.data.read_json(folder).count(); raise AssertionError("it was read")
            except AssertionError: raise
            except Exception as error: assert "x.jsonl" in str(error), error
    """,
}


@pytest.mark.parametrize("what", PROGRAMS)
def test_program(what: str, tmp_path: Path) -> None:
    run_under(tmp_path, "\n".join(line.removeprefix("    ") for line in PROGRAMS[what].splitlines()))


ENTERS = """
import os, socket
path = os.environ["NODE_SOCKET"]
try:
    ray.init(address=path)
    raise AssertionError("it joined")
except AssertionError: raise
except Exception as error: print(error)
sock = socket.socket(socket.AF_UNIX)
sock.settimeout(30)
sock.connect(path)
try: sock.sendall(b"x" * 100)
except OSError: pass
answer = b""
try:
    while part := sock.recv(1 << 16): answer += part
except ConnectionError: pass
assert len(answer) < 1000, answer
sock.close()
"""


def test_another_user_is_not_let_in(node: Node, program: Callable[..., Program], tmp_path: Path) -> None:
    """The other user can enter the private folder with root's capabilities, so the node checks the user id."""
    node.start(cpus=1)
    output = run_under(tmp_path, ENTERS, *as_another_user(tmp_path), NODE_SOCKET=node.path)
    assert "belongs to user" in output, output
    assert node.status()["drivers"] == []
