"""The token with which a user's programs prove who they are to a dashboard, in the places where Ray's clients look for it."""

from __future__ import annotations

import os
import secrets
import warnings
from pathlib import Path

from skate.util.http.token_client import LOOPBACK

TOKEN_BYTES = 32


def default_path() -> Path:
    """Return the path of the user's own token."""
    return Path.home() / ".ray" / "auth_token"


def find(host: str = "localhost") -> str:
    """Return the token of RAY_AUTH_TOKEN, of the file RAY_AUTH_TOKEN_PATH, or of `default_path()`; empty if there is none.

    The user's own token is for servers of this machine: another `host` gets it only with RAY_AUTH_MODE=token. A token that
    other users can read is left out, with a warning. Raises OSError if RAY_AUTH_TOKEN_PATH cannot be read.
    """
    given = os.environ.get("RAY_AUTH_TOKEN", "").strip()
    if given:
        return given
    named = os.environ.get("RAY_AUTH_TOKEN_PATH")
    if named:
        return Path(named).read_text().strip()
    if host not in LOOPBACK and os.environ.get("RAY_AUTH_MODE") != "token":
        return ""
    path = default_path()
    try:
        if _is_private(path):
            return path.read_text().strip()
    except OSError:  # the user has no token
        return ""
    warnings.warn(
        f"{path} is not used as a token, because other users can read or change it; run `chmod 600 {path}`",
        UserWarning,
        stacklevel=2,
    )
    return ""


def _is_private(path: Path) -> bool:
    """Return True if only this user reaches a file. Ray makes its file readable to all who can enter the folder."""
    found = path.stat()
    if found.st_uid != os.geteuid():
        return False
    return not found.st_mode & 0o077 or any(
        not folder.stat().st_mode & 0o011 for folder in path.absolute().parents
    )


def generate() -> str:
    """Make a token, keep it at `default_path()`, and return it.

    Raises:
        FileExistsError: there is one already.
    """
    path = default_path()
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    token = secrets.token_hex(TOKEN_BYTES)
    fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    with open(fd, "w") as file:
        file.write(token)
    return token


__all__ = ["default_path", "find", "generate"]
