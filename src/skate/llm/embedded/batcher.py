"""The loop of the embedded engine: requests join and leave the batch at each step, in a thread of its own."""

from __future__ import annotations

import logging
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from skate.llm.embedded.answer import Answer
from skate.llm.embedded.model import Model
from skate.llm.embedded.prefixes import Prefixes
from skate.llm.embedded.sampler import choose
from skate.llm.embedded.slots import Slots
from skate.llm.embedded.stream import Stream, wake
from skate.llm.embedded.turns import Turns
from skate.llm.errors import EngineStopped, LLMError

_log = logging.getLogger("skate.llm")


@dataclass(eq=False)
class EmbedRequest:
    """A prompt that is to be a vector; `done` is called with it or with what went wrong."""

    prompt: list[int]
    adapter: str | None
    done: Callable[[list[float] | Exception], None]


class Batcher:
    """Runs a model step by step over all answers in progress.

    A step takes what is new, gives free places to requests in turn, computes a part of the prompts (at most
    `max_num_batched_tokens`, so that running answers go on) and one token for each answer that runs.
    """

    def __init__(self, make: Callable[[], Model], clock: Callable[[], float] = time.perf_counter) -> None:
        self._make = make
        self.clock = clock
        self.model: Model | None = None
        self.error: Exception | None = None
        self.steps = 0
        self._commands: deque[Callable[[], None]] = deque()
        self._news = threading.Event()
        self._ready = threading.Event()
        self._stopping = False
        # No command may come in behind the last look at them.
        self._door = threading.Lock()
        self._ended = False
        self._waiting = Turns()
        self._prefilling: deque[Answer] = deque()
        self._embeds: deque[EmbedRequest] = deque()
        self._touched: dict[Stream, None] = {}
        self._thread = threading.Thread(target=self._main, name="skate-llm-engine", daemon=True)

    # Called from other threads.

    def start(self) -> Model:
        """Load the model in the engine's thread. Raises what went wrong there."""
        self._thread.start()
        self._ready.wait()
        if self.model is None:
            assert self.error is not None
            raise self.error
        return self.model

    def add(self, answers: Sequence[Answer]) -> None:
        """Let answers wait for places."""
        self._tell(lambda: self._added(answers))

    def embed(self, request: EmbedRequest) -> None:
        """Let a prompt wait for its vector."""
        self._tell(lambda: self._embeds.append(request))

    def forget(self) -> None:
        """Drop cached prefixes, so that all prompts are computed anew."""
        self._tell(lambda: self.prefixes.clear())

    def abort(self, request_id: str) -> None:
        """End the answers of a request; if the engine has ended, they have."""
        try:
            self._tell(lambda: self._aborted(request_id))
        except EngineStopped:
            pass

    def stop(self) -> None:
        """End the thread; answers in progress end with EngineStopped."""
        self._stopping = True
        self._news.set()
        if self._thread.is_alive() and threading.current_thread() is not self._thread:
            self._thread.join()

    @property
    def alive(self) -> bool:
        """True if requests are still answered."""
        return self._thread.is_alive() and not self._stopping

    @property
    def load(self) -> tuple[int, int]:
        """Answers that run and that wait, for metrics and limits; may be a step old."""
        running = self._slots.used if self.model is not None and not self.model.embeds else 0
        return running, len(self._waiting)

    def _tell(self, command: Callable[[], None]) -> None:
        with self._door:
            if self._ended:
                raise EngineStopped("the engine was stopped")
            self._commands.append(command)
        self._news.set()

    # All below runs in the engine's thread.

    def _main(self) -> None:
        try:
            self.model = self._make()
            places = 1 if self.model.embeds else self.model.cache.slots
            self._slots: Slots[Answer] = Slots(places)
            self.prefixes = Prefixes(places, 0 if self.model.embeds else self.model.cache.rows - places)
        except Exception as error:  # whatever loading raised goes to who started the engine
            self.error = error
            self._ready.set()
            return
        self._ready.set()
        with torch.inference_mode():
            while not self._stopping:
                if not self._busy():
                    self._news.wait()
                self._news.clear()
                self._safe_step()
        with self._door:
            self._ended = True
        self._fail_all(EngineStopped("the engine was stopped"), waiting=True)

    def _busy(self) -> bool:
        return bool(self._commands or self._waiting or self._slots.used or self._embeds)

    def _safe_step(self) -> None:
        try:
            self.step()
        # A step that breaks must not end the engine, only the answers that were in it.
        except Exception as error:
            _log.exception("a step of the engine failed; the answers in progress end with the error")
            self._fail_all(EngineStopped(f"a step of the engine failed: {type(error).__name__}: {error}"))
        touched, self._touched = self._touched, {}
        if touched:
            wake(touched, self.clock())

    def step(self) -> None:
        """Run one step."""
        self.steps += 1
        while self._commands:
            self._commands.popleft()()
        self._admit()
        if self._embeds:
            self._embed()
        if self._prefilling:
            self._prefill()
        if self._slots.used > len(self._prefilling):
            self._decode()

    def _added(self, answers: Sequence[Answer]) -> None:
        self._waiting.extend(answers)

    def _aborted(self, request_id: str) -> None:
        for _, answer in list(self._slots):
            if answer.request_id == request_id:
                self._give(answer, answer.aborted())
                self._free(answer)
        for answer in [each for each in self._waiting if each.request_id == request_id]:
            self._waiting.remove(answer)
            self._give(answer, answer.aborted())

    def _admit(self) -> None:
        while self._waiting and self._slots.used < self._slots.size:
            answer = self._waiting.popleft()
            try:
                self._load_adapter(answer.adapter)
            except Exception as error:  # a broken adapter is the matter of those who asked for it
                self._refuse(answer, error)
                continue
            answer.slot = self._slots.take(answer) or 0
            self._reuse(answer)
            self._prefilling.append(answer)

    def _reuse(self, answer: Answer) -> None:
        """Begin an answer with what another place has of its prompt."""
        assert self.model is not None
        hit = self.prefixes.longest(answer.prompt, answer.adapter)
        if hit is not None:
            self.model.cache.move(hit.slot, answer.slot, hit.size)
            answer.cached = answer.reused = hit.size
        self.prefixes.runs(answer.slot, answer.adapter, answer.prompt[: answer.cached])

    def _load_adapter(self, name: str | None) -> None:
        if name is not None:
            assert self.model is not None
            used = {answer.adapter for _, answer in self._slots if answer.adapter is not None}
            self.model.adapters.load(name, used)

    def _refuse(self, answer: Answer, error: Exception) -> None:
        known = (
            error if isinstance(error, LLMError) else EngineStopped(f"the adapter cannot be loaded: {error}")
        )
        answer.finished = True
        answer.stream.put(known)
        self._touched[answer.stream] = None
        self._aborted(answer.request_id)

    def _group(self) -> tuple[list[Answer], int]:
        """The prompts of one call, those that came first, and how many tokens of each at most."""
        assert self.model is not None
        budget = self.model.given.max_num_batched_tokens
        first = self._prefilling[0]
        size = min(budget, len(first.prompt) - first.cached)
        group = [first]
        if first.cached or size < len(first.prompt):
            return group, size
        for each in list(self._prefilling)[1:]:
            longest = max(size, len(each.prompt))
            if each.cached or longest * (len(group) + 1) > budget:
                break
            group.append(each)
            size = longest
        return group, size

    def _prefill(self) -> None:
        assert self.model is not None
        group, size = self._group()
        logits = self.model.prefill(group, size)
        if logits is None:
            return
        for each in group:
            self._prefilling.remove(each)
            self.prefixes.runs(each.slot, each.adapter, each.prompt)
        self._sample(group, logits)

    def _decode(self) -> None:
        assert self.model is not None
        for source, target, answer in self._slots.moves():
            self.model.cache.move(source, target, max(answer.cached, 1))
            self.prefixes.runs(target, answer.adapter, answer.prompt[: answer.cached])
            self.prefixes.runs(source, None, ())
            answer.slot = target
        running = [answer for _, answer in self._slots if not answer.prefilling]
        if running:
            holders = self._slots.holders[: self._slots.high]
            self._sample(running, self.model.decode(holders, running))

    def _sample(self, answers: Sequence[Answer], logits: torch.Tensor) -> None:
        tokens, logprobs, failed = choose(
            logits, [each.choice for each in answers], [tuple(each.barred()) for each in answers]
        )
        now = self.clock()
        for row, error in failed.items():
            self._fail(answers[row], error)
        for answer, token, logprob in zip(answers, tokens, logprobs, strict=True):
            if failed and answer.finished:  # or another answer of its request is
                continue
            self._give(answer, answer.take(token, logprob, now))
            if answer.finished:
                self._free(answer)

    def _fail(self, answer: Answer, error: Exception) -> None:
        """End a request of which one answer failed; others are not affected."""
        known = error if isinstance(error, LLMError) else EngineStopped(f"an answer failed: {error}")
        if not answer.finished:
            answer.finished = True
            self._give(answer, known)
            self._free(answer)
        self._aborted(answer.request_id)

    def _give(self, answer: Answer, item: Any) -> None:
        answer.stream.put(item)
        self._touched[answer.stream] = None

    def _free(self, answer: Answer) -> None:
        self._slots.free(answer.slot)
        assert self.model is not None
        tokens = [*answer.prompt, *answer.tokens][: answer.cached]
        row = self.prefixes.ended(answer.slot, answer.adapter, tokens)
        if row is not None:
            self.model.cache.move(answer.slot, row, len(tokens))
        if answer in self._prefilling:
            self._prefilling.remove(answer)

    def _embed(self) -> None:
        assert self.model is not None
        budget = max(self.model.given.max_num_batched_tokens, len(self._embeds[0].prompt))
        group: list[EmbedRequest] = []
        longest = 0
        while self._embeds:
            longest = max(longest, len(self._embeds[0].prompt))
            if group and longest * (len(group) + 1) > budget:
                break
            group.append(self._embeds.popleft())
        good = []
        for each in group:
            try:
                self._load_adapter(each.adapter)
                good.append(each)
            except Exception as error:  # a broken adapter is the matter of those who asked for it
                each.done(error)
        if not good:
            return
        try:
            vectors = self.model.embed(
                [each.prompt for each in good], [each.adapter for each in good]
            ).tolist()
        except Exception as error:  # the model may raise anything, and those who wait must hear of it
            for each in good:
                each.done(EngineStopped(f"the model failed: {type(error).__name__}: {error}"))
            return
        for each, vector in zip(good, vectors, strict=True):
            each.done(vector)

    def _fail_all(self, error: Exception, waiting: bool = False) -> None:
        while self._commands and waiting:
            self._commands.popleft()()
        failed = [answer for _, answer in self._slots]
        for answer in failed:
            self._slots.free(answer.slot)
        if not self.model or not self.model.embeds:
            self.prefixes.clear()  # a step that broke may have left anything
        self._prefilling.clear()
        if waiting:
            failed += self._waiting
            self._waiting.clear()
            for each in self._embeds:
                each.done(error)
            self._embeds.clear()
        for answer in failed:
            answer.finished = True
            answer.stream.put(error)
            self._touched[answer.stream] = None
        wake(self._touched, self.clock())
        self._touched = {}
