"""The job's environment under the task's."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from skate.runtime_env.merge import merge

NAMES = st.text("AB", min_size=1, max_size=2)
ENVS = st.fixed_dictionaries(
    {},
    optional={
        "env_vars": st.dictionaries(NAMES, st.text("xy", max_size=2), min_size=1),
        "working_dir": st.sampled_from(["/a", "/b"]),
        "excludes": st.lists(NAMES, min_size=1),
        "py_modules": st.lists(NAMES, min_size=1),
    },
)


def test_variables_are_merged_and_other_fields_replaced() -> None:
    job = {"env_vars": {"A": "job", "B": "job"}, "working_dir": "/job", "excludes": ["x"]}
    task = {"env_vars": {"B": "task", "C": "task"}, "working_dir": "/task"}
    assert merge(job, task) == {
        "env_vars": {"A": "job", "B": "task", "C": "task"},
        "working_dir": "/task",
        "excludes": ["x"],
    }


def test_one_installer_displaces_another() -> None:
    assert merge({"pip": {"packages": ["a"]}}, {"uv": {"packages": ["b"]}}) == {"uv": {"packages": ["b"]}}
    assert merge({"conda": "x", "env_vars": {"A": "1"}}, {"pip": {"packages": ["a"]}}) == {
        "pip": {"packages": ["a"]},
        "env_vars": {"A": "1"},
    }


def test_an_image_keeps_only_what_may_stand_beside_it() -> None:
    job = {"pip": {"packages": ["a"]}, "env_vars": {"A": "1"}, "container": {"image": "y"}, "config": {}}
    assert merge(job, {"image_uri": "x"}) == {"image_uri": "x", "env_vars": {"A": "1"}, "config": {}}


def test_nothing_merged_with_nothing() -> None:
    assert merge(None, None) == {}
    assert merge({}, None) == {}


@given(ENVS, ENVS)
def test_the_inner_one_wins_and_the_outer_one_fills_up(outer: dict[str, Any], inner: dict[str, Any]) -> None:
    before = repr((outer, inner))
    merged = merge(outer, inner)
    assert repr((outer, inner)) == before
    assert merged.keys() == outer.keys() | inner.keys()
    for name in merged.keys() - {"env_vars"}:
        assert merged[name] == (inner[name] if name in inner else outer[name])
    for name, text in merged.get("env_vars", {}).items():
        assert text == {**outer.get("env_vars", {}), **inner.get("env_vars", {})}[name]


@given(ENVS, ENVS, ENVS)
def test_it_does_not_matter_which_are_merged_first(
    job: dict[str, Any], parent: dict[str, Any], child: dict[str, Any]
) -> None:
    assert merge(merge(job, parent), child) == merge(job, merge(parent, child))


@given(ENVS)
def test_nothing_is_neutral(env: dict[str, Any]) -> None:
    assert merge(env, {}) == merge({}, env) == env
