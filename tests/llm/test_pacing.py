"""Increments that come close together go out as one, the first and the last of an answer at once."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from skate.llm.increment_batcher import AT_THE_END, IncrementBatcher
from skate.llm.output import Increment, TokenLogprob


def new(token: int, end: str | None = None, index: int = 0) -> Increment:
    return Increment(
        index, chr(97 + token), [token], [TokenLogprob(token, -1.0)], end, completion_tokens=token + 1
    )


def test_the_first_goes_at_once_the_rest_together() -> None:
    batcher = IncrementBatcher(1.0)
    out = []
    for number in range(10):
        batcher.add(new(number, "stop" if number == 9 else None))
        out.append([each.text for each in batcher.take(number * 0.3)])
    assert out == [["a"], [], [], [], ["bcde"], [], [], [], ["fghi"], ["j"]]


def test_nothing_goes_before_the_end_if_nobody_wants_it() -> None:
    batcher = IncrementBatcher(AT_THE_END)
    for number in range(5):
        batcher.add(new(number))
        assert batcher.take(1e9) == []
    batcher.add(new(5, "length"))
    (whole,) = batcher.take(0.0)
    assert whole.text == "abcdef" and whole.token_ids == list(range(6)) and whole.completion_tokens == 6
    assert whole.finish_reason == "length" and [each.token for each in whole.logprobs or ()] == list(range(6))


def test_what_is_held_goes_in_front_of_an_error() -> None:
    batcher = IncrementBatcher(9.0)
    batcher.add(new(0))
    assert batcher.take(0.0)
    batcher.add(new(1))
    assert batcher.take(1.0) == [] and [each.text for each in batcher.take(1.0, all_of_it=True)] == ["b"]


@given(
    st.lists(st.tuples(st.integers(0, 2), st.floats(0, 1)), min_size=1, max_size=40),
    st.sampled_from([0.0, 0.5, AT_THE_END]),
)
def test_nothing_is_lost_and_each_answer_keeps_its_order(
    steps: list[tuple[int, float]], every: float
) -> None:
    batcher, now = IncrementBatcher(every), 0.0
    pieces, out = ["", "", ""], ["", "", ""]
    last = {index: at for at, (index, _) in enumerate(steps)}
    for at, (index, seconds) in enumerate(steps):
        now += seconds
        letter = chr(97 + at)
        pieces[index] += letter
        batcher.add(Increment(index, letter, [at], finish_reason="stop" if last[index] == at else None))
        for each in batcher.take(now):
            out[each.index] += each.text
        if every == 0.0 or last[index] == at:
            assert out[index] == pieces[index]
    assert out == pieces and batcher.take(now) == []
