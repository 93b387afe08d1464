"""The ways to start a program, and the parts of it that workers can see."""

from __future__ import annotations

import textwrap
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.process.programs import Program, prepared

DEFINITIONS = """
    import dataclasses, enum, sys
    from typing import NamedTuple

    class Colour(enum.Enum):
        RED = 1
        BLUE = 2

    @dataclasses.dataclass(frozen=True)
    class Point:
        x: int
        y: int = 0
        def norm(self):
            return abs(self.x) + abs(self.y)

    class Pair(NamedTuple):
        left: int
        right: int

    class Slotted:
        __slots__ = ("value",)
        def __init__(self, value):
            self.value = value

    class Error(Exception):
        def __init__(self, code, text):
            super().__init__(code, text)
            self.code = code

    LIMIT = 10

    def helper(x):
        return x + LIMIT

    @ray.remote
    def work(point, colour, pair, slotted, function=helper):
        assert isinstance(point, Point) and colour is Colour.RED and pair.right == 2
        return Point(function(point.norm()), slotted.value), Colour.BLUE, Pair(*pair)

    @ray.remote
    def fail():
        raise Error(7, "seven")

    @ray.remote
    class Actor:
        def echo(self, value):
            return value

    def main():
        ray.init(START)
        point, colour, pair = ray.get(work.remote(Point(1, -2), Colour.RED, Pair(1, 2), Slotted(5)))
        assert point == Point(13, 5) and type(point) is Point, point
        assert colour is Colour.BLUE and pair == Pair(1, 2)
        try:
            ray.get(fail.remote())
        except Error as error:
            assert error.code == 7
        else:
            raise AssertionError
        actor = Actor.remote()
        assert ray.get(actor.echo.remote(Colour.RED)) is Colour.RED
        assert ray.get(actor.echo.remote(Point(1))) == Point(1)
        assert ray.get(work.remote(Point(0), Colour.RED, Pair(1, 2), Slotted(1), lambda x: x * 100))[0].x == 0
        print("done", flush=True)
"""


def test_by_path_from_another_directory(run: Callable[..., Program], tmp_path: Path) -> None:
    """Workers find a module next to the script, regardless of the program's working directory."""
    folder = tmp_path / "program"
    folder.mkdir()
    (folder / "beside.py").write_text("def triple(x):\n    return 3 * x\n")
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    done = run(
        DEFINITIONS
        + """
    import beside, os
    main()

    @ray.remote
    def uses(x):
        import beside as again
        return again.triple(beside.triple(x)), os.getcwd()
    assert ray.get(uses.remote(1)) == (9, os.getcwd()), ray.get(uses.remote(1))
    assert ray.get(ray.remote(beside.triple).remote(2)) == 6
    """,
        folder=folder,
        directory=elsewhere,
    )
    assert "done" in done.out


@pytest.mark.parametrize("relative", [False, True])
def test_as_a_module_of_a_package(relative: bool, run: Callable[..., Program], tmp_path: Path) -> None:
    package = tmp_path / "package"
    package.mkdir()
    (package / "__init__.py").write_text("")
    (package / "inner.py").write_text(
        "import skate as ray\n\ndef triple(x):\n    return 3 * x\n\n@ray.remote\ndef task(x):\n    return triple(x)\n"
    )
    imports = "from .inner import task, triple" if relative else "from package.inner import task, triple"
    text = prepared(DEFINITIONS) + textwrap.dedent(
        f"""
        {imports}

        @ray.remote
        def here(x):
            return triple(x) + 1

        if __name__ == "__main__":
            main()
            assert ray.get([task.remote(1), here.remote(1)]) == [3, 4]
        """
    )
    (package / "__main__.py").write_text(text)
    (package / "program.py").write_text(text)
    for name in ("package", "package.program"):
        done = run(folder=tmp_path, command=("-m", name))
        assert "done" in done.out


def test_given_on_the_command_line(run: Callable[..., Program], tmp_path: Path) -> None:
    text = prepared(DEFINITIONS + "\n    main()\n")
    assert "done" in run(folder=tmp_path, command=("-c", text)).out


def test_read_from_stdin(program: Callable[..., Program], tmp_path: Path) -> None:
    started = program(folder=tmp_path, command=("-",))
    started.write_line(prepared(DEFINITIONS + "\n    main()\n"))
    assert started.end() == 0, started.story()
    assert "done" in started.out


