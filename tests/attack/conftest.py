"""What the attacks stand on: real nodes and programs, as the tests of processes have them."""

from __future__ import annotations

from tests.process.conftest import node, program

__all__ = ["node", "program"]
