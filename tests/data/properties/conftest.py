"""Small datasets run in the process of the test; one that takes long on a loaded machine starts a session, which ends here."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

import skate


@pytest.fixture(scope="module", autouse=True)
def session() -> Iterator[None]:
    yield
    skate.shutdown()
