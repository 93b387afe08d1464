"""Text as it comes: the parts are what the whole decodes to, no character is torn, no stop text slips through."""

from __future__ import annotations

from collections.abc import Sequence

from hypothesis import given
from hypothesis import strategies as st

from skate.llm.detokenizer import Detokenizer, StopTexts
from tests.llm import tiny

TOKENIZER = tiny.tokenizer()


def decode(tokens: Sequence[int]) -> str:
    text: str = TOKENIZER.backend_tokenizer.decode(tokens, skip_special_tokens=True)
    return text


texts = st.text(st.sampled_from("ab é€😀한\n\u0301") | st.characters(exclude_categories=["Cs"]), max_size=40)


@given(texts)
def test_parts_of_a_text_are_whole_characters(text: str) -> None:
    detokenizer = Detokenizer(decode)
    parts = [detokenizer(token) for token in TOKENIZER.encode(text)]
    assert "".join(parts) + detokenizer.rest() == text
    if "\ufffd" not in text:
        assert not any("\ufffd" in part for part in parts)


@given(st.lists(st.integers(0, 256), max_size=120))
def test_parts_of_any_tokens_are_what_the_whole_decodes_to(tokens: list[int]) -> None:
    detokenizer = Detokenizer(decode)
    parts = [detokenizer(token) for token in tokens]
    assert "".join(parts) + detokenizer.rest() == decode(tokens)


def test_a_text_is_not_held_longer_than_a_character_takes() -> None:
    detokenizer = Detokenizer(decode)
    assert [detokenizer(token) for token in TOKENIZER.encode("a€b")] == ["a", "", "", "€", "b"]


def test_much_that_is_no_text_stays_cheap() -> None:
    longest = 0

    def counted(tokens: Sequence[int]) -> str:
        nonlocal longest
        longest = max(longest, len(tokens))
        return decode(tokens)

    detokenizer = Detokenizer(counted)
    broken = TOKENIZER.encode("é")[1]  # a continuation byte
    text = "".join(detokenizer(broken) for _ in range(500)) + detokenizer.rest()
    assert text == "\ufffd" * 500 and longest < 60


stop_texts = st.lists(st.text("ab", min_size=1, max_size=4), max_size=3)


@given(st.lists(st.text("abc", max_size=4), max_size=12), stop_texts, st.booleans())
def test_the_first_stop_text_ends_it_wherever_parts_begin(
    parts: list[str], stops: list[str], include: bool
) -> None:
    text = "".join(parts)
    found = sorted((at, -len(stop), stop) for stop in stops if (at := text.find(stop)) >= 0)
    checker = StopTexts(stops, include)
    out, ended = "", None
    for part in parts:
        new, ended = checker(part)
        out += new
        if ended is not None:
            break
    if ended is None:
        assert not found and out + checker.rest() == text
        return
    # The one that is whole first: where one stop text lies in another, the shorter may end the answer before the other is whole.
    at = text.find(ended)
    assert out == text[: at + len(ended) if include else at]
    seen = text[: at + len(ended)]
    assert all(other == ended or other not in seen[:-1] or seen.find(other) >= at for other in stops)
