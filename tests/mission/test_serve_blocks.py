"""The code blocks of the mission's documents that concern Serve, run as written, with a tiny Llama on the CPU."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

HERE = Path(__file__).parent
ROOT = HERE.parents[1]


def test_t_5_5_a_pipeline_of_deployments(tmp_path: Path) -> None:
    """000: two replicas of a model with a GPU each, behind a pipeline that answers over HTTP; a tiny Llama answers."""
    pytest.importorskip("transformers", reason="the stand-in for vLLM runs a model with transformers")
    from tests.llm import tiny

    # A folder of the model's name is the model, so that the block runs as it is written.
    tiny.save(tmp_path / "meta-llama" / "Llama-3.1-8B-Instruct", max_position_embeddings=8192)
    environment = os.environ | {
        "PYTHONPATH": os.pathsep.join([str(ROOT / "src"), str(HERE / "serve_stand_ins")]),
        "HF_HUB_OFFLINE": "1",
    }
    environment.pop("CUDA_VISIBLE_DEVICES", None)
    words = [
        HERE / "serve_stage.py",
        HERE / "blocks" / "000_rag_pipeline.py",
        HERE / "then" / "000_rag_check.py",
    ]
    done = subprocess.run(
        [sys.executable, "-m", "skate", "run", *map(str, words)],
        capture_output=True,
        text=True,
        timeout=110,
        env=environment,
        cwd=tmp_path,
        check=False,
    )
    assert done.returncode == 0, f"it ended with status {done.returncode}:\n{done.stdout}\n{done.stderr}"
    assert "the pipeline answered 4 questions" in done.stdout


def test_a_model_behind_openais_api(tmp_path: Path) -> None:
    """003: Llama behind Serve LLM, asked by OpenAI's client; a tiny Llama on the CPU in its place."""
    pytest.importorskip("transformers", reason="the embedded engine stands on transformers")
    from tests.llm import tiny

    # A folder of the model's name is the model, so that the block runs as it is written.
    tiny.save(tmp_path / "meta-llama" / "Llama-3.1-8B-Instruct", max_position_embeddings=8192)
    environment = os.environ | {
        "PYTHONPATH": str(ROOT / "src"),
        "SKATE_LLM_ENGINE": "embedded",
        "HF_HUB_OFFLINE": "1",
    }
    words = [
        HERE / "llm_stage.py",
        HERE / "blocks" / "003_serve_llm.py",
        HERE / "blocks" / "003_openai_client.py",
    ]
    done = subprocess.run(
        [sys.executable, "-m", "skate", "run", *map(str, words)],
        capture_output=True,
        text=True,
        timeout=110,
        env=environment,
        cwd=tmp_path,
        check=False,
    )
    assert done.returncode == 0, f"it ended with status {done.returncode}:\n{done.stdout}\n{done.stderr}"
    assert "the model answered" in done.stdout
