"""Use of the machine's CPUs and memory, for results."""

from __future__ import annotations


def usage() -> dict[str, float]:
    """Return the shares of CPU time and memory in use, in percent; nothing if psutil is not installed."""
    try:
        import psutil  # optional
    except ImportError:
        return {}
    return {
        "cpu_util_percent": float(psutil.cpu_percent(interval=None)),
        "ram_util_percent": float(psutil.virtual_memory().percent),
    }
