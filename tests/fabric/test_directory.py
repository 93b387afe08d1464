"""The directory: one verdict about each member, and none about one that still runs."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from skate.fabric.directory import (
    ALIVE,
    DEAD,
    DEAD_MAX,
    DRAINING,
    HEAD,
    JOINING,
    PROBES,
    SAMPLE_MAJORITY,
    SAMPLE_MAX,
    SUSPECT,
    Ask,
    Bury,
    HeadDirectory,
    Leave,
    MemberDirectory,
    Refuse,
    Timing,
)
from tests.fabric.watched import FAULT_KINDS, FAULT_SECONDS, Fault, doubt, inflict, run_watch, steady

T = Timing()


def test_nobody_dies_while_nothing_happens() -> None:
    watch = steady()
    watch.run(300.0)
    watch.agree()
    assert not watch.buried and not watch.relays


def test_a_process_that_ends_is_dead_at_once() -> None:
    watch = steady()
    watch.kill(3)
    assert watch.buried[3][0] == watch.now and watch.states()[3] == DEAD
    watch.run(10.0)
    watch.agree()


def test_the_end_of_a_connection_alone_is_no_verdict() -> None:
    watch = steady()
    assert not watch.head.disconnected(3, watch.now)
    watch.run(30.0)
    assert watch.states()[3] == ALIVE
    watch.head.reconnected(3)
    assert not watch.head.unregistered(3, watch.now)


def test_a_short_cut_is_no_death() -> None:
    watch = steady()
    watch.isolate({3}, 2.0)
    watch.run(60.0)
    watch.agree()
    assert not watch.buried


def test_a_member_that_is_cut_off_leaves_before_the_head_gives_it_up() -> None:
    watch = steady()
    began = watch.now
    watch.isolate({3}, 30.0)
    watch.run(10.0)
    assert began + T.silence - T.beat - 0.2 <= watch.left[3] <= watch.buried[3][0]
    assert watch.buried[3][0] <= began + T.silence + T.ask + 1.0
    assert "was not heard for" in watch.buried[3][1] and "also not by 3 others" in watch.buried[3][1]
    watch.run(60.0)
    watch.agree()


def test_a_pair_that_is_cut_goes_through_another_member() -> None:
    for pairs in ([(3, HEAD)], [(HEAD, 3)], [(3, HEAD), (HEAD, 3)]):
        watch = steady()
        for pair in pairs:
            watch.cut(*pair, 60.0)
        watch.run(50.0)
        assert watch.relays and not watch.buried
        watch.agree()


def test_a_member_that_was_stopped_leaves_when_it_continues() -> None:
    watch = steady()
    watch.stopped[3] = watch.now + 20.0
    watch.run(10.0)
    assert watch.states()[3] == DEAD and not watch.members[3].left
    watch.run(20.0)
    assert watch.members[3].left.startswith("is cut off")
    watch.agree()


def test_a_head_that_was_stopped_buries_nobody() -> None:
    watch = steady()
    watch.stopped[HEAD] = watch.now + 20.0
    watch.run(15.0)
    assert all(member.is_headless for member in watch.members.values())
    watch.run(60.0)
    watch.agree()
    assert not watch.buried and not any(member.is_headless for member in watch.members.values())


def test_members_continue_without_a_head_whichever_of_them_has_heard_it_last() -> None:
    for seed in range(20):
        watch = steady(6, seed)
        watch.run(20.0)
        watch.stopped[HEAD] = watch.now + 20.0
        watch.run(80.0)
        watch.agree()
        assert not watch.buried


def test_the_clock_of_a_head_whose_loop_did_not_turn_is_not_trusted() -> None:
    head = HeadDirectory(1, 0.0)
    for number in (1, 2):
        head.register(number, 0.0)
        head.heard(number, 0.0)
    for turn in range(20):  # too rarely
        head.tick(2.0 * turn)
    head.tick(100.0)
    assert [member.state for member in head.members.values()] == [ALIVE, ALIVE]


def verdicts_after_a_stop(is_back: bool) -> list[float]:
    """Return when a head that was stopped until 20.0 buries its member, which may connect again at 20.2."""
    head = HeadDirectory(1, 0.0)
    head.register(7, 0.0)
    head.heard(7, 0.0)
    head.tick(0.1)
    assert not head.disconnected(7, 20.0)  # before its loop has turned
    head.tick(20.1)
    assert not head.unregistered(7, 20.2)
    if is_back:
        head.reconnected(7)
    buried = []
    for now in (20.3 + 0.25 * turn for turn in range(30)):
        if is_back:
            head.heard(7, now)
        buried += [now for action in head.tick(now) if isinstance(action, Bury)]
    return buried


def test_a_head_that_was_stopped_lets_members_connect_again() -> None:
    assert not verdicts_after_a_stop(is_back=True)


def test_a_head_that_was_stopped_buries_those_who_do_not_connect_again() -> None:
    (when,) = verdicts_after_a_stop(is_back=False)
    assert 20.1 + T.silence <= when <= 20.1 + T.silence + 0.5


def test_a_program_behind_the_head_may_be_silent_for_longer() -> None:
    head = HeadDirectory(1, 0.0)
    for number, patience in ((1, 0.0), (2, 25.0)):
        head.register(number, 0.0, patience)
        head.heard(number, 0.0)
    buried = {}
    for now in (0.25 * turn for turn in range(400)):
        head.heard(1, now)
        for action in head.tick(now):
            if isinstance(action, Bury):
                buried[action.member] = now
    assert set(buried) == {2} and 30.0 <= buried[2] <= 32.0 and not head._look(29.0)[1]


def test_members_go_on_without_a_head_for_the_grace_time() -> None:
    watch = steady()
    watch.stopped[HEAD] = watch.now + 1000.0
    watch.run(T.silence + T.grace - 2.0)
    assert not watch.left
    watch.run(5.0)
    assert set(watch.left) == {1, 2, 3, 4}
    assert "has not heard the head" in watch.members[1].left


def test_a_head_that_lost_most_members_doubts_itself() -> None:
    watch = steady(7)
    watch.isolate({1, 2, 3, 4}, 40.0)
    watch.run(35.0)
    assert not watch.buried and watch.head._look(watch.now)[1]
    assert not watch.left, "the four hear nothing of the head, and are most of the seven"
    watch.run(60.0)
    watch.agree()
    assert not watch.buried


def test_the_head_waits_after_a_doubt_until_one_that_continued_without_it_has_left() -> None:
    watch = steady()
    began = watch.now
    doubt(watch, 3, 8.0)
    assert not watch.left and not watch.buried and watch.members[3].is_headless
    watch.run(T.silence + 2.0)
    assert set(watch.left) == {3} == set(watch.buried)
    assert watch.left[3] <= began + 8.0 + 2 * T.ask < began + 8.0 + T.silence <= watch.buried[3][0]
    watch.run(60.0)
    watch.agree()


def test_the_head_believes_the_silence_of_most_after_the_grace_time() -> None:
    watch = steady(7)
    watch.isolate({1, 2, 3, 4}, 200.0)
    watch.run(T.silence + T.grace + 8.0)
    assert set(watch.buried) == {1, 2, 3, 4} == set(watch.left)
    watch.agree()


def test_a_minority_that_is_cut_off_leaves() -> None:
    watch = steady(7)
    watch.isolate({1, 2}, 30.0)
    watch.run(10.0)
    assert set(watch.left) == {1, 2} == set(watch.buried)


def test_a_head_with_one_member_wins_the_tie() -> None:
    watch = steady(2)
    watch.isolate({1}, 30.0)
    watch.run(10.0)
    assert set(watch.left) == {1} == set(watch.buried)


def test_a_dead_member_that_speaks_is_refused() -> None:
    head = HeadDirectory(1, 0.0)
    assert head.heard(7, 0.0) == [Refuse(7)], "it is not known"
    head.register(7, 0.0)
    head.heard(7, 0.0)
    head.disconnected(7, 0.0)
    head.unregistered(7, 0.0)
    assert head.heard(7, 0.0) == [Refuse(7)]
    member = MemberDirectory(7, 2, 0.0)
    assert not member.refused(1), "an old head"
    assert member.refused(2) and member.left == "was declared dead by the head"
    assert not member.tick(1.0)


def test_only_the_newest_head_is_obeyed() -> None:
    member = MemberDirectory(1, 3, 0.0)
    assert not member.accepts(2) and member.accepts(3) and member.accepts(4) and not member.accepts(3)


def test_one_that_never_speaks_is_no_member() -> None:
    head = HeadDirectory(1, 0.0)
    head.register(1, 0.0)
    assert head.members[1].state == JOINING and not head.members[1].is_living
    assert head.tick(T.silence) == [Refuse(1)] and not head.members


def test_a_drain_ends_with_an_expected_death() -> None:
    watch = steady()
    assert watch.head.drain(3, watch.now + 10.0, "spot") and not watch.head.drain(9, 0.0, "")
    watch.run(5.0)
    assert watch.states()[3] == DRAINING
    assert watch.head.drained(3) == [Bury(3, "was drained (spot)", True)]
    assert not watch.head.drained(3) and not watch.head.drained(2)


def test_a_drain_ends_by_its_deadline() -> None:
    watch = steady()
    watch.head.drain(3, watch.now + 10.0, "spot")
    watch.run(11.0)
    assert watch.buried[3][1] == "was drained (spot), and did not end by the deadline"


def test_a_draining_member_that_was_suspected_drains_on() -> None:
    head = HeadDirectory(1, 0.0)
    head.register(1, 0.0)
    head.heard(1, 0.0)
    for turn in range(51):
        head.tick(turn * 0.1)
        head.drain(1, 100.0, "spot")
    assert head.members[1].state == SUSPECT
    head.heard(1, 6.0)
    assert head.members[1].state == DRAINING


def test_the_dead_are_forgotten_in_the_end() -> None:
    head = HeadDirectory(1, 0.0)
    for number in range(1, DEAD_MAX + 10):
        head.register(number, 0.0)
        head.heard(number, 0.0)
        head.disconnected(number, 0.0)
        head.unregistered(number, 0.0)
    assert len(head.members) == DEAD_MAX and 1 not in head.members


# -- an adversary

FAULTS = st.lists(
    st.tuples(
        st.sampled_from(FAULT_KINDS), st.integers(0, 5), st.integers(0, 5), st.sampled_from(FAULT_SECONDS)
    ),
    max_size=12,
)


@settings(max_examples=60, deadline=None)
@given(st.integers(2, 6), FAULTS)
def test_no_member_runs_on_that_was_declared_dead(count: int, faults: list[Fault]) -> None:
    inflict(steady(count), faults)


@pytest.mark.parametrize("block", range(4))
def test_nor_in_long_runs(block: int) -> None:
    for seed in range(block, 100, 4):
        run_watch(seed)


def test_a_member_of_a_large_cluster_asks_a_sample() -> None:
    def asked(number: int) -> tuple[MemberDirectory, list[int]]:
        directory = MemberDirectory(number, 1, 0.0)
        for other in range(1, 1001):
            if other != number:
                directory.joined(other, 0.0)
        first = [each.peer for each in directory.tick(3.1) if isinstance(each, Ask)]
        found = [each.peer for each in directory.tick(4.1) if isinstance(each, Ask)]
        assert len(first) == PROBES and len(set(found)) == SAMPLE_MAX
        return directory, found

    _, of_another = asked(8)
    for deaf, leaves in ((SAMPLE_MAJORITY - 2, True), (SAMPLE_MAJORITY - 1, False)):
        directory, found = asked(7)
        assert found != of_another
        for peer in found[:deaf]:
            directory.answer(peer, False, 4.5)
        assert [type(each) for each in directory.tick(5.1) if isinstance(each, Leave)] == [Leave] * leaves
