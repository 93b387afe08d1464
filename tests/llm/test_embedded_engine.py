"""The embedded engine: each request gets what it would get alone, and no more than it asked for."""

from __future__ import annotations

import asyncio
import math
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from transformers import AutoModelForCausalLM

from skate.llm import EngineArgs, SamplingParams
from skate.llm.embedded.engine import EmbeddedEngine
from skate.llm.errors import BadRequest, EngineStopped, NotSupported, Overloaded, PromptTooLong
from tests.llm import tiny
from tests.llm.asking import Answered, ask, ask_all, until


@pytest.fixture(scope="session")
def reference(model_folder: Path) -> Any:
    return AutoModelForCausalLM.from_pretrained(model_folder)


def generated(model: Any, prompt: list[int], count: int) -> list[int]:
    """The output of transformers' own generate for a prompt."""
    ids = torch.tensor([prompt])
    with torch.inference_mode():
        out = model.generate(ids, attention_mask=torch.ones_like(ids), max_new_tokens=count, do_sample=False)
    tokens: list[int] = out[0, len(prompt) :].tolist()
    return tokens


prompts = st.lists(st.integers(0, 255), min_size=1, max_size=60)
sampled = st.fixed_dictionaries(
    {"temperature": st.sampled_from([0.5, 1.0, 1.7]), "seed": st.integers(0, 1000)},
    optional={
        "top_p": st.floats(0.1, 1),
        "top_k": st.integers(1, 40),
        "min_p": st.floats(0, 0.3),
        "presence_penalty": st.floats(-2, 2),
        "frequency_penalty": st.floats(-2, 2),
        "repetition_penalty": st.floats(0.5, 2),
        "n": st.integers(1, 3),
        "stop": st.lists(st.text(min_size=1, max_size=2), max_size=2),
        "logit_bias": st.dictionaries(st.integers(0, 255), st.floats(-50, 5), max_size=3),
        "logprobs": st.integers(0, 3),
        "min_tokens": st.integers(0, 5),
    },
)
greedy = st.just({"temperature": 0.0})
requests = st.fixed_dictionaries(
    {
        "prompt": prompts,
        "max_tokens": st.integers(5, 18),
        "params": greedy | sampled,
        #: How many increments of the request before it come first, and after how many it is given up.
        "after": st.integers(0, 6),
        "gives_up": st.none() | st.integers(1, 8),
    }
)


@given(st.lists(requests, min_size=1, max_size=6))
@settings(max_examples=10, deadline=None, suppress_health_check=list(HealthCheck))
def test_any_mix_of_requests_gives_each_what_it_gets_alone(
    engine: EmbeddedEngine, reference: Any, mix: list[dict[str, Any]]
) -> None:
    async def run() -> None:
        turns = [asyncio.Event() for _ in range(len(mix) + 1)]
        turns[0].set()

        async def one(number: int, request: dict[str, Any]) -> list[Answered]:
            await turns[number].wait()
            params = SamplingParams(max_tokens=request["max_tokens"], **request["params"])
            answers = [Answered() for _ in range(params.n)]
            seen = 0
            stream = engine.generate(request["prompt"], params, str(number))
            if request["after"] == 0:
                turns[number + 1].set()
            async for new in stream:
                answers[new.index].take(new)
                seen += 1
                if seen >= request["after"]:
                    turns[number + 1].set()
                if seen == request["gives_up"]:
                    await stream.aclose()
                    break
            turns[number + 1].set()
            return answers

        together = await asyncio.gather(*(one(number, request) for number, request in enumerate(mix)))
        for request, got in zip(mix, together, strict=True):
            params = {"max_tokens": request["max_tokens"], **request["params"]}
            alone = await ask_all(engine, request["prompt"], **params)
            for mine, other in zip(got, alone, strict=True):
                if mine.finish_reason is None:  # given up
                    assert other.tokens[: len(mine.tokens)] == mine.tokens
                    assert other.text.startswith(mine.text)
                    continue
                assert (mine.tokens, mine.text, mine.finish_reason) == (
                    other.tokens,
                    other.text,
                    other.finish_reason,
                )
            if request["params"] == {"temperature": 0.0}:
                wanted = generated(reference, request["prompt"], request["max_tokens"])
                assert alone[0].tokens == wanted
        assert engine.load() == (0, 0)

    asyncio.run(run())


def test_every_place_is_free_as_soon_as_requests_are_given_up(engine: EmbeddedEngine) -> None:
    async def run() -> None:
        streams = [
            engine.generate([1, 2, 3], SamplingParams(max_tokens=200, ignore_eos=True, seed=1), str(n))
            for n in range(4)
        ]
        for each in streams:
            await anext(each)
        waits = asyncio.create_task(ask(engine, [5, 6], max_tokens=3))
        for each in streams:
            await each.aclose()
        await asyncio.wait_for(waits, 10)
        assert engine.load() == (0, 0)

    asyncio.run(run())