def test_typed_into_the_interactive_interpreter(program: Callable[..., Program], tmp_path: Path) -> None:
    started = program(folder=tmp_path, command=("-i", "-q"))
    for line in (
        "import skate as ray",
        "context = ray.init(num_cpus=2, num_gpus=0, object_store_memory=2**28)",
        "@ray.remote\ndef double(x):\n    return 2 * x\n",
        "print('first', ray.get(double.remote(4)))",
        "@ray.remote\ndef double(x):\n    return 20 * x\n",
        "print('second', ray.get(double.remote(4)))",
        "@ray.remote\nclass Counter:\n    n = 0\n    def add(self):\n        self.n += 1\n        return self.n\n",
        "counter = Counter.remote()",
        "print('third', ray.get([counter.add.remote(), counter.add.remote()]))",
    ):
        started.write_line(line)
    assert started.end() == 0, started.story()
    started.gone()
    assert "first 8" in started.out and "second 80" in started.out and "third [1, 2]" in started.out


def test_cells_of_a_notebook(run: Callable[..., Program]) -> None:
    """Like a notebook, run cells by exec in a __main__ without a file, with redefinitions."""
    done = run(
        """
        import sys, types
        module = types.ModuleType("__main__")
        sys.modules["__main__"] = module
        cells = [
            "import skate as ray\\nray.init(START)",
            "factor = 2\\ndef helper(x):\\n    return factor * x\\n@ray.remote\\ndef f(x):\\n    return helper(x)",
            "first = ray.get(f.remote(3))",
            "factor = 5\\n@ray.remote\\ndef f(x):\\n    return helper(x)",
            "second = ray.get(f.remote(3))",
            "class A:\\n    def __init__(self, v): self.v = v\\n    def __eq__(self, o): return type(o) is A and o.v == self.v",
            "@ray.remote\\ndef g(a):\\n    return A(a.v + 1)",
            "third = ray.get(g.remote(A(1))) == A(2)",
            "class A(A):\\n    def twice(self): return 2 * self.v\\n@ray.remote\\ndef h(a):\\n    return a.twice()",
            "fourth = ray.get(h.remote(A(4)))",
            "ray.shutdown()",
        ]
        for number, cell in enumerate(cells):
            exec(compile(cell, f"<cell {number}>", "exec"), module.__dict__)
        print(module.first, module.second, module.third, module.fourth)
        """
    )
    assert done.lines == ["6 15 True 8"]


def test_module_that_is_edited_and_reloaded(run: Callable[..., Program], tmp_path: Path) -> None:
    folder = tmp_path / "program"
    folder.mkdir()
    done = run(
        """
        import importlib, os, pathlib, sys
        sys.dont_write_bytecode = True
        path = pathlib.Path(sys.argv[0]).with_name("changing.py")
        def edit(version):
            path.write_text(f"VERSION = {version}\\ndef version():\\n    return VERSION\\n")
            os.utime(path, (version, version))
        edit(1)
        import changing
        ray.init(START)
        for version in (1, 2, 3):
            edit(version)
            importlib.reload(changing)
            assert ray.get(ray.remote(changing.version).remote()) == version
            print(version)
        """,
        folder=folder,
    )
    assert done.lines == ["1", "2", "3"]


def test_argv_and_environment_reach_the_tasks(run: Callable[..., Program]) -> None:
    run(
        """
        import os, sys
        os.environ["SET_BEFORE_INIT"] = "yes"
        sys.path.insert(0, "/made/up")
        ray.init(START)
        @ray.remote
        def look():
            return os.environ.get("SET_BEFORE_INIT"), os.environ.get("GIVEN"), "/made/up" in sys.path, __name__
        assert ray.get(look.remote())[:3] == ("yes", "given", True), ray.get(look.remote())
        """,
        GIVEN="given",
    )


