"""The version of the protocol, which each side states when it connects; nothing else is compatible with it."""

from __future__ import annotations

from typing import Final

#: Raised with every change of a message: of its number, its fields or their meaning.
VERSION: Final = 1


def refusal(theirs: object, who: str) -> str:
    """Return why a peer cannot be served that speaks another version, with both numbers; empty if it speaks this one."""
    if type(theirs) is int and theirs == VERSION:
        return ""
    said = f"version {theirs} of the protocol" if type(theirs) is int else "no version of the protocol"
    return f"{who} speaks {said}, and this node version {VERSION}; run the same release of Skate for both"
