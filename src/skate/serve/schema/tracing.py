"""Settings of OpenTelemetry spans."""

from __future__ import annotations

import os
from dataclasses import dataclass, field

from skate.serve.config.checked import Checked


def _from_environment() -> str:
    return os.environ.get("RAY_SERVE_TRACING_EXPORTER_IMPORT_PATH", "")


@dataclass(kw_only=True)
class TracingConfig(Checked):
    """Settings of spans: `module:function` that returns the exporters, and the share of requests to sample."""

    enabled: bool = field(default_factory=lambda: bool(_from_environment()))
    exporter_import_path: str = field(default_factory=_from_environment)
    sampling_ratio: float = field(
        default_factory=lambda: float(os.environ.get("RAY_SERVE_TRACING_SAMPLING_RATIO", "0.01"))
    )

    def check(self) -> None:
        """Check the sampling ratio."""
        if not 0 <= self.sampling_ratio <= 1:
            raise ValueError(
                f"TracingConfig.sampling_ratio must be between 0 and 1, got {self.sampling_ratio}"
            )