def test_a_cancelled_reader_ends_its_request(engine: EmbeddedEngine) -> None:
    async def run() -> None:
        reader = asyncio.create_task(ask(engine, [1], max_tokens=250, ignore_eos=True))
        await until(lambda: engine.load() != (0, 0), "the request to come in")
        reader.cancel()
        with pytest.raises(asyncio.CancelledError):
            await reader
        await ask(engine, [2], max_tokens=1)
        assert engine.load() == (0, 0)

    asyncio.run(run())


def test_abort_ends_an_answer_with_its_reason(engine: EmbeddedEngine) -> None:
    async def run() -> None:
        stream = engine.generate([1, 2], SamplingParams(max_tokens=250, ignore_eos=True), "mine")
        await anext(stream)
        await engine.abort("mine")
        await engine.abort("nobody's")
        *_, last = [new async for new in stream]
        assert last.finish_reason == "abort"

    asyncio.run(run())


def test_those_who_wait_longest_are_next(engine: EmbeddedEngine) -> None:
    async def run() -> None:
        order: list[int] = []

        async def one(number: int) -> None:
            await ask(engine, [number + 1, 7], max_tokens=20, ignore_eos=True)
            order.append(number)

        tasks = []
        for number in range(12):
            tasks.append(asyncio.create_task(one(number)))
            await asyncio.sleep(0)  # one turn of the loop, so that they come in this order
        await asyncio.gather(*tasks)
        rounds = [set(order[at : at + 4]) for at in (0, 4, 8)]
        assert rounds == [{0, 1, 2, 3}, {4, 5, 6, 7}, {8, 9, 10, 11}]

    asyncio.run(run())


def test_a_long_prompt_does_not_hold_up_those_that_run(engine: EmbeddedEngine) -> None:
    async def run() -> None:
        stream = engine.generate([3], SamplingParams(max_tokens=200, ignore_eos=True, temperature=0), "runs")
        got = len((await anext(stream)).token_ids)
        before = engine._batcher.steps
        long = await ask(engine, list(range(200)), max_tokens=1)
        # 200 tokens in parts of 24 are nine steps; in each of them the other continued.
        assert engine._batcher.steps - before >= 9 and long.finish_reason == "length"
        async for new in stream:
            got += len(new.token_ids)
        assert got == 200

    asyncio.run(run())


def test_logprobs_are_the_models(engine: EmbeddedEngine, reference: Any) -> None:
    prompt = [10, 20, 30]
    answer = asyncio.run(ask(engine, prompt, max_tokens=5, logprobs=3, ignore_eos=True))
    with torch.inference_mode():
        logits = reference(torch.tensor([prompt + answer.tokens])).logits[0]
    for at, found in enumerate(answer.logprobs):
        likely = torch.log_softmax(logits[len(prompt) - 1 + at], -1)
        best = likely.topk(3)
        assert found.token == answer.tokens[at] == best.indices[0]
        assert [token for token, _ in found.top] == best.indices.tolist()
        assert found.logprob == pytest.approx(float(best.values[0]), abs=1e-4)
        assert [value for _, value in found.top] == pytest.approx(best.values.tolist(), abs=1e-4)


def test_draws_have_the_models_probabilities(engine: EmbeddedEngine, reference: Any) -> None:
    prompt = [40, 41]

    async def run(**params: Any) -> Counter[int]:
        counts: Counter[int] = Counter()
        for part in range(6):
            answers = await ask_all(engine, prompt, n=100, max_tokens=1, seed=part, ignore_eos=True, **params)
            counts.update(each.tokens[0] for each in answers)
        return counts

    with torch.inference_mode():
        logits = reference(torch.tensor([prompt])).logits[0, -1].double()
    for params in ({"temperature": 0.7}, {"temperature": 1.3, "top_k": 5}):
        scaled = logits / params["temperature"]
        if "top_k" in params:
            scaled[scaled < scaled.topk(int(params["top_k"])).values[-1]] = -math.inf
        likely = scaled.softmax(-1)
        counts = asyncio.run(run(**params))
        top = likely.topk(4)
        for token, p in zip(top.indices.tolist(), top.values.tolist(), strict=True):
            # Five standard deviations of 600 draws.
            assert abs(counts[token] / 600 - p) < 5 * math.sqrt(p * (1 - p) / 600) + 1e-9
        assert all(likely[token] > 0 for token in counts)


