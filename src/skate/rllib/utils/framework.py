"""Imports of frameworks that may be absent."""

from __future__ import annotations

from typing import Any


def try_import_torch(error: bool = False) -> tuple[Any, Any]:
    """Return the modules `torch` and `torch.nn`, or None for both if torch is not installed.

    Args:
        error: True to raise instead.

    Raises:
        ImportError: torch is not installed, and `error` is set.
    """
    try:
        import torch  # optional
    except ImportError:
        if error:
            raise ImportError("torch is not installed; install skate[rllib]") from None
        return None, None
    return torch, torch.nn


def try_import_tf(error: bool = False) -> tuple[None, None, None]:
    """Return None for TensorFlow 1, TensorFlow 2 and the version: modules and learners are torch's.

    Args:
        error: True to raise instead.

    Raises:
        ImportError: `error` is set.
    """
    if error:
        raise ImportError("TensorFlow is not available for RLlib: modules and learners are torch's")
    return None, None, None
