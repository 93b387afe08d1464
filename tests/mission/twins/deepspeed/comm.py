"""The process group of torch, which is there."""

from torch.distributed import is_initialized

__all__ = ["is_initialized"]
