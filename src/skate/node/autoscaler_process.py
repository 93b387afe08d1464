"""The process of the autoscaler beside a head: started, started again when it dies, and ended with the node."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable

from skate.node.driver import address

#: How long the process may take to end before it is killed, with what it has started.
END_SECONDS = 3.0
#: Pauses before the process is started again: the first, and the longest one; each is twice as long as that before it.
PAUSE_SECONDS, PAUSE_SECONDS_MAX = 1.0, 60.0


class AutoscalerProcess:
    """The autoscaler of a standing head. The node's log has its output.

    Args:
        config: the path of the cluster's file.
        log: writes a text to the node's log.
    """

    def __init__(self, config: str, log: Callable[[str], object]) -> None:
        self._config = config
        self._log = log
        self._ended = threading.Event()
        self._process: subprocess.Popen[str] | None = None
        self._guard = threading.Lock()
        self._thread: threading.Thread | None = None

    def start(self, path: str) -> None:
        """Start the process for the node with a socket, in a thread that keeps it running."""
        self._thread = threading.Thread(target=self._keep, args=(path,), name="skate-autoscaler", daemon=True)
        self._thread.start()

    def _keep(self, path: str) -> None:
        # It ends by itself when the session at this address does.
        words = ["autoscale", self._config, "--address", address.to_address(path)]
        pause = PAUSE_SECONDS
        while True:
            begun = time.monotonic()
            with self._guard:
                if self._ended.is_set():
                    return
                # Ctrl-C in a terminal is for the node.
                process = self._process = subprocess.Popen(
                    [sys.executable, "-m", "skate", *words],
                    stdin=subprocess.DEVNULL,
                    stdout=subprocess.PIPE,
                    stderr=subprocess.STDOUT,
                    text=True,
                    errors="replace",
                    start_new_session=True,
                )
            assert process.stdout is not None
            for line in process.stdout:
                self._log(f"autoscaler: {line}")
            status = process.wait()
            process.stdout.close()
            if self._ended.is_set():
                return
            if time.monotonic() - begun > PAUSE_SECONDS_MAX:
                pause = PAUSE_SECONDS
            self._log(f"the autoscaler has ended with status {status}; it is started again in {pause:g} s\n")
            if self._ended.wait(pause):
                return
            pause = min(2 * pause, PAUSE_SECONDS_MAX)

    def end(self) -> None:
        """End the process, with what it has started, and the thread."""
        self._ended.set()
        with self._guard:
            process = self._process
        if process is not None and process.poll() is None:
            process.terminate()
            try:
                process.wait(END_SECONDS)
            except subprocess.TimeoutExpired:
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(process.pid, signal.SIGKILL)
        if self._thread is not None:
            self._thread.join(END_SECONDS)
