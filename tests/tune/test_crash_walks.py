"""A search that ends between any two commands continues with nothing lost and nothing run twice; hypothesis draws where, and what
trials do. At many steps the journal is read and must match the machine."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.tune.worlds import SCHEDULERS, Recording, World


@settings(max_examples=50, deadline=None)
@given(
    name=st.sampled_from(sorted(SCHEDULERS)),
    seed=st.integers(0, 10_000),
    shape=st.fixed_dictionaries(
        {
            "trials": st.integers(1, 5),
            "cpus": st.integers(1, 3),
            "can_save": st.booleans(),
            "failing": st.sampled_from([0.0, 0.05]),
            "losing": st.sampled_from([0.0, 0.05]),
            "failures": st.sampled_from([0, 2, -1]),
            "keep": st.sampled_from([None, 1, 2]),
            "entries": st.sampled_from([5, 20, 2000]),
        }
    ),
    suggested=st.booleans(),
    crashes=st.lists(st.integers(1, 80), max_size=3),
)
def test_any_search_ended_anywhere(
    name: str, seed: int, shape: dict[str, Any], suggested: bool, crashes: list[int]
) -> None:
    with tempfile.TemporaryDirectory() as folder:
        searcher = Recording() if suggested and not name.startswith("pbt") else None  # a population has none
        world = World(Path(folder), SCHEDULERS[name], seed, shape, searcher)
        for at in crashes:
            world.fit(at)
        assert world.fit() is not None
        world.check_end()


@pytest.mark.parametrize(
    ("name", "suggested", "shape"),
    [
        ("asha", True, {"trials": 3, "entries": 10}),
        ("pbt", False, {"trials": 2, "keep": 1, "entries": 15}),
        ("pbt", False, {"trials": 2, "can_save": True, "keep": 1}),
        ("hyperband", False, {"trials": 3, "can_save": True}),
    ],
    ids=["asha", "pbt", "pbt of classes", "hyperband of classes"],
)
def test_every_command(tmp_path: Path, name: str, suggested: bool, shape: dict[str, Any]) -> None:
    """The walk comes to every append, commit and deletion, to the beginning and the end of every snapshot."""
    at = 1
    while True:
        folder = tmp_path / str(at)
        folder.mkdir()
        given = {"replaying": 0.05, **shape}
        world = World(folder, SCHEDULERS[name], 5, given, Recording() if suggested else None)
        whole = world.fit(at) is not None
        if not whole:
            assert world.fit() is not None
        world.check_end()
        if whole:
            break
        at += 1
    assert at > 30, "the walk has come to the end of the search"