def test_a_seed_repeats_an_answer_and_none_does_not(engine: EmbeddedEngine) -> None:
    async def run() -> None:
        params = {"max_tokens": 30, "temperature": 1.0, "ignore_eos": True}
        first, second = await ask(engine, [9], seed=5, **params), await ask(engine, [9], seed=5, **params)
        assert first.tokens == second.tokens
        free = [tuple((await ask(engine, [9], **params)).tokens) for _ in range(3)]
        assert len(set(free)) == 3
        several = await ask_all(engine, [9], n=3, seed=5, **params)
        assert several[0].tokens == first.tokens and len({tuple(each.tokens) for each in several}) == 3

    asyncio.run(run())


def test_stop_texts_over_the_borders_of_tokens(engine: EmbeddedEngine) -> None:
    async def run() -> None:
        free = await ask(engine, [65, 66], max_tokens=60, ignore_eos=True)
        text = free.text
        stop = text[7:11]  # four tokens, as each is a byte
        at = text.index(stop)
        cut = await ask(engine, [65, 66], max_tokens=60, ignore_eos=True, stop=["never seen", stop])
        assert (cut.text, cut.finish_reason, cut.stop_reason) == (text[:at], "stop", stop)
        kept = await ask(
            engine, [65, 66], max_tokens=60, ignore_eos=True, stop=stop, include_stop_str_in_output=True
        )
        assert kept.text == text[:at] + stop
        token = free.tokens[5]
        by_token = await ask(engine, [65, 66], max_tokens=60, ignore_eos=True, stop_token_ids=[token])
        assert by_token.stop_reason == token
        assert by_token.tokens == free.tokens[: free.tokens.index(token) + 1]
        # What may be the start of a stop text comes out after all if the answer ends before the rest of it.
        open_ended = await ask(engine, [65, 66], max_tokens=9, ignore_eos=True, stop=text[7:9] + "!no")
        assert open_ended.text == (await ask(engine, [65, 66], max_tokens=9, ignore_eos=True)).text

    asyncio.run(run())


def test_penalties_are_as_openai_has_them(engine: EmbeddedEngine, reference: Any) -> None:
    prompt, tokens = [50, 51, 52], []
    counts = torch.zeros(tiny.VOCABULARY)
    for _ in range(25):
        with torch.no_grad():
            logits = reference(torch.tensor([prompt + tokens])).logits[0, -1].clone()
        seen = torch.tensor(sorted({*prompt, *tokens}))
        logits[seen] = torch.where(logits[seen] > 0, logits[seen] / 1.3, logits[seen] * 1.3)
        logits -= 0.4 * counts + 0.6 * (counts > 0)
        token = int(logits.argmax())
        counts[token] += 1
        tokens.append(token)
    answer = asyncio.run(
        ask(
            engine, prompt, max_tokens=25, ignore_eos=True, frequency_penalty=0.4, presence_penalty=0.6, repetition_penalty=1.3
        )
    )  # fmt: skip
    assert answer.tokens == tokens


def test_the_context_ends_an_answer_and_too_long_a_prompt_is_refused(engine: EmbeddedEngine) -> None:
    async def run() -> None:
        answer = await ask(engine, [1] * 250, max_tokens=None, ignore_eos=True)
        assert len(answer.tokens) == 6 and answer.finish_reason == "length"
        with pytest.raises(PromptTooLong, match=r"context is 256 tokens.*prompt has 256"):
            await ask(engine, [1] * 256)

    asyncio.run(run())


@pytest.mark.parametrize(
    ("prompt", "params", "error", "match"),
    [
        ([], {}, BadRequest, "empty"),
        ([1, 260], {}, BadRequest, "token 260"),
        ([1], {"logit_bias": {999: 1.0}}, BadRequest, "no token 999"),
        ([1], {"extra": {"best_of": 2}}, NotSupported, "best_of"),
    ],
)
def test_what_does_not_go_is_refused(
    engine: EmbeddedEngine, prompt: list[int], params: dict[str, Any], error: type[Exception], match: str
) -> None:
    with pytest.raises(error, match=match):
        asyncio.run(ask(engine, prompt, **params))


def test_embeddings_are_means_of_the_last_layer(engine: EmbeddedEngine, reference: Any) -> None:
    async def run() -> list[list[float]]:
        made = await asyncio.gather(*(engine.embed([5] * size + [7], str(size)) for size in (1, 9, 30)))
        assert [each.prompt_tokens for each in made] == [2, 10, 31]
        return [each.vector for each in made]

    for size, vector in zip((1, 9, 30), asyncio.run(run()), strict=True):
        with torch.inference_mode():
            hidden = reference.model(torch.tensor([[5] * size + [7]])).last_hidden_state[0].mean(0)
        assert vector == pytest.approx((hidden / hidden.norm()).tolist(), abs=1e-5)


def test_a_step_that_breaks_ends_its_answers_and_not_the_engine(
    engine: EmbeddedEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: Any) -> Any:
        raise RuntimeError("no memory")

    with monkeypatch.context() as patched:
        patched.setattr(engine._model, "decode", broken)
        with pytest.raises(EngineStopped, match="no memory"):
            asyncio.run(ask(engine, [1], max_tokens=5, ignore_eos=True))
    assert asyncio.run(ask(engine, [1], max_tokens=2, ignore_eos=True)).finish_reason == "length"
    assert engine.load() == (0, 0)


