"""Machines of a cluster on one host, in network namespaces, and the faults of the network between them.

Each machine has its own address, host name, processes, /tmp and /dev/shm. All its namespaces are without a name: they end with
the first process of the machine, and the kernel then kills what runs there and removes its interfaces and mounts. That process
ends with a pipe from the test, so neither a failed nor a killed test leaves anything behind.
"""

from __future__ import annotations

import contextlib
import functools
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import textwrap
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType

from tests.conformance.waiting import wait_for

ROOT = Path(__file__).parents[2]
INIT = Path(__file__).with_name("machine_init.py")
SUBNET = "10.77.0"
SWITCH = f"{SUBNET}.254"
#: A hardware address that nobody has.
NOBODY = "02:00:00:00:de:ad"
#: Variables that the programs of a machine inherit from the test.
INHERITED = ("PATH", "LANG", "LC_ALL", "SKATE_TEST_RUN")
COMMAND_S = 60.0


@functools.cache
def why_not() -> str:
    """Return the reason why this host cannot have such machines; empty if it can."""
    if os.geteuid() != 0:
        return "network namespaces need root"
    missing = [name for name in ("ip", "tc", "nsenter", "unshare") if shutil.which(name) is None]
    if missing:
        return f"{', '.join(missing)} not found; `make iproute` installs iproute2 on Debian"
    command = "unshare -n -m -u -p --fork ip link add test1 type veth peer name test2"
    tried = subprocess.run(command.split(), capture_output=True, text=True)
    if tried.returncode:
        return f"this kernel or container has no network namespaces: {tried.stderr.strip()[:200]}"
    return ""


class Program:
    """A program on a machine, with its output in files."""

    def __init__(self, argv: Sequence[str], folder: Path, number: int) -> None:
        self.argv = argv
        self.out_path, self.err_path = folder / f"out{number}", folder / f"err{number}"
        with open(self.out_path, "wb") as out, open(self.err_path, "wb") as err:
            self.process = subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=out, stderr=err)

    @property
    def out(self) -> str:
        return self.out_path.read_text(errors="replace")

    @property
    def err(self) -> str:
        return self.err_path.read_text(errors="replace")

    def story(self) -> str:
        """Return the output, for the message of a failed assertion."""
        return f"stdout:\n{self.out[-3000:]}\nstderr:\n{self.err[-3000:]}"

    def wait_for_output(self, text: str, timeout_s: float = COMMAND_S, *, on_stderr: bool = False) -> str:
        """Wait until stdout, or stderr instead, has a line that matches, and return the match."""

        def found() -> str | None:
            ended = self.process.poll() is not None
            match = re.search(text, self.err if on_stderr else self.out, re.MULTILINE)
            assert match is not None or not ended, f"it ended without saying {text!r}; {self.story()}"
            return match.group(0) if match is not None else None

        try:
            return str(wait_for(found, timeout_s, repr(text)))
        except AssertionError as error:
            raise AssertionError(f"{error}; {self.story()}") from None

    def write_line(self, text: str) -> None:
        """Write a line to the program's stdin."""
        assert self.process.stdin is not None
        self.process.stdin.write(text.encode() + b"\n")
        self.process.stdin.flush()

    def end(self, timeout_s: float = COMMAND_S) -> int:
        """Wait until the program ends; return the exit code."""
        self._close()
        try:
            return self.process.wait(timeout_s)
        except subprocess.TimeoutExpired:
            raise AssertionError(f"it did not end within {timeout_s:g} s; {self.story()}") from None

    def ok(self, timeout_s: float = COMMAND_S) -> str:
        """Wait until the program ends, without an error; return its output."""
        code = self.end(timeout_s)
        assert code == 0, f"it ended with {code}; {self.story()}"
        return self.out

    def kill(self) -> None:
        """Kill the program, but not what it has started."""
        for pid in _children(self.process.pid):
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        self.process.kill()
        self.process.wait()
        self._close()

    def _close(self) -> None:
        if self.process.stdin is not None and not self.process.stdin.closed:
            with contextlib.suppress(BrokenPipeError):
                self.process.stdin.close()


