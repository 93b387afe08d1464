"""The no-op as a service of BentoML, whose command imports it by name."""

from __future__ import annotations

import bentoml  # type: ignore[import-not-found,unused-ignore]


@bentoml.service(
    workers=1,
    traffic={"timeout": 60, "max_concurrency": 1000},
    metrics={"enabled": False},
    logging={"access": {"enabled": False}},
)
class Noop:
    @bentoml.api
    async def noop(self) -> str:
        return "hello"
