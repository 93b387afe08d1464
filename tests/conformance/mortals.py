"""Actors that can be made to end, and ways to see that they did."""

from __future__ import annotations

import os
import pathlib
import sys
from typing import Any

import ray
from ray.exceptions import ActorUnavailableError
from waiting import Gate, Tally, wait_for


def alive(pid: int) -> bool:
    """True while the process exists and is no zombie."""
    try:
        state = pathlib.Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return False
    return state not in ("Z", "X")


def gone(pid: int) -> None:
    wait_for(lambda: not alive(pid), what=f"the actor's process {pid} to end")


def mortal_class() -> Any:
    @ray.remote
    class Mortal:
        def __init__(self) -> None:
            self.calls = 0

        def pid(self) -> int:
            return os.getpid()

        def count(self) -> int:
            self.calls += 1
            return self.calls

        def crash(self) -> None:
            os._exit(1)

        def crash_once(self, attempts: Tally) -> int:
            if attempts.add() == 1:
                os._exit(1)
            return attempts.count()

        def exit(self) -> None:
            ray.actor.exit_actor()

        def sys_exit(self) -> None:
            sys.exit(0)

        def hold(self, started: Gate, release: Gate) -> str:
            started.open()
            release.wait()
            return "released"

        def reconstructed(self) -> bool:
            return ray.get_runtime_context().was_current_actor_reconstructed

        def id(self) -> str:
            return ray.get_runtime_context().get_actor_id()

    return Mortal


def answers(call: Any) -> Any:
    """The result of ``call().remote``-like ``call`` once the actor is available again."""

    def attempt() -> Any:
        try:
            return [ray.get(call(), timeout=30)]
        except ActorUnavailableError:
            return None

    return wait_for(attempt, what="the restarted actor to answer", timeout_s=40)[0]
