"""A client that floods a language model delays another client by only a few steps of the engine. Steps are counted, not timed."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncGenerator, Callable, Iterator
from functools import partial
from typing import Any

import httpx
import pytest

pytest.importorskip("transformers", reason="the embedded engine stands on transformers")

from skate.llm import EngineArgs, Increment, SamplingParams
from skate.llm.embedded.engine import EmbeddedEngine
from skate.llm.errors import Overloaded
from skate.llm.openai.app import LocalModels, build_app
from skate.llm.openai.model_service import ModelService
from skate.llm.prompt_texts import _WAITING_MAX, PromptTexts
from tests.llm import tiny
from tests.llm.asking import until
from tests.llm.served import Served

SLOTS = 4
LONG = SamplingParams(max_tokens=150, ignore_eos=True, temperature=0)
SHORT = SamplingParams(max_tokens=2, ignore_eos=True, temperature=0)


def made(folder: Any, **kwargs: Any) -> EmbeddedEngine:
    options = {"max_num_seqs": SLOTS, "max_num_batched_tokens": 24, **kwargs}
    engine = EmbeddedEngine(EngineArgs(str(folder), kwargs=options))
    asyncio.run(engine.start())
    return engine


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Any:
    return tiny.save(tmp_path_factory.mktemp("models") / "tiny")


@pytest.fixture(scope="module")
def engine(folder: Any) -> Iterator[EmbeddedEngine]:
    found = made(folder)
    yield found
    asyncio.run(found.stop())


class Arrivals:
    """Records the steps at which requests arrive and get their first token."""

    def __init__(self, engine: EmbeddedEngine, monkeypatch: pytest.MonkeyPatch) -> None:
        self.arrived: dict[str, int] = {}
        self.first: dict[str, int] = {}
        batcher = engine._batcher
        added, give = batcher._added, batcher._give

        def seen(answers: Any) -> None:
            self.arrived[answers[0].request_id.partition("#")[0]] = batcher.steps
            added(answers)

        def given(answer: Any, item: Any) -> None:
            self.first.setdefault(answer.request_id.partition("#")[0], batcher.steps)
            give(answer, item)

        monkeypatch.setattr(batcher, "_added", seen)
        monkeypatch.setattr(batcher, "_give", given)

    def steps(self, name: str) -> int:
        """Return the number of steps from a request's arrival to its first token, including both."""
        return self.first[name] - self.arrived[name] + 1


async def text_of(stream: AsyncGenerator[Increment, None]) -> list[int]:
    tokens: list[int] = []
    async for new in stream:
        tokens += new.token_ids
    return tokens


async def flood(engine: EmbeddedEngine, prompt: list[int], **more: Any) -> list[asyncio.Task[list[int]]]:
    """Start 40 requests of one client and wait until they fill all slots."""
    tasks = [
        asyncio.create_task(text_of(engine.generate([*prompt, at], LONG, f"long-{at}", client="a")))
        for at in range(40)
    ]
    await until(lambda: engine.load() == (SLOTS, 40 - SLOTS), "all slots to be taken")
    return tasks


async def cancelled(tasks: list[asyncio.Task[Any]], engine: EmbeddedEngine) -> None:
    for each in tasks:
        each.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    await until(lambda: engine.load() == (0, 0), "the end of all requests")


