"""Actions that the state machine requests."""

from __future__ import annotations

from dataclasses import dataclass

from skate.serve.config.deployment import DeploymentConfig
from skate.serve.context import ReplicaRank
from skate.serve.controller.records import Key


@dataclass(frozen=True)
class Start:
    """Start a replica."""

    key: Key
    replica: str
    rank: int


@dataclass(frozen=True)
class Configure:
    """Send new settings to a replica."""

    key: Key
    replica: str
    config: DeploymentConfig
    place: ReplicaRank


@dataclass(frozen=True)
class Stop:
    """Let a replica finish its requests, and then end it."""

    key: Key
    replica: str
    grace_s: float


@dataclass(frozen=True)
class Check:
    """Check the health of a replica."""

    key: Key
    replica: str
    timeout_s: float


Action = Start | Configure | Stop | Check
