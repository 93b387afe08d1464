"""Embeddings in the forms that clients ask for."""

from __future__ import annotations

import base64
import math
import struct
from collections.abc import Sequence

from skate.llm.errors import BadRequest
from skate.llm.output import Embedding


def shortened(made: Embedding, dimensions: int) -> Embedding:
    """Return the first dimensions of an embedding, normalized to length 1."""
    if dimensions > len(made.vector):
        raise BadRequest(
            f"dimensions must be at most {len(made.vector)} with this model, got {dimensions}", "dimensions"
        )
    part = made.vector[:dimensions]
    length = math.sqrt(sum(each * each for each in part)) or 1.0
    return Embedding([each / length for each in part], made.prompt_tokens)


def packed(vector: Sequence[float]) -> str:
    """Return a vector as base64 of little-endian float32."""
    return base64.b64encode(struct.pack(f"<{len(vector)}f", *vector)).decode()
