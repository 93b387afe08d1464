"""Reasoning in the text of answers, found by the parser of the engine and kept apart from the content."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing

from skate.llm.engine import ReasoningReader
from skate.llm.output import Increment


async def apart(
    found: AsyncGenerator[tuple[int, Increment], None], reader: Callable[[], ReasoningReader]
) -> AsyncGenerator[tuple[int, Increment], None]:
    """Yield increments whose `reasoning` has what their `text` had of it. Each answer has a reader of its own."""
    readers: dict[int, ReasoningReader] = {}
    async with aclosing(found):
        async for at, new in found:
            if at not in readers:
                readers[at] = reader()
            whole = new.finish_reason is not None and not readers[at].begun
            new.reasoning, new.text = readers[at].read(new.text, new.token_ids, whole)
            yield at, new
