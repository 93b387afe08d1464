"""What the machine wants done."""

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
    """Tell a replica its new settings."""

    key: Key
    replica: str
    config: DeploymentConfig
    rank: int


@dataclass(frozen=True)
class Stop:
    """Have a replica finish what it has, and end it."""

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