def test_too_many_that_wait_are_refused_and_stop_ends_all(model_folder: Path) -> None:
    async def run() -> None:
        engine = EmbeddedEngine(EngineArgs(str(model_folder), kwargs={"max_num_seqs": 1, "max_pending": 2}))
        await engine.start()
        long = {"max_tokens": 250, "ignore_eos": True}
        runs = asyncio.create_task(ask(engine, [1], **long))
        await until(lambda: engine.load()[0] > 0, "the first answer to run")
        waits = asyncio.create_task(ask_all(engine, [2], n=2, temperature=1, **long))
        await until(lambda: engine.load()[1] >= 2, "two answers to wait")
        with pytest.raises(Overloaded, match="2 answers are already waiting"):
            await ask(engine, [3])
        await engine.check_health()
        await engine.stop()
        for task in (runs, waits):
            with pytest.raises(EngineStopped):
                await task
        with pytest.raises(EngineStopped):
            await engine.check_health()
        with pytest.raises(EngineStopped):
            await ask(engine, [3])

    asyncio.run(run())


@pytest.mark.parametrize(
    ("kwargs", "match"),
    [
        ({"tensor_parallel_size": 2}, "in one process"),
        ({"max_num_seq": 2}, "did you mean max_num_seqs"),
        ({"max_model_len": 1000}, "above the model's limit"),
        ({"kv_cache_memory_bytes": 10}, "kv_cache_memory_bytes"),
        ({"dtype": "int3"}, "dtype"),
    ],
)
def test_arguments_that_do_not_go_are_named(model_folder: Path, kwargs: dict[str, Any], match: str) -> None:
    with pytest.raises(ValueError, match=match):
        asyncio.run(EmbeddedEngine(EngineArgs(str(model_folder), kwargs=kwargs)).start())


def test_a_window_of_attention_is_kept(tmp_path: Path) -> None:
    from transformers import MistralConfig, MistralForCausalLM

    torch.manual_seed(1)
    config = MistralConfig(
        vocab_size=tiny.VOCABULARY, hidden_size=32, intermediate_size=64, num_hidden_layers=2, num_attention_heads=4,
        num_key_value_heads=2, max_position_embeddings=256, sliding_window=8, eos_token_id=tiny.END, initializer_range=0.2,
    )  # fmt: skip
    model = MistralForCausalLM(config).eval()
    model.save_pretrained(tmp_path)
    tiny.tokenizer().save_pretrained(tmp_path)

    async def run() -> None:
        engine = EmbeddedEngine(EngineArgs(str(tmp_path), kwargs={"max_num_batched_tokens": 16}))
        await engine.start()
        prompts = [list(range(at, at + size)) for at, size in ((0, 3), (20, 30), (60, 14))]
        got = await asyncio.gather(*(ask(engine, each, max_tokens=20, ignore_eos=True) for each in prompts))
        for prompt, answer in zip(prompts, got, strict=True):
            tokens = list(prompt)
            for _ in range(20):
                with torch.inference_mode():
                    tokens.append(int(model(torch.tensor([tokens]), use_cache=False).logits[0, -1].argmax()))
            assert answer.tokens == tokens[len(prompt) :]
        await engine.stop()

    asyncio.run(run())


def test_encoders_make_embeddings(tmp_path: Path) -> None:
    from transformers import BertConfig, BertModel

    torch.manual_seed(2)
    config = BertConfig(
        vocab_size=tiny.VOCABULARY, hidden_size=32, intermediate_size=64, num_hidden_layers=2, num_attention_heads=4,
        max_position_embeddings=64,
    )  # fmt: skip
    model = BertModel(config).eval()
    model.save_pretrained(tmp_path)
    tiny.tokenizer().save_pretrained(tmp_path)

    async def run() -> None:
        engine = EmbeddedEngine(EngineArgs(str(tmp_path), task="embed"))
        await engine.start()
        prompts = [[1, 2, 3], list(range(40)), [9]]
        found = await asyncio.gather(*(engine.embed(each, "r") for each in prompts))
        for prompt, each in zip(prompts, found, strict=True):
            with torch.inference_mode():
                mean = model(torch.tensor([prompt])).last_hidden_state[0].mean(0)
            assert each.vector == pytest.approx((mean / mean.norm()).tolist(), abs=1e-5)
        with pytest.raises(NotSupported, match="embeddings"):
            await ask(engine, [1])
        with pytest.raises(PromptTooLong):
            await engine.embed([1] * 65, "r")
        await engine.stop()

    asyncio.run(run())
