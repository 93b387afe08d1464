"""Resources: exact sums, GPU packing."""

import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, consumes, invariant, rule

from skate.core.resource import resources
from skate.core.resource.resources import UNIT, GpuPool, to_units


def units(**amounts):
    return {name: to_units(amount) for name, amount in amounts.items()}


# ---------------------------------------------------------------- amounts


@pytest.mark.parametrize(
    ("value", "expected"),
    [(0, 0), (0.0, 0), (1, 10_000), (2.5, 25_000), (0.0001, 1), (0.57, 5_700), (0.29, 2_900), (True, 10_000)],
)
def test_amounts_become_units(value, expected):
    assert to_units(value) == expected


@given(st.integers(1, 10_000))
def test_n_requests_of_one_nth_fit_into_one(n):
    assert n * to_units(1 / n) <= UNIT
    assert to_units(1 / n) > 0


@given(st.integers(0, 10**9))
def test_an_amount_of_four_decimals_is_exact(count):
    assert to_units(count / UNIT) == count


@pytest.mark.parametrize("value", [-1, -0.5, -1e-9, math.nan, math.inf, -math.inf, 0.00009])
def test_impossible_amounts_are_refused_by_name(value):
    with pytest.raises(ValueError, match="num_cpus="):
        to_units(value, "num_cpus")


def test_memory_in_bytes_is_exact_however_large():
    assert to_units(2**50 + 1) == (2**50 + 1) * UNIT


AMOUNTS = st.dictionaries(st.sampled_from(["CPU", "GPU", "memory", "x"]), st.integers(1, 50_000))


@given(total=AMOUNTS, requests=st.lists(AMOUNTS, max_size=20))
def test_what_is_taken_when_it_fits_comes_back_exactly(total, requests):
    available = dict(total)
    taken = []
    for request in requests:
        if resources.fits(request, available):
            resources.subtract(available, request)
            taken.append(request)
            resources.check(available, total)
        else:
            assert any(available.get(name, 0) < amount for name, amount in request.items())
    assert resources.total_of([available, *taken]) == total
    for request in taken:
        resources.add(available, request)
    assert available == total


def test_check_finds_every_kind_of_wrong_book():
    for available in ({"CPU": -1}, {"CPU": 2}, {}, {"CPU": 1, "x": 1}):
        with pytest.raises(AssertionError):
            resources.check(available, {"CPU": 1})
    resources.check({"CPU": 0}, {"CPU": 1})


def test_formats_for_people():
    request = units(CPU=1, GPU=0.5)
    assert resources.to_amounts(request) == {"CPU": 1.0, "GPU": 0.5}
    assert resources.format_request(request) == "CPU=1, GPU=0.5"
    assert resources.format_request({}) == "nothing"
    assert resources.human_bytes(1536) == "1.5 KiB"
    assert resources.human_bytes(12) == "12 bytes"
    assert resources.human_bytes(8 * 1024**3) == "8 GiB"


# ---------------------------------------------------------------- GPUs


def whole(*ids):
    return GpuPool((id_, UNIT) for id_ in ids)


def test_halves_pack_onto_one_gpu_and_the_third_goes_to_the_next():
    pool = whole(0, 1)
    assert pool.allocate(5_000) == [(0, 5_000)]
    assert pool.allocate(5_000) == [(0, 5_000)]
    assert pool.allocate(5_000) == [(1, 5_000)]


def test_a_fraction_goes_onto_the_fullest_gpu_that_has_room():
    pool = whole(0, 1, 2)
    third = pool.allocate(3_000)
    assert third == [(0, 3_000)]
    assert pool.allocate(8_000) == [(1, 8_000)]
    assert pool.allocate(2_000) == [(1, 2_000)]
    assert pool.allocate(7_000) == [(0, 7_000)]
    assert pool.allocate(UNIT) == [(2, UNIT)]
    assert pool.allocate(1) is None


def test_whole_gpus_are_never_made_of_fractions():
    pool = whole("a", "b")
    held = pool.allocate(1)
    assert pool.free_units == 2 * UNIT - 1
    assert pool.allocate(2 * UNIT) is None
    assert pool.allocate(UNIT) == [("b", UNIT)]
    pool.free(held)
    assert pool.allocate(UNIT) == [("a", UNIT)]


def test_a_bundle_may_have_whole_gpus_and_a_fraction_or_gets_nothing():
    pool = whole(0, 1)
    held = pool.allocate(15_000)
    assert held == [(0, UNIT), (1, 5_000)]
    assert pool.allocate(15_000) is None
    pool.free(held)
    pool.allocate(6_000)
    assert pool.allocate(15_000) is None
    assert pool.free_units == 14_000


def test_a_pool_of_fractions_gives_back_no_more_than_it_had():
    pool = GpuPool([(3, 5_000)])
    assert pool.allocate(UNIT) is None
    held = pool.allocate(3_000)
    assert held == [(3, 3_000)]
    pool.free(held)
    pool.check()
    pool.free(held)
    with pytest.raises(AssertionError, match="GPU 3"):
        pool.check()


def test_parts_of_several_gpus_do_not_make_a_whole_one():
    pool = whole(0, 1)
    half, other = pool.allocate(6_000), pool.allocate(6_000)
    assert pool.free_units == 8_000 and pool.most_free == 4_000
    assert not pool.fits_after(5_000, ())
    assert pool.fits_after(5_000, [other]) and pool.fits_after(UNIT, [half])
    assert not pool.fits_after(2 * UNIT, [half]) and pool.fits_after(2 * UNIT, [half, other])
    assert pool.free_units == 8_000, "nothing was taken"


def test_a_pool_prints_what_is_free():
    pool = whole(0, 1)
    pool.allocate(2_500)
    assert repr(pool) == "GpuPool(0: 0.75 free, 1: 1 free)"
    assert len(pool) == 2


def test_freeing_twice_is_caught():
    pool = whole(0)
    held = pool.allocate(UNIT)
    pool.free(held)
    pool.free(held)
    with pytest.raises(AssertionError, match="GPU 0"):
        pool.check()


class GpuPoolMachine(RuleBasedStateMachine):
    """Compares with a simple model: a list of holders and amounts."""

    held = Bundle("held")

    def __init__(self):
        super().__init__()
        self.pool = whole(0, 1, 2)
        self.model = dict.fromkeys(range(3), UNIT)

    @rule(target=held, amount=st.one_of(st.integers(1, UNIT), st.sampled_from([UNIT, 2 * UNIT, 3 * UNIT])))
    def allocate(self, amount):
        got = self.pool.allocate(amount)
        if got is None:
            if amount < UNIT:
                assert all(free < amount for free in self.model.values())
            else:
                assert sum(free == UNIT for free in self.model.values()) < amount // UNIT
            return []
        assert sum(taken for _, taken in got) == amount
        assert len({id_ for id_, _ in got}) == len(got)
        if amount < UNIT:
            fullest = min(free for free in self.model.values() if free >= amount)
            assert self.model[got[0][0]] == fullest
        for id_, taken in got:
            assert self.model[id_] >= taken
            self.model[id_] -= taken
        return got

    @rule(held=consumes(held))
    def free(self, held):
        self.pool.free(held)
        for id_, taken in held:
            self.model[id_] += taken

    @invariant()
    def books_agree(self):
        self.pool.check()
        assert self.pool.free_units == sum(self.model.values())


GpuPoolMachine.TestCase.settings = settings(max_examples=50, stateful_step_count=30)
TestGpuPoolMachine = GpuPoolMachine.TestCase
