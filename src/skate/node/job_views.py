"""The settings of each job's workers, called its view: those of its driver, also where the driver is at another node.

A node on the driver's machine, of the same user, gets the whole view. On any other machine, workers have the environment and the
paths of their own node, with what exists there of the driver's paths, and the variables of the driver that concern Skate and the
libraries for training (`PREFIXES`).
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any, Protocol

import msgpack

from skate.node.worker.zygote_spawn import PYTHON
from skate.protocol import messages as m

if TYPE_CHECKING:
    from skate.core.state.snapshot import Snapshot
    from skate.node.settings import Settings
    from skate.protocol.effects import AdoptJob

#: The settings of a driver that its workers adopt.
VIEW = ("sys_path", "stdlib", "environ", "cwd", "preload", "main", "namespace")
#: Variables that go to other machines begin with one of these, and do not tell where or with which secret a node is found.
PREFIXES = ("RAY_", "SKATE_", "NCCL_", "HF_", "OMP_")
PRIVATE = ("ADDRESS", "TMPDIR", "TOKEN", "TOKEN_FILE", "TOKEN_PATH", "PASSWORD")


class Output(Protocol):
    """The output of workers."""

    places: dict[str, str]

    def pipes(self, cid: int, job: str = "") -> tuple[int, int]:
        """Create the output pipes of a new process; return the ends to write to."""

    def resume(self, job: str) -> None:
        """Resume reading the output of a job."""

    def unread(self) -> set[int]:
        """Return the workers whose output has not ended."""


class Links(Protocol):
    """The links to other nodes."""

    def send(self, cid: int, message: tuple[Any, ...]) -> bool:
        """Queue a message for a peer; return False if there is no such peer."""

    def flush(self) -> None:
        """Send everything that is queued."""


class Host(Protocol):
    """The node."""

    settings: Settings
    snapshot: Snapshot
    zygote_config: dict[str, Any]

    @property
    def output(self) -> Output:
        """The output of its workers."""

    @property
    def neighbours(self) -> Links | None:
        """Links to other nodes, once there are any."""


class JobViews:
    """The views of the jobs that have work on this node, by job id in hexadecimal."""

    def __init__(self, host: Host) -> None:
        self._host = host
        self._views: dict[str, dict[str, Any]] = {}
        self._pythons: dict[str, list[str]] = {}
        #: The nodes of the drivers that are not at this one.
        self.homes: dict[str, int] = {}
        #: Jobs that are ending: the nodes of their drivers, and the workers whose output has not ended.
        self._ending: dict[str, tuple[int, set[int]]] = {}

    def __contains__(self, job: str) -> bool:
        return job in self._views

    # -- the beginning and the end of a job

    def add(self, job: bytes, fields: dict[str, Any]) -> None:
        """Add the job of a driver on this machine."""
        name = job.hex()
        view = {each: fields[each] for each in VIEW}
        self._views[name] = {**self._host.zygote_config, **view, "job": job, "realm": name}
        self._pythons[name] = list(fields["python"])

    def adopt(self, effect: AdoptJob) -> None:
        """Add a job whose driver is at another node."""
        name, home, packed, packed_locally = effect
        fields = msgpack.unpackb(packed_locally or packed)
        if not packed_locally:
            fields = _with_what_is_here(fields, self._host.zygote_config)
        self.add(bytes.fromhex(name), fields)
        self.homes[name] = home
        self._host.output.places[name] = f", ip={self._host.settings.node_ip_address}"

    def close(self, job: str, home: int) -> None:
        """Tell the node of a job's driver when the output of the ending workers has ended."""
        output = self._host.output
        output.resume(job)
        waiting = self._host.snapshot.ending_workers(job) & output.unread()
        if waiting:
            self._ending[job] = (home, waiting)
        else:
            self._send(home, m.JobQuiet(m.JOB_QUIET, job))

    def silent(self, cid: int, job: str) -> None:
        """Record the end of a worker's output."""
        home, waiting = self._ending.get(job, (0, set()))
        waiting.discard(cid)
        if home and not waiting:
            del self._ending[job]
            self._send(home, m.JobQuiet(m.JOB_QUIET, job))

    def forget(self, job: str) -> None:
        """Forget a job that has ended."""
        self._views.pop(job, None)
        self._pythons.pop(job, None)
        self.homes.pop(job, None)
        self._host.output.places.pop(job, None)

    # -- output

    def relay(self, job: str, is_error: bool, text: str) -> bool:
        """Send a worker's output to the node of its job's driver; return False if it has none elsewhere."""
        return self._send(self.homes.get(job, 0), m.JobPrinted(m.JOB_PRINTED, job, is_error, text))

    def _send(self, home: int, message: tuple[Any, ...]) -> bool:
        neighbours = self._host.neighbours
        if not home or neighbours is None or not neighbours.send(home, message):
            return False
        neighbours.flush()
        return True

    # -- queries

    def config_of(self, job: str) -> tuple[dict[str, Any], tuple[int, ...]]:
        """Return the settings of a job's workers, and the output descriptors of their zygote."""
        return self._views[job], self._host.output.pipes(-int(job, 16), job)

    def preloaded_of(self, job: str) -> list[str]:
        """Return the modules that a job's workers preload."""
        names: list[str] = self._views[job]["preload"]
        return names

    def python_of(self, job: str) -> list[str]:
        """Return the interpreter of a job's workers, which is that of its driver."""
        return self._pythons[job]

    def __repr__(self) -> str:
        return f"<JobViews {list(self._views)}>"


def packed(fields: dict[str, Any]) -> tuple[bytes, bytes]:
    """Return the settings of a driver for other machines, and all of them for other nodes of this one."""
    view = {each: fields[each] for each in (*VIEW, "python")}
    environ = {name: value for name, value in view["environ"].items() if _travels(name)}
    return msgpack.packb({**view, "environ": environ}), msgpack.packb(view)


def _travels(name: str) -> bool:
    return name.startswith(PREFIXES) and not name.endswith(PRIVATE)


def _with_what_is_here(fields: dict[str, Any], own: dict[str, Any]) -> dict[str, Any]:
    """Return the settings of a driver on another machine as they are for workers on this one."""
    paths = [path for path in fields["sys_path"] if os.path.exists(path)]
    here = fields["cwd"] is not None and os.path.isdir(fields["cwd"])
    python = fields["python"] if os.path.exists(fields["python"][0]) else PYTHON
    return {
        **fields,
        "sys_path": [*paths, *(path for path in own["sys_path"] if path not in paths)],
        "stdlib": fields["stdlib"] if fields["stdlib"] in paths else own["stdlib"],
        "environ": {**own["environ"], **fields["environ"]},
        "cwd": fields["cwd"] if here else own["cwd"],
        "main": fields["main"] if fields["main"] and os.path.exists(fields["main"]) else None,
        "python": python,
    }
