"""The load of this machine, sampled by a separate thread."""

from __future__ import annotations

import importlib
import threading
from collections import defaultdict
from typing import Any


class UtilMonitor(threading.Thread):
    """Samples CPU and memory, and GPUs if GPUtil is installed, at intervals.

    Args:
        start: True to begin immediately.
        delay: seconds between two samples.
    """

    def __init__(self, start: bool = True, delay: float = 0.7) -> None:
        super().__init__(daemon=True)
        self.delay = delay
        self.values: dict[str, list[float]] = defaultdict(list)
        self.lock = threading.Lock()
        self._ended = threading.Event()
        self.stopped = True
        self.psutil, self.GPUtil = _optional("psutil"), _optional("GPUtil")
        if start and (self.psutil or self.GPUtil):
            self.start()

    def _look(self) -> None:
        with self.lock:
            if self.psutil is not None:
                self.values["cpu_util_percent"].append(float(self.psutil.cpu_percent(interval=None)))
                self.values["ram_util_percent"].append(float(self.psutil.virtual_memory().percent))
            for gpu in self.GPUtil.getGPUs() if self.GPUtil is not None else ():
                self.values[f"gpu_util_percent{gpu.id}"].append(float(gpu.load))
                self.values[f"vram_util_percent{gpu.id}"].append(float(gpu.memoryUtil))

    def get_data(self) -> dict[str, Any]:
        """Return the averages since the last call, under "perf"; an empty dict once stopped."""
        if self.stopped:
            return {}
        with self.lock:
            found = {name: sum(values) / len(values) for name, values in self.values.items() if values}
            self.values.clear()
        return {"perf": found}

    def run(self) -> None:
        """Sample until it is stopped."""
        self.stopped = False
        while not self._ended.is_set():
            self._look()
            self._ended.wait(self.delay)

    def stop(self) -> None:
        """End the thread."""
        self.stopped = True
        self._ended.set()


def _optional(name: str) -> Any:
    try:
        return importlib.import_module(name)
    except ImportError:
        return None
