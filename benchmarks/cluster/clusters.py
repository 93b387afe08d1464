"""Clusters of each target on the machines of one network, started by their own commands."""

from __future__ import annotations

import json
import secrets
import subprocess
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.cluster.namespaces import ROOT, Machine, Network, Program

STORE_BYTES = 3_000_000_000
SCENARIO_S = 300.0
START_S = 120.0
#: The machine that only joins while that is measured.
LATE = 4
TOKEN = "/tmp/token"


@dataclass
class Bench:
    """The machines, and which interpreter runs a target; `address` is of the head."""

    network: Network
    target: str
    python: str
    running: list[Program] = field(default_factory=list)

    @property
    def machines(self) -> list[Machine]:
        return self.network.machines

    @property
    def address(self) -> str:
        return self.machines[0].address

    def run(self, machine: Machine, *words: str) -> Program:
        """Start a Python program on a machine."""
        paths = [str(ROOT), *([str(ROOT / "src")] if self.target == "skate" else [])]
        quiet = {"RAY_USAGE_STATS_ENABLED": "0", "RAY_TMPDIR": "/tmp"} if self.target == "ray" else {}
        return machine.start(self.python, *words, PYTHONPATH=":".join(paths), **quiet)

    def start(self, machine: Machine) -> None:
        """Begin to start a node; the first machine is the head."""
        program = self.run(machine, *COMMANDS[self.target](self, machine))
        self.running.append(program)

    def up(self, nodes: int = LATE - 1) -> None:
        """Start the head and other nodes, two by default, and wait until they have joined."""
        if self.target == "skate":
            token = secrets.token_hex(32)
            for machine in self.machines:
                machine.path("token").write_text(token)
                machine.path("token").chmod(0o600)
        for machine in self.machines[:nodes]:
            self.start(machine)
            if self.target == "dask":
                self.running[-1].wait_for_output("Scheduler at|Registered to", START_S, on_stderr=True)
            else:
                self.running[-1].ok(START_S)

    def slow(self, rate: str) -> None:
        """Limit the cables of all machines, such as to "1gbit"."""
        for machine in self.machines:
            self.network.slow(machine, rate)

    def scenario(self, name: str, *options: str) -> dict[str, Any]:
        """Run a scenario on the first machine; return what it prints."""
        module = "on_dask" if self.target == "dask" else "scenarios"
        target = [] if self.target == "dask" else ["--target", self.target]
        program = self.run(self.machines[0], "-m", f"benchmarks.cluster.{module}", name, *target, *options)
        begin = 0.0
        if name == "join":
            program.wait_for_output("^waiting$", START_S)
            begin = time.time()
            self.start(self.machines[LATE - 1])
        answer = last_json(program.ok(SCENARIO_S))
        if name == "join":
            answer["figures"] = {"join": answer["figures"]["joined_at"] - begin}
        return answer


def skate(bench: Bench, machine: Machine) -> list[str]:
    here = ["--head", "--port", "6379"] if machine.number == 1 else ["--address", f"{bench.address}:6379"]
    return ["-m", "skate", "start", *here, "--token-file", TOKEN, *sizes(machine)]


def ray(bench: Bench, machine: Machine) -> list[str]:
    here = ["--head", "--port=6379"] if machine.number == 1 else [f"--address={bench.address}:6379"]
    quiet = ["--include-dashboard=false", "--disable-usage-stats"] if machine.number == 1 else []
    text = "import sys; from ray.scripts.scripts import main; sys.exit(main())"
    return ["-c", text, "start", *here, f"--node-ip-address={machine.address}", *quiet, *sizes(machine)]


def sizes(machine: Machine) -> list[str]:
    """Return the resources of a machine as flags, which Skate and Ray share."""
    named = json.dumps({machine.name: 100_000})
    return [
        "--num-cpus",
        "2",
        "--num-gpus",
        "0",
        "--resources",
        named,
        "--object-store-memory",
        str(STORE_BYTES),
    ]


def dask(bench: Bench, machine: Machine) -> list[str]:
    if machine.number == 1:
        return [
            "-m",
            "distributed.cli.dask_scheduler",
            "--host",
            machine.address,
            "--port",
            "8786",
            "--no-dashboard",
        ]
    return [
        "-m", "distributed.cli.dask_worker", f"tcp://{bench.address}:8786", "--name", machine.name, "--nthreads", "2",
        "--no-nanny", "--no-dashboard", "--memory-limit", "0",
    ]  # fmt: skip


COMMANDS: dict[str, Callable[[Bench, Machine], list[str]]] = {"skate": skate, "ray": ray, "dask": dask}


def plain_sockets(network: Network, python: str) -> dict[str, Any]:
    """Return the figures of plain sockets and of TLS between the second machine and the third."""
    bench = Bench(network, "bare", python)
    certificate = make_certificate(network)
    server = bench.run(bench.machines[2], "-m", "benchmarks.cluster.bare", "serve", *certificate)
    server.wait_for_output("^listening$", START_S)
    address = bench.machines[2].address
    asked = bench.run(bench.machines[1], "-m", "benchmarks.cluster.bare", "ask", address, *certificate)
    return last_json(asked.ok(SCENARIO_S))


def dask_frames(network: Network, python: str) -> dict[str, Any]:
    """Return the round trip over a connection of Dask between the second machine and the third."""
    bench = Bench(network, "dask", python)
    server = bench.run(bench.machines[2], "-m", "benchmarks.cluster.on_dask", "echo")
    server.wait_for_output("^listening$", START_S)
    asked = bench.run(
        bench.machines[1], "-m", "benchmarks.cluster.on_dask", "frames", bench.machines[2].address
    )
    return last_json(asked.ok(SCENARIO_S))


def make_certificate(network: Network) -> list[str]:
    """Give both machines a certificate; return its path there, or nothing where there is no openssl."""
    path = network.folder / "certificate"
    try:
        subprocess.run(
            ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "1",
             "-subj", "/CN=bench", "-keyout", path, "-out", f"{path}.crt"],
            check=True, capture_output=True,
        )  # fmt: skip
    except (OSError, subprocess.CalledProcessError):
        return []
    text = path.read_text() + Path(f"{path}.crt").read_text()
    for machine in network.machines[1:3]:
        machine.path("certificate.pem").write_text(text)
    return ["/tmp/certificate.pem"]


def last_json(out: str) -> dict[str, Any]:
    """Return the figures among the lines that a program has printed."""
    found: dict[str, Any] = json.loads(
        next(line for line in reversed(out.splitlines()) if line.startswith("{"))
    )
    return found
