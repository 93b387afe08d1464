"""The secret of a cluster on its machines: sent over standard input of ssh, kept in files that only their owner reads.

The head has the original, so several people who share its account share the cluster as well.
"""

from __future__ import annotations

import os
import re
import secrets

from skate.launcher.ssh import Machine, MachineError

FOLDER = ".skate/clusters"
BITS = 256
_TOKEN = re.compile(r"[\x21-\x7e]{22,}")


def remote_path(name: str) -> str:
    """Return the path of the token on a machine, for its shell."""
    return f"$HOME/{FOLDER}/{name}.token"


def local_path(name: str) -> str:
    """Return the path of the token on this machine."""
    return os.path.join(os.path.expanduser("~"), FOLDER, f"{name}.token")


def settle(head: Machine, name: str) -> str:
    """Return the token of the cluster, which is made if the head has none. Raises MachineError."""
    path = remote_path(name)
    make = f'cat > "{path}.new" && mv "{path}.new" "{path}"'
    line = f'umask 077; mkdir -p "$HOME/{FOLDER}" && {{ [ -s "{path}" ] || {{ {make}; }}; }} && cat "{path}"'
    output = head.output(_sh(line), input_text=secrets.token_hex(BITS // 8) + "\n")
    # The user's shell may print lines of its own before.
    token = output.strip().rpartition("\n")[2].strip()
    if not _TOKEN.fullmatch(token):
        raise MachineError(
            f"{head.address}: the file {path} has no token; remove it, then run `skate up` again"
        )
    return token


def send(machine: Machine, name: str, token: str) -> None:
    """Write the token on a machine. Raises MachineError."""
    path = remote_path(name)
    line = f'umask 077; mkdir -p "$HOME/{FOLDER}" && cat > "{path}.new" && mv "{path}.new" "{path}"'
    machine.output(_sh(line), input_text=token + "\n")


def keep(name: str, token: str) -> str:
    """Write the token on this machine, for programs that connect from here; return its path."""
    path = local_path(name)
    os.makedirs(os.path.dirname(path), mode=0o700, exist_ok=True)
    draft = f"{path}.{os.getpid()}"
    with open(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w") as file:
        file.write(token + "\n")
    os.replace(draft, path)
    return path


def remove(machine: Machine, name: str) -> None:
    """Remove the token from a machine. Raises MachineError."""
    machine.output(_sh(f'rm -f "{remote_path(name)}"'))


def forget(name: str) -> None:
    """Remove the token from this machine."""
    try:
        os.unlink(local_path(name))
    except FileNotFoundError:
        pass


def _sh(line: str) -> str:
    """Return a line for any login shell; this one has no double meaning for single quotes."""
    assert "'" not in line
    return f"sh -c '{line}'"
