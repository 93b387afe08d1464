"""A node of Skate beside another program: a process of its own, which ends when that program does."""

from __future__ import annotations

import asyncio
import contextlib
import ctypes
import os
import secrets
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence

from skate.client.session import detached_node

START_SECONDS = 60.0
#: How long a node may take to end before it is killed.
END_SECONDS = 10.0
POLL_SECONDS = 0.1
PR_SET_PDEATHSIG = 1
LIBC = ctypes.CDLL(None)

Facts = dict[str, str]


class NodeProcess:
    """A node of Skate in a process of its own, which ends when the thread that has made it does."""

    def __init__(self, options: Sequence[str]) -> None:
        self.folder = os.path.join(tempfile.gettempdir(), f"skate-{secrets.token_hex(6)}")
        self._errors = tempfile.TemporaryFile()  # noqa: SIM115 - `end` closes it
        environment = {
            name: value for name, value in os.environ.items() if name not in ("SKATE_ADDRESS", "RAY_ADDRESS")
        }
        words = [sys.executable, "-m", "skate", "start", "--block", f"--temp-dir={self.folder}", *options]
        # A session of its own: SSH kills all processes of a session, but a node needs a moment to clean up.
        self._process = subprocess.Popen(
            words,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=self._errors,
            start_new_session=True,
            preexec_fn=_end_with_parent,
        )
        self.pid = self._process.pid

    async def facts(self) -> Facts:
        """Wait until the node runs; return where it is. Raises RuntimeError with its error."""
        deadline = time.monotonic() + START_SECONDS
        while True:
            if self._process.poll() is not None:
                raise RuntimeError(f"the node of Skate has not started: {self.error()}")
            with contextlib.suppress(OSError):
                found = await asyncio.to_thread(self._status)
                token = os.path.join(self.folder, detached_node.TOKEN_NAME)
                return {
                    "path": str(found["path"]),
                    "address": str(found["cluster"]),
                    "token_file": token if os.path.exists(token) else "",
                }
            if time.monotonic() > deadline:
                raise RuntimeError(f"the node of Skate has not started within {START_SECONDS:g} s")
            await asyncio.sleep(POLL_SECONDS)

    def _status(self) -> Mapping[str, object]:
        return detached_node.status(detached_node.locate("auto", self.folder))

    def error(self) -> str:
        """Return what the node has written to its standard error."""
        self._errors.seek(0)
        return self._errors.read().decode(errors="replace").strip() or f"status {self._process.returncode}"

    async def ended(self) -> None:
        """Wait for the end of the process."""
        loop = asyncio.get_running_loop()
        done = asyncio.Event()
        watched = os.pidfd_open(self.pid)
        try:
            loop.add_reader(watched, done.set)
            await done.wait()
        finally:
            loop.remove_reader(watched)
            os.close(watched)
        self._process.wait()

    async def end(self) -> None:
        """End the node; kill it if it takes too long. Safe to call more than once."""
        if self._process.poll() is None:
            self._process.terminate()
            try:
                await asyncio.wait_for(self.ended(), END_SECONDS)
            except asyncio.TimeoutError:
                self._process.kill()
                self._process.wait()
        self._errors.close()
        shutil.rmtree(self.folder, ignore_errors=True)  # a node that was killed has left files there


def _end_with_parent() -> None:
    """Have the kernel end the node when its worker is killed; runs in the forked child."""
    LIBC.prctl(PR_SET_PDEATHSIG, int(signal.SIGTERM), 0, 0, 0)
