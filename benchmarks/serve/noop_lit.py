"""The no-op for LitServe, whose processes import it by name."""

from __future__ import annotations

from typing import Any

from litserve import LitAPI  # type: ignore[import-not-found,unused-ignore]


class Noop(LitAPI):  # type: ignore[misc,unused-ignore]
    """Answers without a model."""

    def setup(self, device: str) -> None:
        """Load nothing."""

    def predict(self, x: Any) -> str:
        """Return the constant."""
        return "hello"