class Machine:
    """One machine; `number` is the last part of its address."""

    def __init__(self, number: int, hosts: str, folder: Path) -> None:
        self.number = number
        self.name = f"machine{number}"
        self.address = f"{SUBNET}.{number}"
        self.folder = folder / self.name
        self.folder.mkdir()
        self.programs: list[Program] = []
        places = [ROOT, *([] if Path(sys.prefix).is_relative_to(ROOT) else [Path(sys.prefix)])]
        kept = [str(path) for path in places if path.is_relative_to("/tmp")]
        self.holder = subprocess.Popen(
            ["unshare", "--net", "--mount", "--uts", "--pid", "--fork", "--kill-child",
             sys.executable, "-S", str(INIT), self.name, hosts, *kept],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE,
        )  # fmt: skip
        assert self.holder.stdout is not None
        line = self.holder.stdout.readline()
        self.holder.stdout.close()
        assert line == b"ready\n", f"{self.name} did not start"
        (self.pid,) = _children(self.holder.pid)

    def path(self, name: str) -> Path:
        """Return the path at which the test sees a file of the machine's /tmp."""
        return Path(f"/proc/{self.pid}/root/tmp") / name

    def ip(self, *words: object) -> str:
        """Run `ip` in the machine's network, from outside."""
        return _run("nsenter", f"--net=/proc/{self.pid}/ns/net", "ip", *map(str, words))

    def start(self, *argv: str, **environment: str) -> Program:
        """Start a program on the machine."""
        kept = {name: os.environ[name] for name in INHERITED if name in os.environ}
        own = {"HOME": "/tmp/home", "TMPDIR": "/tmp", "PYTHONPATH": f"{ROOT / 'src'}:{ROOT}"}
        words = [f"{name}={value}" for name, value in {**kept, **own, **environment}.items()]
        inside = ["nsenter", f"--target={self.pid}", "--net", "--mount", "--uts", "--pid", "--"]
        program = Program([*inside, "env", "-i", *words, *argv], self.folder, len(self.programs))
        self.programs.append(program)
        return program

    def python(self, text: str, *arguments: str, **environment: str) -> Program:
        """Start a Python program, given as text."""
        name = f"program{len(self.programs)}.py"
        self.path(name).write_text(textwrap.dedent(text))
        return self.start(sys.executable, f"/tmp/{name}", *arguments, **environment)

    def skate(self, *words: str, **environment: str) -> Program:
        """Start a command of `skate`."""
        return self.start(sys.executable, "-m", "skate", *words, **environment)

    def processes(self) -> dict[int, str]:
        """Return the living processes of the machine, except the first one: pid to command line."""
        own = os.readlink(f"/proc/{self.pid}/ns/pid")
        found = {}
        for folder in Path("/proc").glob("[0-9]*"):
            try:
                if os.readlink(folder / "ns" / "pid") != own or folder.name == str(self.pid):
                    continue
                if (folder / "stat").read_text().rpartition(")")[2].split()[0] != "Z":
                    words = (folder / "cmdline").read_bytes().replace(b"\0", b" ")
                    found[int(folder.name)] = words.decode(errors="replace").strip()
            except OSError:  # it has ended
                continue
        return found

    def close(self) -> None:
        """End the machine, with all its processes."""
        assert self.holder.stdin is not None
        self.holder.stdin.close()
        self.holder.wait()
        for program in self.programs:
            program.kill()


