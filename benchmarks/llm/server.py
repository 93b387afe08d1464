"""The API over one engine in a process of its own; a route beside it runs the same requests on the bare engine."""

from __future__ import annotations

import asyncio
import json
import sys
import time
from typing import Any

import torch
import uvicorn
from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.routing import Route

from benchmarks.llm.loops import prompts
from skate.llm import EngineArgs, SamplingParams
from skate.llm.embedded.engine import EmbeddedEngine
from skate.llm.openai.app import LocalModels, build_app
from skate.llm.openai.model_service import ModelService


async def run_bare(engine: EmbeddedEngine, count: int, tokens: int) -> dict[str, Any]:
    """All requests at once on the engine itself."""
    firsts: list[float] = []
    made = 0
    started, started_cpu = time.perf_counter(), time.process_time()

    async def one(number: int, prompt: list[int]) -> None:
        nonlocal made
        first = True
        params = SamplingParams(max_tokens=tokens, temperature=0, ignore_eos=True)
        async for new in engine.generate(prompt, params, str(number)):
            if first:
                firsts.append(time.perf_counter() - started)
                first = False
            made += len(new.token_ids)

    await asyncio.gather(*(one(number, prompt) for number, prompt in enumerate(prompts(count))))
    seconds, cpu = time.perf_counter() - started, time.process_time() - started_cpu
    return {"tokens": made, "seconds": seconds, "cpu": cpu, "ttft": sorted(firsts)[len(firsts) // 2]}


async def main(folder: str, threads: int) -> None:
    """Serve until killed; says the port first."""
    torch.set_num_threads(threads)
    engine = EmbeddedEngine(EngineArgs(folder, kwargs={"num_threads": threads}))
    await engine.start()

    async def bare(request: Request) -> JSONResponse:
        query = request.query_params
        return JSONResponse(await run_bare(engine, int(query["count"]), int(query["tokens"])))

    async def cpu(request: Request) -> JSONResponse:
        return JSONResponse(time.process_time())

    every = {"m": 0.0, "m20": 0.02, "m50": 0.05}
    servings = [ModelService(engine, name, stream_interval_s=each) for name, each in every.items()]
    app = build_app(LocalModels(servings))
    app.router.routes += [Route("/bare", bare), Route("/cpu", cpu)]
    server = uvicorn.Server(uvicorn.Config(app, port=0, log_level="error"))
    task = asyncio.create_task(server.serve())
    while not server.started:
        await asyncio.sleep(0.01)
    print(json.dumps(server.servers[0].sockets[0].getsockname()[1]), flush=True)
    await task


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], int(sys.argv[2])))
