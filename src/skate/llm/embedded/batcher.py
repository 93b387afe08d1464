"""The loop of the embedded engine. It runs in its own thread, and requests join and leave the batch at each step."""

from __future__ import annotations

import logging
import threading
import time
from collections import Counter, deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from skate.llm.embedded.answer import Answer
from skate.llm.embedded.model import Model
from skate.llm.embedded.prefill_queue import PrefillQueue
from skate.llm.embedded.prefixes import Prefixes
from skate.llm.embedded.sampler import choose
from skate.llm.embedded.slots import Slots
from skate.llm.embedded.stream import Stream, wake
from skate.llm.embedded.thread_governor import ThreadGovernor
from skate.llm.errors import EngineStopped, LLMError, Overloaded
from skate.llm.fair_queue import FairQueue

_log = logging.getLogger("skate.llm")
#: The most tokens per step of a prompt with log probabilities; logits of a large vocabulary take a megabyte each.
_SCORED_TOKENS = 64


@dataclass(eq=False)
class EmbedRequest:
    """A prompt to embed. `done` is called with its vector or an error."""

    prompt: list[int]
    adapter: str | None
    done: Callable[[list[float] | Exception], None]
    client: str = ""
    request: str = ""


class Batcher:
    """Runs a model in steps over all answers in progress.

    A step accepts new requests, assigns free slots to clients in turn, computes a part of the prompts (at most
    `max_num_batched_tokens`, which bounds the delay of running answers) and one token for each running answer.

    Clients share the slots. If the next client has at least two slots fewer than the client with the most slots, the
    latest answer of the latter is preempted: it loses its slot and resumes later at the same place.
    """

    def __init__(
        self,
        make: Callable[[], Model],
        clock: Callable[[], float] = time.perf_counter,
        num_threads: int | None = None,
    ) -> None:
        self._make = make
        self._num_threads = num_threads
        self.clock = clock
        self.model: Model | None = None
        self.error: Exception | None = None
        self.steps = 0
        self._commands: deque[Callable[[], None]] = deque()
        self._wake = threading.Event()
        self._ready = threading.Event()
        self._stopping = False
        # Guards `_ended`: no command may be added after the last one was taken.
        self._lock = threading.Lock()
        self._ended = False
        self._waiting: FairQueue[Answer] = FairQueue()
        self._prefilling = PrefillQueue()
        self._embeds: FairQueue[EmbedRequest] = FairQueue()
        self._admissions = 0
        self._touched: dict[Stream, None] = {}
        self._thread = threading.Thread(target=self._main, name="skate-llm-engine", daemon=True)

    # Called from other threads.

    def start(self) -> Model:
        """Load the model in the engine's thread and return it. Raises the error of loading."""
        self._thread.start()
        self._ready.wait()
        if self.model is None:
            assert self.error is not None
            raise self.error
        return self.model

    def add(self, answers: Sequence[Answer]) -> None:
        """Queue answers."""
        self._enqueue(lambda: self._added(answers))

    def embed(self, request: EmbedRequest) -> None:
        """Queue a prompt to embed."""
        self._enqueue(lambda: self._embeds.extend([request]))

    def forget(self) -> None:
        """Drop the cached prefixes, so that later prompts are computed in full."""
        self._enqueue(lambda: self.prefixes.clear())

    def abort(self, request_id: str) -> None:
        """End the answers of a request; no-op if the engine has ended, which ends all answers."""
        try:
            self._enqueue(lambda: self._aborted(request_id))
        except EngineStopped:
            pass

    def stop(self) -> None:
        """End the thread; answers in progress end with EngineStopped."""
        self._stopping = True
        self._wake.set()
        if self._thread.is_alive() and threading.current_thread() is not self._thread:
            self._thread.join()

    @property
    def alive(self) -> bool:
        """True if the engine still answers requests."""
        return self._thread.is_alive() and not self._stopping

    @property
    def load(self) -> tuple[int, int]:
        """The numbers of running and of waiting answers, for metrics and limits; they may be one step old."""
        running = self._slots.used if self.model is not None and not self.model.embeds else 0
        return running, len(self._waiting)

    @property
    def figures(self) -> dict[str, float]:
        """The use of slots and cache, for those who look; it may be one step old."""
        if self.model is None or self.model.embeds:
            return {"steps": self.steps, "waiting": len(self._waiting) + len(self._embeds)}
        cache = self.model.cache
        return {
            "steps": self.steps,
            "slots": self._slots.size,
            "slots_used": self._slots.used,
            "waiting": len(self._waiting),
            "prefilling": len(self._prefilling),
            "prompt_tokens_asked": self.prefixes.requested,
            "prompt_tokens_cached": self.prefixes.found,
            "cache_positions": cache.capacity,
            "cache_positions_max": cache.limit,
        }

    def _enqueue(self, command: Callable[[], None]) -> None:
        with self._lock:
            if self._ended:
                raise EngineStopped("the engine was stopped")
            self._commands.append(command)
        self._wake.set()

    # The methods below run in the engine's thread.

    def _main(self) -> None:
        try:
            self._governor = ThreadGovernor(self._num_threads)
            self.model = self._make()
            places = 1 if self.model.embeds else self.model.cache.slots
            self._slots: Slots[Answer] = Slots(places)
            self.prefixes = Prefixes(places, 0 if self.model.embeds else self.model.cache.rows - places)
        except Exception as error:  # `start` raises whatever loading raised
            self.error = error
            self._ready.set()
            return
        self._ready.set()
        with torch.inference_mode():
            while not self._stopping:
                if not self._busy():
                    self._wake.wait()
                self._wake.clear()
                self._safe_step()
        with self._lock:
            self._ended = True
        self._fail_all(EngineStopped("the engine was stopped"), waiting=True)

    def _busy(self) -> bool:
        return bool(self._commands or self._waiting or self._slots.used or self._embeds)

    def _safe_step(self) -> None:
        try:
            self.step()
        # A failed step ends only its answers, not the engine.
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
        self._governor.follow()
        self._admit()
        if self._embeds:
            self._embed()
        if self._prefilling:
            self._prefill()
        if self._slots.used > len(self._prefilling):
            self._decode()

    def _added(self, answers: Sequence[Answer]) -> None:
        assert self.model is not None
        limit = self.model.given.max_pending
        if limit is not None:
            # Answers that receive a slot in this step do not wait.
            most = limit + self._slots.size - self._slots.used - len(answers)
            while len(self._waiting) > most and self._evict(answers[0].client, len(answers)):
                pass
            if len(self._waiting) > most:
                full = Overloaded(f"{limit} answers are already waiting (max_pending); try again later")
                self._give(answers[0], full)
                return
        self._waiting.extend(answers)

    def _evict(self, client: str, count: int) -> bool:
        """Reject a request of the busiest client if `client` would still have fewer answers; True if one was rejected."""
        largest = self._waiting.largest()
        if largest is None or self._waiting.size(largest) <= self._waiting.size(client) + count:
            return False
        begun = {answer.request_id for _, answer in self._slots}
        begun |= {answer.request_id for answer in self._waiting.of(largest) if answer.preempted}
        for answer in reversed(list(self._waiting.of(largest))):
            if answer.request_id not in begun:
                self._refuse(answer, Overloaded("other clients need the place in the queue; try again later"))
                return True
        return False

    def _aborted(self, request_id: str) -> None:
        for _, answer in list(self._slots):
            if answer.request_id == request_id:
                self._give(answer, answer.aborted())
                self._free(answer)
        for answer in [each for each in self._waiting if each.request_id == request_id]:
            self._waiting.remove(answer)
            self._give(answer, answer.aborted())

    def _admit(self) -> None:
        while self._waiting:
            held = Counter(answer.client for _, answer in self._slots)
            if self._slots.used == self._slots.size and not self._preempt(held):
                return
            answer = self._waiting.popleft(held)
            try:
                self._load_adapter(answer.adapter)
            except Exception as error:  # a broken adapter fails only the requests that name it
                self._refuse(answer, error)
                continue
            answer.slot = self._slots.take(answer) or 0
            self._admissions += 1
            answer.admitted = self._admissions
            self._reuse(answer)
            self._prefilling.append(answer)

    def _preempt(self, held: Counter[str]) -> bool:
        """Free a slot of the client with the most if the next client has at least two fewer; True if one was freed."""
        largest, count = held.most_common(1)[0]
        if count - held[self._waiting.next_client(held)] < 2:
            return False
        latest = max(
            (answer for _, answer in self._slots if answer.client == largest), key=lambda each: each.admitted
        )
        self._free(latest)
        latest.preempt()
        self._waiting.put_back(latest)
        held[largest] -= 1
        return True

    def _reuse(self, answer: Answer) -> None:
        """Copy the longest cached start of an answer's tokens to its slot."""
        assert self.model is not None
        # Log probabilities of a prompt need the states of all of its tokens, and the cache has only their keys.
        hit = None if answer.scores_prompt else self.prefixes.longest(answer.start, answer.adapter)
        if hit is not None:
            self.model.cache.move(hit.slot, answer.slot, hit.size)
            answer.cached = hit.size
            if not answer.preempted:
                answer.reused = hit.size
        self.prefixes.runs(answer.slot, answer.adapter, answer.start[: answer.cached])

    def _load_adapter(self, name: str | None) -> None:
        if name is not None:
            assert self.model is not None
            begun = [answer for _, answer in self._slots] + [each for each in self._waiting if each.preempted]
            self.model.adapters.load(name, {each.adapter for each in begun if each.adapter is not None})

    def _refuse(self, answer: Answer, error: Exception) -> None:
        known = error if isinstance(error, LLMError) else EngineStopped(f"cannot load the adapter: {error}")
        answer.finished = True
        answer.stream.put(known)
        self._touched[answer.stream] = None
        self._aborted(answer.request_id)

    def _group(self) -> tuple[list[Answer], int]:
        """Return the prompts for one call of the model, and the most tokens to compute of each."""
        assert self.model is not None
        budget = self.model.given.max_num_batched_tokens
        first, *others = self._prefilling.in_turn()
        if first.scores_prompt:
            budget = min(budget, _SCORED_TOKENS)
        size = min(budget, len(first.start) - first.cached)
        group = [first]
        if first.cached or size < len(first.start) or first.scores_prompt:
            return group, size
        for each in others:
            longest = max(size, len(each.start))
            if each.cached or each.scores_prompt or longest * (len(group) + 1) > budget:
                break
            group.append(each)
            size = longest
        return group, size

    def _prefill(self) -> None:
        assert self.model is not None
        group, size = self._group()
        scores = group[0].scores_prompt
        logits = self.model.prefill(group, size, scores)
        self._prefilling.took_turn(group)
        if scores and logits is not None:
            group[0].score(logits)
            logits = None if group[0].prefilling else logits[-1:]
        if logits is None:
            return
        for each in group:
            self._prefilling.remove(each)
            self.prefixes.runs(each.slot, each.adapter, each.start)
        # A resumed answer already has the token that follows its cached ones.
        new = [row for row, each in enumerate(group) if not each.tokens]
        if new:
            self._sample([group[row] for row in new], logits if len(new) == len(group) else logits[new])

    def _decode(self) -> None:
        assert self.model is not None
        for source, target, answer in self._slots.moves():
            self.model.cache.move(source, target, max(answer.cached, 1))
            self.prefixes.runs(target, answer.adapter, answer.start[: answer.cached])
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
            if failed and answer.finished:  # this answer failed, or another of its request
                continue
            self._give(answer, answer.take(token, logprob, now))
            if answer.finished:
                self._free(answer)

    def _fail(self, answer: Answer, error: Exception) -> None:
        """End the request of a failed answer; other requests are not affected."""
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
        budget = max(self.model.given.max_num_batched_tokens, len(self._embeds.peek().prompt))
        group: list[EmbedRequest] = []
        longest = 0
        while self._embeds:
            longest = max(longest, len(self._embeds.peek().prompt))
            if group and longest * (len(group) + 1) > budget:
                break
            group.append(self._embeds.popleft())
        good = []
        for each in group:
            try:
                self._load_adapter(each.adapter)
                good.append(each)
            except Exception as error:  # a broken adapter fails only the requests that name it
                each.done(error)
        if not good:
            return
        try:
            vectors = self.model.embed(
                [each.prompt for each in good], [each.adapter for each in good]
            ).tolist()
        except Exception as error:  # the model may raise anything; the callers receive the error
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
            self.prefixes.clear()  # a failed step may have left partial keys
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
