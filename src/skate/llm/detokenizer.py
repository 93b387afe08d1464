"""Incremental decoding of tokens. A character that spans several tokens is held until it is complete."""

from __future__ import annotations

from collections.abc import Callable, Sequence

#: The replacement character: decoders return it for bytes that do not form a character, or not yet.
_REPLACED = "\ufffd"
#: The most tokens decoded again for each new one, and the most tokens that an unfinished character can span.
_WINDOW_MAX = 24
_SURE = 8


class Detokenizer:
    """Decodes a growing list of tokens. The increments joined equal the decoded text of all tokens.

    Each call decodes a window: the tokens since the text was last complete, and the tokens of the part before
    it, because some decoders treat the first token of a text specially. A replacement character at the end is
    held back because the next token may turn it into another character. The text before it is final, because
    the bytes of an unfinished character decode to exactly one replacement character.
    """

    def __init__(self, decode: Callable[[Sequence[int]], str]) -> None:
        self._decode = decode
        self._tokens: list[int] = []
        self._whole = 0  # the place in the window where the text was last complete
        self._given = 0  # the number of characters of the window that were returned

    def __call__(self, token: int) -> str:
        """Return the new text after a token."""
        self._tokens.append(token)
        text = self._decode(self._tokens)
        held = text.endswith(_REPLACED)
        end = len(text) - held
        new = text[self._given : end]
        self._given = max(self._given, end)
        if not held and (new or len(self._tokens) > _WINDOW_MAX):
            self._tokens = self._tokens[self._whole :]
            self._whole = len(self._tokens)
            self._given = len(self._decode(self._tokens))
        elif len(self._tokens) > _WINDOW_MAX:
            self._shorten(text)
        return new

    def _shorten(self, text: str) -> None:
        """Drop the first tokens of a long window of undecodable tokens if they cannot affect the rest."""
        first, rest = self._tokens[:-_SURE], self._tokens[-_SURE:]
        before = self._decode(first)
        if before + self._decode(rest) == text:
            self._tokens, self._whole = rest, 0
            self._given -= len(before)

    def rest(self) -> str:
        """Return the text held back at the end."""
        text = self._decode(self._tokens)[self._given :]
        self._given += len(text)
        return text


class StopTexts:
    """Finds stop texts in a text that arrives in parts, and holds text that may be the start of one."""

    def __init__(self, stops: Sequence[str], include: bool = False) -> None:
        self._stops = tuple(stops)
        self._include = include
        self._held = ""

    def __call__(self, text: str) -> tuple[str, str | None]:
        """Return the text that can be emitted, and the stop text if one is complete."""
        if not self._stops:
            return text, None
        text = self._held + text
        found = [(at, -len(stop), stop) for stop in self._stops if (at := text.find(stop)) >= 0]
        if found:
            at, _, stop = min(found)
            self._held = ""
            return text[: at + len(stop) if self._include else at], stop
        keep = max(_overlap(text, stop) for stop in self._stops)
        self._held = text[len(text) - keep :]
        return text[: len(text) - keep], None

    def rest(self) -> str:
        """Return held text that turned out not to be a stop text."""
        text, self._held = self._held, ""
        return text


def _overlap(text: str, stop: str) -> int:
    """Return the number of characters at the end of a text that are the start of a stop text."""
    for size in range(min(len(text), len(stop) - 1), 0, -1):
        if text.endswith(stop[:size]):
            return size
    return 0
