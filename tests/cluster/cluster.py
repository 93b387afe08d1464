"""A cluster of standing nodes on the machines of a network, controlled by the command line as a user does."""

from __future__ import annotations

import json
import os
import re
import secrets
import signal
import sys
import threading
import time
from typing import Any

from tests.cluster import driver
from tests.cluster.namespaces import Machine, Network, Program
from tests.conformance.waiting import wait_for

PORT = 6379
TOKEN = "/tmp/token"
NODE = " -m skate start "
ZYGOTE = "zygote"
#: Within this time what a node has started ends after it, on a loaded machine.
GONE_S = 5.0
#: What a scene may need beyond the times that are promised, on a machine with other work to do.
SLACK_S = 2.0


def hold(seconds: float) -> None:
    """Let a fault last; the time is what is under test."""
    threading.Event().wait(seconds)


class Driver:
    """A driver on a machine: see `tests.cluster.driver`."""

    def __init__(self, machine: Machine, address: str = "") -> None:
        words = (address,) if address else ()
        self.program = machine.start(
            sys.executable, "-m", driver.__name__, *words, SKATE_AUTH_TOKEN_PATH=TOKEN
        )
        self.program.wait_for_output("^attached$")
        self.number = 0

    def submit(self, line: str) -> int:
        """Send a line; return its number."""
        self.program.write_line(line)
        self.number += 1
        return self.number - 1

    def answer(self, number: int, timeout_s: float = 30.0) -> str:
        """Wait for the result of a line: its value as text. Raises AssertionError if it failed."""
        line = self.program.wait_for_output(f"^(done|failed) {number} .*$", timeout_s)
        assert line.startswith("done"), line
        return line.partition(f"done {number} ")[2]

    def ask(self, line: str, timeout_s: float = 30.0) -> str:
        """Run a line; return its value as text."""
        return self.answer(self.submit(line), timeout_s)

    def failure(self, line: str, timeout_s: float = 30.0) -> str:
        """Run a line that must fail; return the error."""
        number = self.submit(line)
        line = self.program.wait_for_output(f"^(done|failed) {number} .*$", timeout_s)
        assert line.startswith("failed"), line
        return line.partition(f"failed {number} ")[2]

    def alive(self, *names: str, timeout_s: float = 20.0) -> float:
        """Wait until exactly these machines are the last ones reported alive; return the time of that report."""
        wanted = " ".join(sorted(names))

        def found() -> float:
            reports = re.findall(r"^([\d.]+) alive (.*)\.$", self.program.out, re.MULTILINE)
            return float(reports[-1][0]) if reports and reports[-1][1] == wanted else 0.0

        what = f"'{wanted}' alive"
        try:
            return wait_for(found, timeout_s, what)
        except AssertionError as error:
            raise AssertionError(f"{error}; {self.program.story()}") from None

    def reports(self) -> int:
        """Return how often the living machines have changed."""
        return len(re.findall(r" alive ", self.program.out))


class Cluster:
    """A head on the first machine of a network, and nodes on the others."""

    def __init__(self, network: Network) -> None:
        self.network = network
        self.store_bytes = 2**28
        self.head, *self.nodes = network.machines
        #: Where nodes join: the head, or with a standby either of the two.
        self.address = f"{self.head.address}:{PORT}"
        token = secrets.token_hex(32)
        for machine in network.machines:
            self.write_token(machine, token)

    def write_token(self, machine: Machine, token: str) -> None:
        """Write the token of a machine."""
        path = machine.path(os.path.basename(TOKEN))
        path.write_text(token)
        path.chmod(0o600)

    def start_head(self, *flags: str) -> Program:
        """Begin to start the head."""
        return self.start(self.head, "--head", "--port", str(PORT), *flags)

    def join(self, machine: Machine, *flags: str) -> Program:
        """Begin to start a node."""
        return self.start(machine, "--address", self.address, *flags)

    def start(self, machine: Machine, *flags: str) -> Program:
        """Begin to start a node with a resource of the machine's name."""
        resources = json.dumps({machine.name: 1000})
        return machine.skate(
            "start", *flags, "--token-file", TOKEN, "--num-cpus", "2", "--num-gpus", "0", "--resources", resources,
            "--object-store-memory", str(self.store_bytes),
        )  # fmt: skip

    def up(self, nodes: int | None = None, *, store: int = 0) -> Driver:
        """Start the head and some or all nodes; return a driver on the head's machine that sees them."""
        self.store_bytes = store or self.store_bytes
        self.start_head().ok()
        joining = [self.join(machine) for machine in self.nodes[:nodes]]
        for program in joining:
            program.ok()
        made = Driver(self.head)
        made.alive(*(each.name for each in (self.head, *self.nodes[:nodes])))
        return made

    def status(self, machine: Machine) -> dict[str, Any]:
        """Return the output of `skate status` on a machine as data."""
        found: dict[str, Any] = json.loads(machine.skate("status", "--json").ok())
        return found

    def pids(self, machine: Machine, what: str = NODE) -> list[int]:
        """Return the processes of a machine whose command line contains a text; by default its node."""
        return [pid for pid, words in machine.processes().items() if what in words]

    def send(self, machine: Machine, number: signal.Signals, what: str = NODE) -> float:
        """Send a signal to a machine's node, or to its other processes; return the time."""
        found = self.pids(machine, what)
        assert found, f"no {what!r} on {machine.name}: {machine.processes()}"
        begin = time.time()
        for pid in found:
            os.kill(pid, number)
        return begin

    def gone(self, machine: Machine, timeout_s: float = GONE_S) -> None:
        """Wait until no process of Skate is left on a machine."""

        def left() -> dict[int, str]:
            return {pid: words for pid, words in machine.processes().items() if driver.__name__ not in words}

        wait_for(lambda: not left(), timeout_s, f"the end of everything on {machine.name}: {left()}")

    def down(self, driver: Driver | None = None) -> None:
        """End the driver and all nodes, and check that they leave no process and no file."""
        if driver is not None:
            driver.program.ok()
        for machine in (*self.nodes, self.head):
            machine.skate("stop").ok()
        for machine in self.network.machines:
            self.gone(machine)
            left = (
                machine.start("find", "/tmp", "/dev/shm", "-maxdepth", "2", "-name", "*skate*").ok().split()
            )
            # The folder of the user's node stays; it is empty.
            left = [path for path in left if not machine.path(path.removeprefix("/tmp/")).is_dir()]
            assert left == [], f"{machine.name} has files left: {left}"
