"""Tests with vLLM itself, on CPUs. Nothing is collected where it is not installed; `make test-vllm` installs it."""

from __future__ import annotations

import os
from importlib.util import find_spec

import pytest

os.environ["HF_HUB_OFFLINE"] = "1"
os.environ.setdefault("VLLM_CPU_KVCACHE_SPACE", "1")
os.environ.setdefault("VLLM_LOGGING_LEVEL", "WARNING")
os.environ["VLLM_NO_USAGE_STATS"] = "1"

collect_ignore_glob = [] if find_spec("vllm") else ["test_*.py"]


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Give the tests of this folder time. A start of vLLM takes half a minute, and several on a loaded machine."""
    for item in items:
        if "tests/vllm" in item.path.as_posix():
            item.add_marker(pytest.mark.timeout(600))
