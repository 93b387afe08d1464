"""A tiny model, made once, and an engine that runs it."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

os.environ.setdefault("HF_HUB_OFFLINE", "1")
pytest.importorskip("transformers", reason="the embedded engine stands on transformers")

import torch

from skate.llm import EngineArgs
from skate.llm.embedded.engine import EmbeddedEngine
from skate.llm.openai.app import LocalModels, build_app
from skate.llm.openai.metrics import Metrics
from skate.llm.openai.model_service import ModelService
from tests.llm import tiny
from tests.llm.served import Served

torch.set_num_threads(1)


@pytest.fixture(scope="session")
def model_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model folder."""
    return tiny.save(tmp_path_factory.mktemp("models") / "tiny")


@pytest.fixture(scope="session")
def engine(model_folder: Path) -> Iterator[EmbeddedEngine]:
    """A running engine with few places and small parts of prompts, so that requests wait and are computed in parts."""
    made = EmbeddedEngine(
        EngineArgs(str(model_folder), kwargs={"max_num_seqs": 4, "max_num_batched_tokens": 24})
    )
    asyncio.run(made.start())
    yield made
    asyncio.run(made.stop())


@pytest.fixture(scope="session")
def url(engine: EmbeddedEngine, model_folder: Path) -> Iterator[str]:
    """The API over the engine, as "tiny", and over one without a chat template, as "plain:model"."""
    bare = EmbeddedEngine(EngineArgs(str(tiny.save(model_folder.parent / "bare", template=None))))
    asyncio.run(bare.start())
    metrics = Metrics("tiny")
    servings = [ModelService(engine, "tiny", metrics=metrics), ModelService(bare, "plain:model")]
    served = Served(build_app(LocalModels(servings)))
    yield served.url
    served.close()
    asyncio.run(bare.stop())
