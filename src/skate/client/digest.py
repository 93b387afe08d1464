"""BLAKE2 as `hashlib` has it: that module loads OpenSSL for other digests, which takes 4 ms of the first result."""

from __future__ import annotations

try:
    from _blake2 import blake2b
except ImportError:  # an interpreter that has it elsewhere
    from hashlib import blake2b

__all__ = ["blake2b"]
