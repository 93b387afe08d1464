"""``skate run``: runs a Python program with ``ray`` meaning Skate, otherwise exactly as ``python`` would.

The program becomes ``__main__`` permanently, not only during a call as with ``runpy.run_path``: threads,
``atexit`` functions and the pickling of its classes need that module after its last line.
"""

from __future__ import annotations

import builtins
import errno
import io
import os
import runpy
import sys
from collections.abc import Sequence
from importlib.machinery import SourceFileLoader, SourcelessFileLoader
from types import CodeType, ModuleType, TracebackType

from skate import compat
from skate.command import broken_pipe

SUMMARY = "run a program that imports ray on Skate: a script, a folder or, after -m, a module"

USAGE = """\
usage: skate run script.py [arguments]
       skate run folder_or_zip [arguments]
       skate run -m module [arguments]

Runs the program as python would: same sys.argv, sys.path, exit status and tracebacks. `import ray`
and everything below it are Skate, even if real Ray is installed."""

CANNOT_OPEN = 2


def main(arguments: Sequence[str]) -> int:
    """Run the program that the arguments name and return 0; its own exits and errors pass through."""
    words = list(arguments)
    if words and words[0] in ("-h", "--help"):
        return broken_pipe.run_quietly(_explain)
    by_name = bool(words) and words[0] == "-m"
    if by_name:
        words = words[1:]
    if not words or (not by_name and words[0].startswith("-")):
        problem = f"skate run: unexpected argument {words[0]!r}\n" if words else ""
        print(problem + USAGE, file=sys.stderr)
        return 2
    if by_name:
        return run_module(words[0], words[1:])
    return run_path(words[0], words[1:])


def _explain() -> int:
    print(USAGE)
    return 0


def run_path(path: str, arguments: Sequence[str]) -> int:
    """Run a script, or a folder or zip file that holds a ``__main__.py``.

    Args:
        path: as for python.
        arguments: become ``sys.argv[1:]``.
    """
    compat.install()
    sys.argv = [path, *arguments]
    if os.path.isdir(path) or _is_zip(path):
        _set_first_import_place(_absolute(path))
        return _run_found_module("__main__", keep_argv=True)
    _set_first_import_place(os.path.dirname(os.path.realpath(path)))
    full = _absolute(path)
    try:
        with io.open_code(full) as file:
            source = file.read()
    except OSError as error:
        reason = os.strerror(error.errno or errno.ENOENT)
        print(f"skate run: cannot open {full!r}: {reason}", file=sys.stderr)
        return CANNOT_OPEN
    loader = (SourcelessFileLoader if full.endswith(".pyc") else SourceFileLoader)("__main__", full)
    module = _become_main()
    module.__dict__.update(__file__=full, __cached__=None, __loader__=loader, __package__=None)
    with _TracebackOfTheProgram():
        code = (
            loader.get_code("__main__")
            if full.endswith(".pyc")
            else compile(source, full, "exec", dont_inherit=True)
        )
        assert isinstance(code, CodeType)
        exec(code, module.__dict__)
    return 0


def run_module(name: str, arguments: Sequence[str]) -> int:
    """Run an importable module or package as ``python -m name`` does.

    Args:
        name: the dotted name, searched from the current folder on.
        arguments: become ``sys.argv[1:]``.
    """
    compat.install()
    sys.argv = ["-m", *arguments]
    _set_first_import_place(os.getcwd())
    return _run_found_module(name, keep_argv=False)


def _run_found_module(name: str, keep_argv: bool) -> int:
    _become_main()
    with _TracebackOfTheProgram():
        # The function that `python -m` calls. The public run_module() restores the old __main__ at the end.
        runpy._run_module_as_main(name, alter_argv=not keep_argv)  # type: ignore[attr-defined]
    return 0


def _become_main() -> ModuleType:
    """Create a fresh ``__main__``, so that the program's namespace contains nothing of this command."""
    module = ModuleType("__main__")
    module.__dict__["__builtins__"] = builtins
    module.__dict__["__annotations__"] = {}
    sys.modules["__main__"] = module
    return module


def _set_first_import_place(folder: str) -> None:
    """Replace this command's folder on the path with the program's, unless Python was started without one."""
    if getattr(sys.flags, "safe_path", False):
        return
    sys.path[0:1] = [folder]


def _absolute(path: str) -> str:
    """Join a path to the current folder without normalizing it, as Python does, so that `./x.py` stays visible."""
    return os.path.join(os.getcwd(), path)


def _is_zip(path: str) -> bool:
    try:
        with open(path, "rb") as file:
            return file.read(4) == b"PK\x03\x04"
    except OSError:
        return False


class _TracebackOfTheProgram:
    """Removes this command's frames from the traceback of an error that ends the program.

    The error itself propagates to the interpreter, because only it handles the exit status, the order of
    ``atexit`` functions and the death by SIGINT after a KeyboardInterrupt correctly.
    """

    def __enter__(self) -> None:
        return None

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, frames: TracebackType | None
    ) -> None:
        if error is None or isinstance(error, SystemExit):
            return
        # The first frame is the `with` above; the following ones are the program's, or none if it does not
        # compile.
        of_the_program = frames.tb_next if frames is not None else None
        show = sys.excepthook

        def show_program_only(
            kind: type[BaseException], shown: BaseException, traceback: TracebackType | None
        ) -> None:
            if shown is error:
                traceback = of_the_program
                shown = shown.with_traceback(traceback)
            show(kind, shown, traceback)

        sys.excepthook = show_program_only
