"""The API through Serve, ingress and model in processes of their own; says figures of all of them when asked on stdin."""

from __future__ import annotations

import json
import os
import sys
from typing import Any

import psutil

import skate
from benchmarks.llm.server import run_bare
from skate import serve
from skate.serve.llm import LLMConfig, LLMServer, build_openai_app


class Measured(LLMServer):
    """A model that can also be asked past Serve and HTTP."""

    async def bare(self, count: int, tokens: int) -> dict[str, Any]:
        """All requests at once on the engine itself."""
        return await run_bare(self.engine, count, tokens)


def cpu() -> float:
    """Seconds of CPU of this process and all it has started."""
    me = psutil.Process()
    total = 0.0
    for each in [me, *me.children(recursive=True)]:
        try:
            times = each.cpu_times()
        except psutil.NoSuchProcess:
            continue
        total += times.user + times.system
    return total


def main(folder: str, threads: int) -> None:
    """Serve until stdin ends; says the port first, then answers lines of JSON."""
    os.environ["HF_HUB_OFFLINE"] = "1"
    skate.init(num_cpus=4, log_to_driver=False)
    serve.start(http_options={"host": "127.0.0.1", "port": 8124})
    configs = [
        LLMConfig(
            model_loading_config={"model_id": name, "model_source": folder},
            llm_engine="embedded",
            engine_kwargs={"num_threads": threads},
            server_cls=Measured,
            experimental_configs=more,
        )
        for name, more in (("m", {}), ("m0", {"stream_batching_interval_ms": 0}))
    ]
    serve.run(build_openai_app({"llm_configs": configs}))
    print(8124, flush=True)
    handle = serve.get_deployment_handle("Measured:m", "default")
    for line in sys.stdin:
        asked = json.loads(line)
        if asked == "cpu":
            print(json.dumps(cpu()), flush=True)
        else:
            before = cpu()
            found = handle.bare.remote(*asked).result()
            print(json.dumps({**found, "cpu": cpu() - before}), flush=True)
    serve.shutdown()
    skate.shutdown()


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