class Network:
    """Some machines and the switch between them: a bridge, or with `taps` a process that can delay and lose frames."""

    def __init__(self, machines: int, *, taps: bool = False) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="network-"))
        self.opened: list[Machine] = []
        self.taps: subprocess.Popen[bytes] | None = None
        names = "".join(f"{SUBNET}.{n} machine{n}\n" for n in range(1, machines + 1))
        hosts = f"127.0.0.1 localhost\n{names}"
        try:
            self.bridge = self._open(254, hosts)
            self.machines = [self._open(number, hosts) for number in range(1, machines + 1)]
            (self._plug_taps if taps else self._plug_cables)()
        except BaseException:  # also Ctrl-C and a timeout of pytest: machines that started must end
            self.close()
            raise

    def __enter__(self) -> Network:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def cut(self, machine: Machine) -> None:
        """Take the machine's cable out of the switch. Connections stay open, as no packet says that they end."""
        self.bridge.ip("link", "set", f"to{machine.number}", "down")

    def heal(self, machine: Machine) -> None:
        """Put the cable of `cut` back."""
        self.bridge.ip("link", "set", f"to{machine.number}", "up")

    def silence(self, source: Machine, target: Machine) -> None:
        """Let everything that one machine sends to another go nowhere; the other direction still works."""
        source.ip("neigh", "replace", target.address, "lladdr", NOBODY, "dev", "eth0", "nud", "permanent")

    def unsilence(self, source: Machine, target: Machine) -> None:
        """End what `silence` began."""
        source.ip("neigh", "del", target.address, "dev", "eth0")

    def slow(self, machine: Machine, rate: str) -> None:
        """Limit the cable of a machine in both directions, such as to "100mbit"; "" ends that."""
        for side, device in ((machine, "eth0"), (self.bridge, f"to{machine.number}")):
            net = ("nsenter", f"--net=/proc/{side.pid}/ns/net", "tc", "qdisc")
            if rate:
                _run(
                    *net,
                    "replace",
                    "dev",
                    device,
                    "root",
                    "tbf",
                    "rate",
                    rate,
                    "burst",
                    "64k",
                    "latency",
                    "50ms",
                )
            else:
                _run(*net, "del", "dev", device, "root")

    def delay(self, seconds: float) -> None:
        """Delay every frame by this; needs taps."""
        self._configure_taps(f"delay {seconds}")

    def lose(self, share: float) -> None:
        """Lose this share of all frames; needs taps."""
        self._configure_taps(f"loss {share}")

    def close(self) -> None:
        """End all machines and what runs on them."""
        if self.taps is not None and self.taps.stdin is not None and self.taps.stdout is not None:
            self.taps.stdin.close()
            self.taps.stdout.close()
            self.taps.wait()
        for machine in self.opened:
            machine.close()
        shutil.rmtree(self.folder, ignore_errors=True)

    def _open(self, number: int, hosts: str) -> Machine:
        machine = Machine(number, hosts, self.folder)
        self.opened.append(machine)
        return machine

    def _plug_cables(self) -> None:
        self.bridge.ip("link", "add", "bridge", "type", "bridge")
        self.bridge.ip("addr", "add", f"{SWITCH}/24", "dev", "bridge")
        self.bridge.ip("link", "set", "bridge", "up")
        for machine in self.machines:
            port = f"to{machine.number}"
            self.bridge.ip("link", "add", port, "type", "veth", "peer", "name", "eth0", "netns", machine.pid)
            self.bridge.ip("link", "set", port, "master", "bridge", "up")
            self._configure(machine)

    def _plug_taps(self) -> None:
        # All taps are opened from one process, which ends with its stdin.
        self.taps = subprocess.Popen(
            [sys.executable, "-S", "-m", "tests.cluster.tap_switch", *(str(each.pid) for each in self.machines)],
            cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
        )  # fmt: skip
        assert self.taps.stdout is not None and self.taps.stdout.readline() == b"ok\n"
        for machine in self.machines:
            self._configure(machine)

    def _configure(self, machine: Machine) -> None:
        machine.ip("link", "set", "lo", "up")
        machine.ip("addr", "add", f"{machine.address}/24", "dev", "eth0")
        machine.ip("link", "set", "eth0", "up")
        # Programs find their address by the way to the world outside.
        machine.ip("route", "add", "default", "via", SWITCH)

    def _configure_taps(self, line: str) -> None:
        assert self.taps is not None, "this network has cables, which do not delay or lose; say taps=True"
        assert self.taps.stdin is not None and self.taps.stdout is not None
        self.taps.stdin.write(line.encode() + b"\n")
        self.taps.stdin.flush()
        assert self.taps.stdout.readline() == b"ok\n"


def _run(*argv: str) -> str:
    done = subprocess.run(argv, capture_output=True, text=True, timeout=COMMAND_S)
    assert done.returncode == 0, f"{' '.join(argv)}: {done.stdout}{done.stderr}"
    return done.stdout


def _children(pid: int) -> list[int]:
    try:
        return [int(word) for word in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
    except OSError:
        return []
