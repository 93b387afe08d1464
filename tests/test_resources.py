"""Resources as a value: laws of sums and of what fits, against exact arithmetic."""

from __future__ import annotations

from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from skate.resources import Resources

NAMES = st.sampled_from(["CPU", "GPU", "memory", "licence"])
#: Amounts as a node counts them: multiples of 0.0001.
AMOUNTS = st.integers(0, 10**9).map(lambda units: units / 10_000)
SETS = st.dictionaries(NAMES, AMOUNTS).map(Resources)


def exact(amount: float) -> Fraction:
    return Fraction(round(amount * 10_000), 10_000)


@given(st.lists(SETS))
def test_a_total_is_the_exact_sum(parts: list[Resources]) -> None:
    total = Resources.total(parts)
    for name in {name for part in parts for name in part}:
        assert exact(total[name]) == sum(exact(part.get(name, 0)) for part in parts)
        assert total[name] == float(exact(total[name]))


@given(SETS, SETS)
def test_what_was_taken_is_given_back_exactly(have: Resources, part: Resources) -> None:
    assert (have - part) + part == have
    assert (have + part) - part == have


@given(SETS, SETS, SETS)
def test_sums_know_no_order(one: Resources, two: Resources, three: Resources) -> None:
    assert one + two == two + one
    assert (one + two) + three == one + (two + three)
    assert hash(one + two) == hash(two + one)


@given(SETS, SETS)
def test_a_request_fits_where_nothing_is_lacking(request: Resources, have: Resources) -> None:
    short = [name for name in request if exact(request[name]) > exact(have.get(name, 0))]
    assert request.lacking(have) == short
    assert request.fits(have) == (not short)
    assert request.fits(request + have)


@given(SETS, SETS, st.integers(0, 50))
def test_it_fits_as_often_as_it_says(request: Resources, have: Resources, most: int) -> None:
    times = request.times(have, most)
    assert 0 <= times <= most
    assert (request * times).fits(have)
    if times < most:
        assert not (request * (times + 1)).fits(have)


@given(SETS, st.integers(0, 20))
def test_a_multiple_is_a_repeated_sum(one: Resources, count: int) -> None:
    assert one * count == count * one == Resources.total([one] * count)


@given(SETS)
def test_options_and_amounts_are_the_same_thing(one: Resources) -> None:
    assert Resources.from_options(one.to_options()) == one


def test_float_sums_leave_no_dust() -> None:
    left = Resources({"CPU": 0.3}) - {"CPU": 0.1} - {"CPU": 0.1} - {"CPU": 0.1}
    assert dict(left) == {"CPU": 0}
    assert dict(Resources({"CPU": 0.1}) + {"CPU": 0.2}) == {"CPU": 0.3}
    assert (Resources({"CPU": 1 / 3}) * 3).fits({"CPU": 1})
    assert Resources({"CPU": 1 / 3}).times({"CPU": 1}, 9) == 3


def test_a_missing_name_counts_as_zero() -> None:
    assert Resources({"GPU": 0}) == Resources() == {}
    assert hash(Resources({"GPU": 0})) == hash(Resources())
    assert Resources({"GPU": 0}).fits({})
    assert not Resources({"GPU": 0.0001}).fits({})
    assert dict(Resources({"GPU": 0, "CPU": 1}).without_zeros()) == {"CPU": 1}


def test_an_overdrawn_account_has_no_room() -> None:
    assert Resources({"CPU": 1}).times({"CPU": -2}, 5) == 0
    assert Resources({"GPU": 0}).times({}, 5) == 5


def test_the_text_of_resources() -> None:
    assert str(Resources({"CPU": 1.0, "GPU": 0.5})) == "1 CPU, 0.5 GPU"
    assert str(Resources()) == "nothing"
    assert repr(Resources({"CPU": 1})) == "Resources({'CPU': 1})"


def test_resources_are_immutable() -> None:
    one = Resources({"CPU": 1})
    with pytest.raises(TypeError):
        one["CPU"] = 2  # type: ignore[index]


def test_options_ask_for_a_default_cpu_only_where_none_is_named() -> None:
    assert Resources.from_options({}, default_cpus=1) == {"CPU": 1}
    assert Resources.from_options({"num_cpus": 0, "num_gpus": 1}, default_cpus=1) == {"GPU": 1}
    assert Resources.from_options({"memory": 5, "resources": {"licence": 2}}) == {"memory": 5, "licence": 2}