@pytest.mark.parametrize("prompt", [[7], list(range(96))], ids=["short prompts", "long prompts"])
def test_forty_long_requests_of_one_client_delay_a_short_one_of_another_by_a_few_steps(
    prompt: list[int], engine: EmbeddedEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without fair sharing, the short request waited for a long one to end, and for all prompts before it."""

    async def main() -> tuple[int, int]:
        seen = Arrivals(engine, monkeypatch)
        await text_of(engine.generate([1, 2, 3], SHORT, "alone", client="b"))
        tasks = await flood(engine, prompt)
        await text_of(engine.generate([3, 2, 1], SHORT, "beside", client="b"))
        assert not any(each.done() for each in tasks)
        await cancelled(tasks, engine)
        return seen.steps("alone"), seen.steps("beside")

    alone, beside = asyncio.run(main())
    assert alone == 1
    assert beside <= 3 * alone


def test_slots_are_shared_equally_and_what_was_preempted_gets_the_same_answer(engine: EmbeddedEngine) -> None:
    """Greedy and seeded answers that lose their slot resume where they stopped."""

    def ask(client: str, number: int) -> AsyncGenerator[Increment, None]:
        seeded = SamplingParams(max_tokens=60, ignore_eos=True, temperature=0.9, seed=number)
        params = SamplingParams(max_tokens=60, ignore_eos=True, temperature=0) if number % 2 else seeded
        return engine.generate([*range(number, 70 + number)], params, f"{client}-{number}", client=client)

    async def main() -> None:
        alone = [await text_of(ask("", number)) for number in range(6)]
        preempted = 0
        tasks = [asyncio.create_task(text_of(ask("a", number))) for number in range(6)]
        await until(lambda: engine.load() == (SLOTS, 2), "one client to have all slots")
        for client in "bc":
            tasks += [asyncio.create_task(text_of(ask(client, number))) for number in range(6)]
            await until(partial(has_a_slot, engine, client), "a slot for the newcomer")
            preempted += sum(each.preempted for each in list(engine._batcher._waiting))
        assert preempted
        assert await asyncio.gather(*tasks) == alone * 3

    asyncio.run(main())
    assert engine.load() == (0, 0)


def has_a_slot(engine: EmbeddedEngine, client: str) -> bool:
    return client in {each.client for each in list(engine._batcher._slots.holders) if each is not None}


def test_embeddings_of_one_client_do_not_hold_up_another(engine: EmbeddedEngine) -> None:
    order: list[str] = []

    async def embed(client: str, number: int) -> None:
        await engine.embed([number % 250] * 20, f"e-{number}", client=client)
        order.append(client)

    async def main() -> None:
        tasks = [asyncio.create_task(embed("a", number)) for number in range(60)]
        await asyncio.sleep(0)  # one iteration of the loop, in which all of them are sent
        await asyncio.gather(embed("b", 0), *tasks)

    asyncio.run(main())
    assert order.index("b") < 30


def test_a_full_queue_makes_room_for_a_client_that_has_less_in_it(folder: Any) -> None:
    """`max_pending` holds, and a client that fills the queue cannot cause rejections of another client."""
    engine = made(folder, max_num_seqs=1, max_pending=6)

    async def main() -> None:
        ask: Callable[[str, int], Any] = lambda client, number: asyncio.create_task(  # noqa: E731
            text_of(engine.generate([number], LONG, f"{client}-{number}", client=client))
        )
        runs = ask("a", 0)
        await until(lambda: engine.load() == (1, 0), "the first to run")
        waits = [ask("a", number) for number in range(1, 7)]
        await until(lambda: engine.load()[1] == 6, "the queue to be full")
        with pytest.raises(Overloaded, match="6 answers are already waiting"):
            await ask("a", 9)
        other = [ask("b", number) for number in range(1, 4)]
        await until(lambda: sum(each.done() for each in waits) == 3, "room for the other client")
        assert engine.load()[1] <= 6
        for each in waits[:3]:
            assert not each.done(), "the requests that came last make room"
        for each in waits[3:]:
            with pytest.raises(Overloaded, match="other clients"):
                await each
        with pytest.raises(Overloaded, match="6 answers are already waiting"):
            await ask("b", 9)
        await cancelled([runs, *waits[:3], *other], engine)

    try:
        asyncio.run(main())
    finally:
        asyncio.run(engine.stop())


def test_long_texts_of_one_client_neither_delay_nor_displace_those_of_another() -> None:
    """One thread tokenizes long texts; up to 64 may wait."""
    gate, begun, order = threading.Event(), threading.Event(), []

    class Text:
        def encode(self, text: str, special: bool = True) -> list[int]:
            begun.set()
            assert gate.wait(30)
            order.append(text[0])
            return [1]

    texts = PromptTexts(lambda: Text(), lambda: 10**6)  # type: ignore[arg-type,return-value]

    async def main() -> None:
        many = [asyncio.create_task(texts.encode("a" * 3000, client="a"))]
        await until(begun.is_set, "the thread to take the first")
        many += [asyncio.create_task(texts.encode("a" * 3000, client="a")) for _ in range(_WAITING_MAX)]
        await until(lambda: len(texts._waiting) == _WAITING_MAX, "the queue to be full")
        with pytest.raises(Overloaded):
            await texts.encode("a" * 3000, client="a")
        other = asyncio.create_task(texts.encode("b" * 3000, client="b"))
        await until(lambda: any(each.done() for each in many), "room for the other client")
        gate.set()
        assert await other == [1]
        results = await asyncio.gather(*many, return_exceptions=True)
        assert [type(each) for each in results].count(Overloaded) == 1

    asyncio.run(main())
    assert order.index("b") <= 2


def test_the_key_or_else_the_address_is_the_client(
    engine: EmbeddedEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    clients: list[str] = []
    added = engine._batcher._added

    def seen(answers: Any) -> None:
        clients.append(answers[0].client)
        added(answers)

    monkeypatch.setattr(engine._batcher, "_added", seen)
    for keys in ((), ("one", "two")):
        served = Served(build_app(LocalModels([ModelService(engine, "tiny")]), api_keys=keys))
        try:
            with httpx.Client(base_url=served.url, timeout=60, trust_env=False) as http:
                for key in ("one", "two", "one"):
                    headers = {"authorization": f"Bearer {key}"}
                    body = {"model": "tiny", "prompt": "ab", "max_tokens": 1}
                    assert http.post("/v1/completions", json=body, headers=headers).status_code == 200
        finally:
            served.close()
    assert clients[:3] == ["peer:127.0.0.1"] * 3, "a key that was not checked makes no client"
    assert clients[3] == clients[5] != clients[4]
    assert all(each.startswith("key:") for each in clients[3:])
