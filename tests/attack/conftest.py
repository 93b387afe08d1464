"""Shared parts of the attacks: real nodes and programs, as in the tests of processes."""

from __future__ import annotations

from tests.process.conftest import node, program

__all__ = ["node", "program"]
