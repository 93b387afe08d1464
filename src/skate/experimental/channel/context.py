"""The devices of a process, for values that contain tensors."""

from __future__ import annotations

import importlib.util
from typing import Any


class ChannelContext:
    """The context of this process."""

    def __init__(self) -> None:
        self._device: Any = None
        #: Communicators that this process has joined, by their id.
        self.communicators: dict[Any, Any] = {}

    @staticmethod
    def get_current() -> ChannelContext:
        """The one context of this process."""
        global _context
        if _context is None:
            _context = ChannelContext()
        return _context

    @property
    def torch_available(self) -> bool:
        """True if torch is installed."""
        return importlib.util.find_spec("torch") is not None

    @property
    def torch_device(self) -> Any:
        """The device of this process: its first GPU, or "cpu"."""
        if self._device is None:
            import torch  # takes seconds, and is needed only for devices

            self._device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
        return self._device

    def set_torch_device(self, device: Any) -> None:
        """Set the device."""
        self._device = device


_context: ChannelContext | None = None

__all__ = ["ChannelContext"]
