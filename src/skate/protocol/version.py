"""The version of the protocol, which each side states when it connects; no other version is compatible."""

from __future__ import annotations

from typing import Final

#: Increased with every change of a message: of its number, its fields or their meaning.
VERSION: Final = 8


def refusal(theirs: object, who: str) -> str:
    """Return why a peer with another version is rejected, with both numbers; empty for this version."""
    if type(theirs) is int and theirs == VERSION:
        return ""
    client_version = (
        f"version {theirs} of the protocol" if type(theirs) is int else "an unknown version of the protocol"
    )
    return f"{who} uses {client_version}, but this node uses version {VERSION}; run the same release of Skate for both"
