"""The effects of a node: messages to processes and other nodes, and work for the shell."""

from __future__ import annotations

from typing import Any

from skate.protocol.effects import ShellEffect
from skate.protocol.messages import SHELL, OfNode

Effect = tuple[int, Any]


class Outbox:
    """Effects in order; the shell takes them out."""

    __slots__ = ("effects",)

    def __init__(self) -> None:
        self.effects: list[Effect] = []

    def emit(self, cid: int, message: OfNode) -> None:
        """Append a message to a process or a peer."""
        self.effects.append((cid, message))

    def shell(self, effect: ShellEffect) -> None:
        """Append an effect for the shell."""
        self.effects.append((SHELL, effect))

    def __repr__(self) -> str:
        return f"<Outbox {len(self.effects)} effects>"
