"""Requests to several replicas: routed by prompt or session, and only with a key."""

from __future__ import annotations

import os
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import openai
import pytest

import skate
from skate import serve
from skate.serve.experimental.consistent_hash_router import ConsistentHashRouter
from skate.serve.llm import LLMConfig, LLMServer, build_openai_app
from skate.serve.llm.request_router import PrefixCacheAffinityRouter
from tests.llm import tiny

#: The first test waits for four replicas, each of which loads torch.
pytestmark = pytest.mark.timeout(300)

os.environ.setdefault("HF_HUB_OFFLINE", "1")
KEY = "sesame-1"
TOPICS = [letter * 100 for letter in "abcdef"]


class Named(LLMServer):
    """A model whose answers contain the id of their replica."""

    async def completions(self, request: Any, raw_request_info: Any = None) -> Any:
        """Answer with the replica's name as the id."""
        request.request_id = serve.get_replica_context().replica_id.unique_id
        async for each in super().completions(request, raw_request_info):
            yield each


def config(folder: Path, model_id: str, router: Any) -> LLMConfig:
    return LLMConfig(
        model_loading_config={"model_id": model_id, "model_source": str(folder)},
        llm_engine="embedded",
        engine_kwargs={"num_threads": 1, "max_num_seqs": 4},
        server_cls=Named,
        deployment_config={
            "num_replicas": 2,
            "ray_actor_options": {"num_cpus": 0.5},
            "request_router_config": {"request_router_class": router},
        },
    )


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    folder = tiny.save(tmp_path_factory.mktemp("model") / "tiny")
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        port = sock.getsockname()[1]
    skate.init(num_cpus=4, log_to_driver=False)
    serve.start(http_options={"host": "127.0.0.1", "port": port})
    models = [
        config(folder, "prefix", PrefixCacheAffinityRouter),
        config(folder, "session", ConsistentHashRouter),
    ]
    serve.run(build_openai_app({"llm_configs": models, "api_keys": [KEY, "sesame-2"]}), route_prefix="/llm")
    yield f"http://127.0.0.1:{port}/llm"
    serve.shutdown()
    skate.shutdown()


@pytest.fixture
def client(url: str) -> Iterator[Any]:
    with openai.OpenAI(base_url=f"{url}/v1", api_key=KEY, max_retries=0) as made:
        yield made


def ask(client: Any, model: str, prompt: str, **more: Any) -> tuple[str, int]:
    """Send a prompt; return the replica that answered, and the number of the prompt's tokens in its cache."""
    found = client.completions.create(model=model, prompt=prompt, max_tokens=1, **more)
    details = found.usage.prompt_tokens_details
    return found.id, 0 if details is None else details.cached_tokens


def test_a_prompt_that_begins_alike_hits_the_cache_of_the_replica_it_goes_to(client: Any) -> None:
    first = {topic: ask(client, "prefix", topic + " first") for topic in TOPICS}
    assert all(cached == 0 for _, cached in first.values())
    for topic, (replica, _) in first.items():
        assert ask(client, "prefix", topic + " second") == (replica, len(topic) + 1)


def test_a_session_stays_at_its_replica_whatever_it_asks(client: Any) -> None:
    replicas = set()
    for number in range(8):
        name = f"session {number}"
        by_header = {
            ask(client, "session", f"{number} {turn}", extra_headers={"X-Session-Id": name})[0]
            for turn in range(3)
        }
        by_user = ask(client, "session", "as user", user=name)[0]
        assert by_header == {by_user}
        replicas |= by_header
    assert len(replicas) == 2, "all sessions went to one replica"


@pytest.mark.parametrize("key", [None, "", "Bearer", "Bearer wrong", f"Basic {KEY}", f"Bearer {KEY}x"])
def test_without_a_right_key_nothing_is_answered(url: str, key: str | None) -> None:
    headers = {} if key is None else {"Authorization": key}
    for path in ("/v1/models", "/v1/chat/completions", "/nowhere"):
        answer = httpx.get(url + path, headers=headers)
        assert answer.status_code == 401 and answer.json()["error"]["code"] == "invalid_api_key"
        assert answer.json()["error"]["type"] == "invalid_request_error" and KEY not in answer.text
    assert httpx.get(url + "/health", headers=headers).json() == {"status": "ok"}


def test_each_of_the_keys_opens(url: str) -> None:
    for key in (KEY, "sesame-2"):
        with openai.OpenAI(base_url=f"{url}/v1", api_key=key, max_retries=0) as made:
            cards = list(made.models.list())
        assert [each.id for each in cards] == ["prefix", "session"]
        assert all(each.object == "model" and each.created > 0 and each.owned_by for each in cards)
    with (
        openai.OpenAI(base_url=f"{url}/v1", api_key="wrong", max_retries=0) as made,
        pytest.raises(openai.AuthenticationError, match="Incorrect API key"),
    ):
        made.models.list()
