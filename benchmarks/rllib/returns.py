"""The returns of all episodes of a process, counted in the environments themselves, so that every side counts alike."""

from __future__ import annotations

from typing import Any

import gymnasium as gym


class Counted:
    """Steps and episodes of this process; a restored training continues with the numbers that were saved."""

    steps = 0
    #: Steps in all at the end of an episode, and its return.
    episodes: list[tuple[int, float]] = []  # noqa: RUF012  shared by all environments on purpose


class CountReturns(gym.Wrapper[Any, Any, Any, Any]):
    """Counts steps and returns."""

    total = 0.0

    def reset(self, **given: Any) -> Any:
        self.total = 0.0
        return self.env.reset(**given)

    def step(self, action: Any) -> Any:
        found = self.env.step(action)
        Counted.steps += 1
        self.total += float(found[1])
        if found[2] or found[3]:
            Counted.episodes.append((Counted.steps, self.total))
        return found


def make(context: Any) -> Any:
    """Return the environment that `context["id"]` names."""
    return CountReturns(gym.make(context["id"]))
