"""Two replicas: prompts find the replica with their prefix, and an engine that is killed comes back."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from typing import Any

import openai
import pytest

from skate.serve.llm import build_openai_app
from tests.conformance.waiting import wait_for
from tests.vllm import models, serving
from tests.vllm.serving import GREEDY

ROUTER = "skate.serve.llm.request_router.PrefixCacheAffinityRouter"


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    folder = models.text_model(tmp_path_factory.mktemp("model") / "text")
    config = serving.config(
        folder,
        deployment_config={
            "num_replicas": 2,
            "request_router_config": {"request_router_class": ROUTER},
            "health_check_period_s": 1,
        },
    )
    with serving.served(build_openai_app({"llm_configs": [config]}), cpus=6) as found:
        yield found


@pytest.fixture
def client(url: str) -> Iterator[Any]:
    with serving.client(url) as made:
        yield made


def test_a_prompt_goes_where_its_prefix_is(client: Any) -> None:
    def cached(letter: str) -> int:
        found = client.completions.create(prompt=letter * 200, max_tokens=1, **GREEDY).usage
        return 0 if found.prompt_tokens_details is None else found.prompt_tokens_details.cached_tokens

    letters = "abcdefgh"
    first = [cached(each) for each in letters]
    again = [cached(each) for each in letters]
    assert sum(first) == 0 and all(each >= 100 for each in again)


def test_an_engine_that_is_killed_comes_back(client: Any) -> None:
    """Its requests end with an error; the other replica answers meanwhile, and Serve starts a new one."""
    stream = client.completions.create(prompt="ab", max_tokens=250, stream=True, **GREEDY)
    next(iter(stream))
    before = serving.cores()
    assert len(before) == 2
    os.kill(before[0], signal.SIGKILL)

    def answers() -> bool:
        try:
            return bool(client.completions.create(prompt="ab", max_tokens=2, **GREEDY).choices[0].text)
        except (openai.InternalServerError, openai.APIConnectionError):
            return False  # a request that the dying replica had

    wait_for(answers, 60, "an answer of the other replica")
    wait_for(lambda: len(set(serving.cores()) - {before[0]}) == 2, 300, "a new engine")
    assert before[1] in serving.cores()
    wait_for(lambda: all(answers() for _ in range(6)), 120, "both replicas")
