"""Actions of the machine."""

from __future__ import annotations

from dataclasses import dataclass

from skate.serve.config.deployment import DeploymentConfig
from skate.serve.controller.records import Key


@dataclass(frozen=True)
class Start:
    """Make a replica."""

    key: Key
    replica: str
    rank: int


@dataclass(frozen=True)
class Configure:
    """Send new settings to a replica."""

    key: Key
    replica: str
    config: DeploymentConfig
    rank: int


@dataclass(frozen=True)
class Stop:
    """Let a replica finish its requests, then end it."""

    key: Key
    replica: str
    grace_s: float


@dataclass(frozen=True)
class Check:
    """Ask a replica whether it is well."""

    key: Key
    replica: str
    timeout_s: float


Action = Start | Configure | Stop | Check
