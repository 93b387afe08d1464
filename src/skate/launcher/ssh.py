"""One machine behind OpenSSH: its command lines for `ssh` and `rsync`, and their runs.

OpenSSH's own commands take over the user's ssh_config, agent, jump hosts and known hosts, which a library would have to imitate.
"""

from __future__ import annotations

import os
import shlex
import subprocess
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from skate.launcher.cluster_config import Auth

#: The key of a new machine is recorded, and a changed key is refused.
OPTIONS = (
    "-o", "StrictHostKeyChecking=accept-new", "-o", "ConnectTimeout=15", "-o", "ServerAliveInterval=5",
    "-o", "ServerAliveCountMax=6", "-o", "LogLevel=ERROR",
)  # fmt: skip
#: The exit code of ssh when the connection fails.
NO_CONNECTION = 255
#: Complaints of an interactive bash without a terminal.
NOISE = ("bash: cannot set terminal process group", "bash: no job control in this shell")


class MachineError(RuntimeError):
    """A machine cannot be reached, or a command has failed on it."""


@dataclass(frozen=True)
class Shell:
    """How commands run: `login` for `bash --login -i`, which reads the user's profile, and what runs before each of them."""

    login: bool = True
    prelude: str = ""

    def line(self, command: str) -> str:
        """Return the command line for the remote shell."""
        text = f"{self.prelude}{command}"
        return f"bash --login -i -c {shlex.quote(text)}" if self.login else f"bash -c {shlex.quote(text)}"


@dataclass(frozen=True)
class Machine:
    """A machine at an address; `login` is the address for ssh if that differs."""

    address: str
    auth: Auth
    login: str = ""

    @property
    def destination(self) -> str:
        """The machine's address, with the user if the file names one."""
        host = self.login or self.address
        return host if self.auth.user is None else f"{self.auth.user}@{host}"

    def ssh(
        self, line: str | None, *, terminal: bool = False, ports: Sequence[int] = (), unattended: bool = True
    ) -> list[str]:
        """Return the arguments of ssh that run a line.

        Args:
            line: for the remote shell; None for a session of the user's shell.
            terminal: whether the line gets a terminal.
            ports: are forwarded from this machine to the same port there.
            unattended: ssh must not ask for a password.
        """
        words = ["ssh", *self._options(unattended)]
        words += ["-tt"] if terminal else []
        for port in ports:
            words += ["-L", f"{port}:localhost:{port}"]
        words += [self.destination]
        return words if line is None else [*words, line]

    def rsync(
        self, source: str, target: str, options: Sequence[str] = (), *, down: bool = False
    ) -> list[str]:
        """Return the arguments of rsync that copy a path to the machine, or with `down` from it."""
        carrier = shlex.join(["ssh", *self._options(True)])
        host = self.destination
        if ":" in host.rpartition("@")[2]:  # an address of IPv6
            user, at, address = host.rpartition("@")
            host = f"{user}{at}[{address}]"
        ends = [f"{host}:{source}", target] if down else [source, f"{host}:{target}"]
        return ["rsync", "-az", *options, "-e", carrier, "--", *ends]

    def run(self, line: str, report: Callable[[str], None], *, input_text: str | None = None) -> None:
        """Run a line on the machine, and call `report` with each line of its output. Raises MachineError."""
        code, tail = _streamed(self.ssh(line), report, input_text)
        if code == NO_CONNECTION:
            raise MachineError(
                f"no SSH connection to {self.destination}: {tail or 'ssh gives no reason'}. Try it by hand: "
                f"{shlex.join(self.ssh('true'))}"
            )
        if code:
            raise MachineError(f"a command has failed on {self.address} with exit code {code}: {tail}")

    def output(self, line: str, *, input_text: str | None = None) -> str:
        """Run a line on the machine and return what it prints, both streams. Raises MachineError."""
        lines: list[str] = []
        self.run(line, lines.append, input_text=input_text)
        return "\n".join(lines)

    def copy(self, source: str, target: str, options: Sequence[str] = (), *, down: bool = False) -> None:
        """Copy a file, or the contents of a folder, to the machine or from it. Raises MachineError."""
        lines: list[str] = []
        code, tail = _streamed(self.rsync(source, target, options, down=down), lines.append, None)
        if code:
            what = f"{self.address}:{source}" if down else source
            raise MachineError(
                f"rsync of {what} to {target if down else f'{self.address}:{target}'} has failed with exit code {code}: {tail}"
            )

    def _options(self, unattended: bool) -> list[str]:
        words = [*OPTIONS, *(["-o", "BatchMode=yes"] if unattended else [])]
        if self.auth.private_key is not None:
            words += ["-i", self.auth.private_key, "-o", "IdentitiesOnly=yes"]
        if self.auth.proxy_command is not None:
            words += ["-o", f"ProxyCommand={self.auth.proxy_command}"]
        return words


def _streamed(argv: Sequence[str], report: Callable[[str], None], input_text: str | None) -> tuple[int, str]:
    """Run a program; return its exit code and the last lines of its output, which may be the reason of a failure."""
    try:
        process = subprocess.Popen(
            argv, stdin=subprocess.DEVNULL if input_text is None else subprocess.PIPE, stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT, text=True, errors="replace",
        )  # fmt: skip
    except FileNotFoundError:
        package = "openssh-client" if argv[0] == "ssh" else argv[0]
        raise MachineError(
            f"{argv[0]} is not installed on this machine (Debian: apt install {package})"
        ) from None
    tail: list[str] = []
    with process:
        writer = None
        if input_text is not None:
            writer = threading.Thread(target=_write, args=(process, input_text))
            writer.start()
        assert process.stdout is not None
        for raw in process.stdout:
            text = raw.rstrip("\n")
            if not text.startswith(NOISE):
                tail = [*tail[-2:], text]
                report(text)
        if writer is not None:
            writer.join()
    return process.returncode, " / ".join(filter(None, tail))


def _write(process: subprocess.Popen[str], text: str) -> None:
    assert process.stdin is not None
    try:
        process.stdin.write(text)
        process.stdin.close()
    except BrokenPipeError:  # the exit code has the reason
        pass


def foreground(argv: Sequence[str]) -> int:
    """Run a program with the terminal of this one; return its exit code. Raises MachineError if it is not installed."""
    try:
        return subprocess.run(argv, check=False).returncode
    except FileNotFoundError:
        raise MachineError(f"{argv[0]} is not installed on this machine") from None


def has_terminal() -> bool:
    """Return True if standard input and output are a terminal."""
    return os.isatty(0) and os.isatty(1)
