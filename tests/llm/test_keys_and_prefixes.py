"""API keys that nothing shows, and what places of the cache have of a prompt."""

from __future__ import annotations

import asyncio
import pickle

import pytest
from hypothesis import given
from hypothesis import strategies as st

from skate.llm.embedded.engine import EmbeddedEngine
from skate.llm.embedded.prefixes import WORTH, Hit, Prefixes, common
from skate.llm.openai.keys import ApiKeys
from skate.serve.llm import LLMServingArgs
from skate.serve.llm.app_builder import KEYS_SETTING, _api_keys
from tests.llm.asking import ask


def test_keys_are_shown_nowhere(monkeypatch: pytest.MonkeyPatch) -> None:
    config = {"llm_configs": [{"model_loading_config": {"model_id": "m"}}]}
    args = LLMServingArgs.model_validate({**config, "api_keys": ["sesame"]})
    found = _api_keys(args)
    assert found is not None and found.has(b"sesame") and not found.has(b"sesam") and not found.has(b"")
    for shown in (repr(args), str(args), repr(found), repr(pickle.dumps(found)), args.model_dump_json()):
        assert "sesame" not in shown
    with pytest.raises(ValueError, match="non-empty keys"):
        ApiKeys(["a", " "])
    monkeypatch.setenv(KEYS_SETTING, "one, two")
    of_environment = _api_keys(LLMServingArgs.model_validate(config))
    assert of_environment is not None and of_environment.has(b"one") and of_environment.has(b"two")
    assert not found.has(b"one")
    monkeypatch.delenv(KEYS_SETTING)
    assert _api_keys(LLMServingArgs.model_validate(config)) is None


@given(st.lists(st.integers(0, 2), max_size=30), st.lists(st.integers(0, 2), max_size=30), st.integers(0, 30))
def test_common_is_what_both_begin_with(one: list[int], other: list[int], most: int) -> None:
    size = common(one, other, most)
    assert one[:size] == other[:size] and size <= most
    assert size in (most, len(one), len(other)) or one[size] != other[size]


def test_the_place_with_most_of_a_prompt_is_found() -> None:
    prefixes = Prefixes(3, 1)
    text = list(range(200))
    prefixes.runs(0, None, text[:80])
    prefixes.runs(1, None, text[:120] + [9] * 50)
    prefixes.runs(2, "adapter", text)
    assert prefixes.longest(text, None) == Hit(1, 120)
    assert prefixes.longest(text[:80], None) == Hit(0, 79)  # the last token has to be computed
    assert prefixes.longest(text, "adapter") == Hit(2, 199)
    assert prefixes.longest(text[: WORTH - 1], None) is None
    assert prefixes.longest([5, *text], None) is None
    assert (prefixes.requested, prefixes.found) == (200 + 80 + 200 + 63 + 201, 120 + 79 + 199)
    prefixes.clear()
    assert prefixes.longest(text, None) is None
    off = Prefixes(1, 0)
    off.runs(0, None, text)
    assert off.longest(text, None) is None and off.ended(0, None, text) is None


def test_rows_keep_what_ended_and_give_way_to_what_is_newer() -> None:
    prefixes = Prefixes(1, 2)
    one, two, three = ([each] * 100 for each in range(3))
    assert prefixes.ended(0, None, one) == 1 and prefixes.ended(0, None, two) == 2
    assert prefixes.ended(0, None, one[:90]) is None  # it is there, and of use now
    assert prefixes.ended(0, None, three) == 2 and prefixes.longest(two, None) is None
    assert prefixes.longest(one, None) == Hit(1, 99)
    assert prefixes.ended(0, None, three + two) == 2  # in place of its own start
    assert prefixes.longest(three + two + one, None) == Hit(2, 200)
    assert prefixes.ended(0, None, one[: WORTH - 1]) is None


def test_what_was_computed_before_changes_no_answer(engine: EmbeddedEngine) -> None:
    async def run() -> None:
        start = "The same long beginning of a prompt, which all of them have, again and again. "
        prompts = [start + each for each in ("one", "two", "three", "four", "five", "six")]

        async def cached(prompt: str) -> int:
            from skate.llm import SamplingParams

            total = 0
            async for new in engine.generate(prompt, SamplingParams(max_tokens=3, temperature=0), "r"):
                total += new.cached_tokens
            return total

        engine._batcher.prefixes.clear()
        fresh = []
        for prompt in prompts:
            fresh.append((await ask(engine, prompt, max_tokens=20)).tokens)
            engine._batcher.prefixes.clear()
        assert await cached(prompts[0]) == 0
        assert await cached(prompts[1]) == len(start)
        assert await cached(prompts[1]) == len(prompts[1]) - 1
        # All at once, with places that move and that nobody has in between.
        together = await asyncio.gather(*(ask(engine, each, max_tokens=20) for each in prompts * 3))
        assert [each.tokens for each in together] == fresh * 3
        one_by_one = [(await ask(engine, each, max_tokens=20)).tokens for each in prompts]
        assert one_by_one == fresh

    asyncio.run(run())
