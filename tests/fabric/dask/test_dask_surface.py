"""The names of Dask.distributed that Skate uses: a release that changes one of them is seen here first."""

from __future__ import annotations

import ast
import importlib
import inspect
import pathlib
import re

import pytest

pytest.importorskip("distributed")
pytest.importorskip("cryptography")

import distributed

import skate.fabric.dask as engine

SOURCE = pathlib.Path(engine.__file__).parent
#: Modules of Dask, tornado and what they are asked for.
NAMES = {
    "dask.config": {"get", "set"},
    "distributed": {"Scheduler", "Worker", "__version__"},
    "distributed.comm": {"Comm", "CommClosedError", "parse_address"},
    "distributed.comm.registry": {"get_backend"},
    "distributed.comm.tcp": {"TCP"},
    "distributed.core": {"Server", "Status"},
    "distributed.diagnostics.plugin": {"SchedulerPlugin"},
    "distributed.security": {"Security"},
    "tornado.ioloop": {"IOLoop"},
    "tornado.iostream": {"BaseIOStream", "IOStream"},
}
#: Methods and what they must accept by name.
SIGNATURES = {
    "distributed.Scheduler.__init__": {
        "host", "port", "protocol", "security", "dashboard", "plugins", "extensions",
    },
    "distributed.Scheduler.add_worker": {"comm", "versions"},
    "distributed.Scheduler.close": {"reason"},
    "distributed.Scheduler.start_http_server": set(),
    "distributed.Worker.__init__": {
        "scheduler_ip", "name", "nthreads", "memory_limit", "data", "executor", "host", "port", "protocol", "security",
        "heartbeat_interval", "extensions", "startup_information",
    },
    "distributed.Worker.close": {"timeout", "reason"},
    "distributed.batched.BatchedSend.abort": set(),
    "distributed.Worker.handle_scheduler": {"comm"},
    "distributed.Worker.handle_stream": {"comm"},
    "distributed.Worker.start_http_server": set(),
    "distributed.core.Server.__init__": {"blocked_handlers", "local_directory", "needs_workdir"},
    "distributed.core.Server.finished": set(),
    "distributed.core.Server.start": set(),
    "distributed.diagnostics.plugin.SchedulerPlugin.add_worker": {"scheduler", "worker"},
    "distributed.diagnostics.plugin.SchedulerPlugin.remove_worker": {"scheduler", "worker", "kwargs"},
    "distributed.security.Security.get_connection_args": {"role"},
    "distributed.security.Security.get_listen_args": {"role"},
    "distributed.comm.Comm.handshake_info": set(),
    "distributed.comm.Comm.handshake_configuration": {"local", "remote"},
    "tornado.iostream.BaseIOStream.set_close_callback": {"callback"},
    "tornado.iostream.BaseIOStream.reading": set(),
    "tornado.iostream.BaseIOStream.writing": set(),
}  # fmt: skip
#: Attributes that only objects have; each stands in the source of its class.
ATTRIBUTES = {
    "distributed.core.Server": {
        "handlers",
        "periodic_callbacks",
        "_updated_sys_path",
        "local_directory",
        "status",
        "listeners",
    },
    "distributed.comm.Comm": {"_instances"},
    "distributed.comm.tcp.TCP": {"stream", "_finalizer", "_closed"},
    "tornado.iostream.BaseIOStream": {"_read_buffer_size", "_closed", "io_loop", "socket"},
    "distributed.scheduler.WorkerState": {"name", "address", "extra"},
}


def found(path: str) -> object:
    module, _, rest = path.rpartition(".")
    try:
        return importlib.import_module(path)
    except ModuleNotFoundError:
        return getattr(found(module), rest)


@pytest.mark.parametrize("module", NAMES)
def test_names(module: str) -> None:
    assert [name for name in NAMES[module] if not hasattr(importlib.import_module(module), name)] == []


@pytest.mark.parametrize("path", SIGNATURES)
def test_signatures(path: str) -> None:
    function = found(path)
    assert callable(function)
    assert SIGNATURES[path] <= set(inspect.signature(function).parameters)


@pytest.mark.parametrize("path", ATTRIBUTES)
def test_attributes(path: str) -> None:
    kind = found(path)
    assert inspect.isclass(kind)
    source = inspect.getsource(kind)
    assert [name for name in ATTRIBUTES[path] if name not in source] == []


@pytest.mark.parametrize(
    ("kind", "module"), [("Scheduler", "skate.fabric.dask.scheduler"), ("Worker", "skate.fabric.dask.worker")]
)
def test_blocked_operations_exist(kind: str, module: str) -> None:
    """A misspelt one would block nothing."""
    source = inspect.getsource(getattr(distributed, kind))
    blocked = importlib.import_module(module).BLOCKED
    assert [name for name in blocked if f'"{name}"' not in source] == []


def test_no_other_name_is_imported() -> None:
    imported: dict[str, set[str]] = {}
    for path in SOURCE.glob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.ImportFrom) and node.module:
                imported.setdefault(node.module, set()).update(alias.name for alias in node.names)
    used = {
        module: names
        for module, names in imported.items()
        if module.split(".")[0] in ("dask", "distributed", "tornado")
    }
    assert {module: names - NAMES.get(module, set()) for module, names in used.items()} == dict.fromkeys(
        used, set()
    )


#: Outside of the carrier; tests/autoscaler and tests/launcher pin the names that they use.
LAUNCHERS = {"autoscaler/adaptive.py", "client/session/dask_session.py", "launcher/dask_clusters.py"}


def test_only_the_carrier_and_the_launchers_import_dask_distributed() -> None:
    package = SOURCE.parents[1]
    importing = re.compile(r"^\s*(import|from) distributed\b", re.MULTILINE)
    found = {
        path.relative_to(package).as_posix()
        for path in package.rglob("*.py")
        if path.parent != SOURCE and importing.search(path.read_text())
    }
    assert found == LAUNCHERS


def test_oldest_release() -> None:
    assert engine.too_old("2024.12.1")
    assert not engine.too_old("2025.1.0")
    assert not engine.too_old(engine.own_version())
