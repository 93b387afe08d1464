"""An agent of OpenAI's library calls a tool through the API of the embedded engine."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Literal

import openai
import pytest

from skate.llm import EngineArgs
from skate.llm.embedded.engine import EmbeddedEngine
from skate.llm.openai.app import LocalModels, build_app
from skate.llm.openai.model_service import ModelService
from skate.llm.tool_calls.options import ToolOptions
from tests.llm import scripted
from tests.llm.served import Served
from tests.llm.test_tool_calls import SCRIPTS, TEMPLATE

agents: Any = pytest.importorskip("agents", reason="make test-vllm installs openai-agents")


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    folder: Path = tmp_path_factory.mktemp("model")
    scripted.save(folder, SCRIPTS, TEMPLATE)
    engine = EmbeddedEngine(EngineArgs(str(folder), kwargs={"max_num_seqs": 4}))
    asyncio.run(engine.start())
    service = ModelService(engine, "m", tools=ToolOptions(True, "hermes"))
    served = Served(build_app(LocalModels([service])))
    yield served.url
    served.close()
    asyncio.run(engine.stop())


@pytest.mark.parametrize("choice", ["auto", "required"])
@pytest.mark.parametrize("stream", [False, True])
def test_an_agent_calls_a_tool_and_answers(url: str, choice: str, stream: bool) -> None:
    asked: list[str] = []

    @agents.function_tool
    def weather(city: Literal["Oslo", "Rome"]) -> str:
        """Return the weather of a city."""
        asked.append(city)
        return "sunny"

    async def run() -> Any:
        async with openai.AsyncOpenAI(base_url=f"{url}/v1", api_key="none", max_retries=0) as client:
            agent = agents.Agent(
                name="reporter",
                model=agents.OpenAIChatCompletionsModel(model="m", openai_client=client),
                model_settings=agents.ModelSettings(
                    temperature=0, tool_choice=choice, max_tokens=200, parallel_tool_calls=False
                ),
                tools=[weather],
            )
            config = agents.RunConfig(tracing_disabled=True)
            if not stream:
                found = await agents.Runner.run(agent, "How is the weather in Oslo?", run_config=config)
                return found.final_output
            streamed = agents.Runner.run_streamed(agent, "How is the weather in Oslo?", run_config=config)
            async for _ in streamed.stream_events():
                pass
            return streamed.final_output

    assert asyncio.run(run()) == "It is sunny in Oslo."
    assert len(asked) == 1 and asked[0] in (["Oslo", "Rome"] if choice == "required" else ["Oslo"])
