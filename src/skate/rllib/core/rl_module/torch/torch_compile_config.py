"""TorchCompileConfig: how the forward methods of a module are compiled."""

from __future__ import annotations

import sys
from dataclasses import dataclass, field
from typing import Any


@dataclass
class TorchCompileConfig:
    """Arguments of ``torch.compile`` for :meth:`TorchRLModule.compile`.

    Args:
        torch_dynamo_backend: The backend; ``"aot_eager"`` on macOS, ``"cudagraphs"`` elsewhere.
        torch_dynamo_mode: The mode.
        kwargs: Further arguments.
    """

    torch_dynamo_backend: str = "aot_eager" if sys.platform == "darwin" else "cudagraphs"
    torch_dynamo_mode: str | None = None
    kwargs: dict[str, Any] = field(default_factory=dict)
