"""A config with only the attributes that a learner reads."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any


class Config(SimpleNamespace):
    """The attributes of a config that a learner reads."""

    def copy(self, copy_frozen: bool | None = None) -> Config:
        return copy.copy(self)

    @contextmanager
    def thawed(self) -> Iterator[Config]:
        yield self

    def multi_agent(self, **settings: Any) -> Config:
        self.__dict__.update(settings)
        return self