ARGUMENTS = {
    "deep nesting that can be sent": """
    value = []
    for _ in range(50):
        value = [value]
    assert ray.get(echo.remote(value)) == value
    """,
    "deep nesting that cannot": """
    value = []
    for _ in range(100_000):
        value = [value]
    for call in (lambda: ray.put(value), lambda: echo.remote(value)):
        try:
            call()
        except (RecursionError, TypeError) as error:
            assert "recursion" in str(error).lower() or isinstance(error, RecursionError), str(error)[:300]
        else:
            raise AssertionError
    assert ray.get(echo.remote(1)) == 1
    """,
    "deep nesting as a result": """
    @ray.remote
    def deep():
        value = []
        for _ in range(100_000):
            value = [value]
        return value
    try:
        ray.get(deep.remote())
    except (RecursionError, TypeError) as error:
        assert "recursion" in str(error).lower(), str(error)[:300]
    assert ray.get(echo.remote(1)) == 1
    """,
    "200 megabytes": """
    value = bytes(200 << 20)
    assert ray.get(length.remote(value)) == 200 << 20
    assert ray.get(length.remote(ray.put(value))) == 200 << 20
    """,
    "an argument larger than the store": """
    value = bytes(range(256)) * (300 << 12)
    assert ray.get(length.remote(value)) == 300 << 20
    assert ray.get(echo.remote(value)) == value
    """,
    "generators are refused": """
    import socket, threading
    unsendable = [(x for x in range(3)), socket.socket(), threading.Lock(), sys._getframe()]
    for value in unsendable:
        for call in (lambda: echo.remote(value), lambda: ray.put(value)):
            try:
                call()
            except TypeError as error:
                assert type(value).__name__ in str(error), error
            else:
                raise AssertionError(value)
    unsendable[1].close()
    """,
    "cycles and shared parts": """
    inner = [1]
    value = [inner, inner]
    value.append(value)
    back = ray.get(echo.remote(value))
    assert back[0] is back[1] and back[2] is back
    """,
    "exceptions, classes, modules and functions as values": """
    import math
    for value in (ValueError("x"), KeyError, math, math.sqrt, len, int, type, None, ..., NotImplemented, 1j, range(3)):
        back = ray.get(echo.remote(value))
        assert back is value or repr(back) == repr(value), (value, back)
    """,
    "a class made while running": """
    def make(n):
        class Local:
            number = n
            def get(self): return self.number + n
        return Local
    assert ray.get(ray.remote(lambda thing: thing.get()).remote(make(3)())) == 6
    assert [ray.get(ray.remote(lambda cls: cls().get()).remote(make(n))) for n in range(3)] == [0, 2, 4]
    """,
    "an object whose reduce raises": """
    class Bad:
        def __reduce__(self):
            raise ZeroDivisionError("in reduce")
    for call in (lambda: echo.remote(Bad()), lambda: ray.put([Bad()])):
        try: call()
        except TypeError as error: assert "in reduce" in str(error), error
        else: raise AssertionError
    """,
    "an object that cannot be made again": """
    def explode():
        raise ZeroDivisionError("in the making")
    class Bad:
        def __reduce__(self):
            return explode, ()
    try: ray.get(echo.remote(Bad()))
    except ZeroDivisionError as error: assert "in the making" in str(error)
    else: raise AssertionError
    assert ray.get(echo.remote(1)) == 1
    """,
}


@pytest.mark.parametrize("what", ARGUMENTS)
def test_arguments(what: str, run: Callable[..., Program]) -> None:
    run(
        """
    import sys
    ray.init(START)
    @ray.remote
    def echo(value):
        return value
    @ray.remote
    def length(value):
        return len(value)
    """
        + ARGUMENTS[what]
    )


FLAGS = {
    "-O": ("-O",),
    "-OO": ("-OO",),
    "-X dev": ("-X", "dev"),
    "-W error": ("-W", "error"),
    "-X dev -W error": ("-X", "dev", "-W", "error"),
    "-B -s -E": ("-B", "-s"),
    "-X importtime": ("-X", "importtime"),
}


@pytest.mark.parametrize("flags", FLAGS)
def test_interpreter_flags(flags: str, run: Callable[..., Program]) -> None:
    """A program that uses each feature once causes no warnings, also with -O."""
    done = run(
        DEFINITIONS
        + """
    import asyncio, threading
    main()
    @ray.remote
    def numbers(n):
        yield from range(n)
    if [ray.get(each) for each in numbers.remote(3)] != [0, 1, 2]: raise SystemExit(9)
    big = ray.put(bytes(1 << 20))
    if len(ray.get(big)) != 1 << 20: raise SystemExit(9)
    async def awaits():
        return await asyncio.gather(*[Actor.remote().echo.remote(i) for i in range(3)])
    if asyncio.run(awaits()) != [0, 1, 2]: raise SystemExit(9)
    @ray.remote
    class Async:
        async def call(self, x):
            await asyncio.sleep(0)
            return x
    if ray.get([Async.remote().call.remote(i) for i in range(3)]) != [0, 1, 2]: raise SystemExit(9)
    @ray.remote(max_retries=0)
    def dies():
        import os
        os._exit(3)
    try: ray.get(dies.remote())
    except ray.exceptions.WorkerCrashedError: pass
    ray.shutdown()
    ray.init(START)
    if ray.get(Actor.remote().echo.remote(1)) != 1: raise SystemExit(9)
    """,
        options=FLAGS[flags],
    )
    assert "done" in done.out
    if "importtime" not in flags:
        assert done.err == "", done.err


@pytest.mark.parametrize("seed", ["0", "1", "12345"])
def test_hash_seed(seed: str, run: Callable[..., Program]) -> None:
    run(
        """
        ray.init(START)
        @ray.remote
        def unique(items):
            return {item: hash(item) for item in items}
        names = [f"name {i}" for i in range(100)]
        assert set(ray.get(unique.remote(set(names)))) == set(names)
        assert ray.get(unique.options(resources={}).remote(names)).keys() == dict.fromkeys(names).keys()
        """,
        PYTHONHASHSEED=seed,
    )
