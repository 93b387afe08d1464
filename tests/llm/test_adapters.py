"""LoRA adapters side by side in one batch, each with the answers that it has alone."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
import torch
from transformers import AutoModelForCausalLM

from skate.llm import EngineArgs
from skate.llm.embedded.engine import EmbeddedEngine
from skate.llm.errors import Overloaded, UnknownModel
from skate.llm.openai.app import LocalModels, build_app
from skate.llm.openai.model_service import ModelService
from tests.llm.asking import ask, until
from tests.llm.served import Served

peft = pytest.importorskip("peft", reason="LoRA adapters are read by peft")

# peft asks transformers by a name that is on its way out.
pytestmark = pytest.mark.filterwarnings("ignore:.*is_gradient_checkpointing:FutureWarning")

PROMPT = [10, 20, 30, 40]
NAMES = ("first", "second", "third")


@pytest.fixture(scope="module")
def adapters(model_folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("adapters")
    for seed, name in enumerate(NAMES):
        torch.manual_seed(seed + 1)
        model = AutoModelForCausalLM.from_pretrained(model_folder)
        lora = peft.LoraConfig(r=4, target_modules=["q_proj", "v_proj", "down_proj"], init_lora_weights=False)
        peft.get_peft_model(model, lora).save_pretrained(folder / name)
    return folder


def alone(model_folder: Path, path: Path | None) -> list[int]:
    """The output of transformers for the prompt with one adapter merged in."""
    model: Any = AutoModelForCausalLM.from_pretrained(model_folder)
    if path is not None:
        model = peft.PeftModel.from_pretrained(model, path).merge_and_unload()
    ids = torch.tensor([PROMPT])
    out = model.generate(ids, attention_mask=torch.ones_like(ids), max_new_tokens=20, do_sample=False)
    tokens: list[int] = out[0, len(PROMPT) :].tolist()
    return tokens


@pytest.fixture
def engine(model_folder: Path, adapters: Path) -> Iterator[EmbeddedEngine]:
    args = EngineArgs(str(model_folder), kwargs={"max_num_seqs": 6}, lora_folder=str(adapters), max_loras=2)
    made = EmbeddedEngine(args)
    asyncio.run(made.start())
    yield made
    asyncio.run(made.stop())


def test_each_answer_goes_through_its_own(engine: EmbeddedEngine, model_folder: Path, adapters: Path) -> None:
    wanted = {name: alone(model_folder, adapters / name) for name in NAMES} | {
        None: alone(model_folder, None)
    }
    assert len({tuple(each) for each in wanted.values()}) == 4

    async def run() -> None:
        before = await ask(engine, PROMPT, max_tokens=20)
        assert before.tokens == wanted[None]
        together: list[str | None] = ["first", None, "second", "first", None]
        found = await asyncio.gather(*(ask(engine, PROMPT, name, max_tokens=20) for name in together))
        for name, answer in zip(together, found, strict=True):
            assert answer.tokens == wanted[name], name
        assert engine.info().adapters == ("first", "second") or set(engine.info().adapters) == {
            "first",
            "second",
        }
        # Two are held: the third takes the place of the one that was used longest ago.
        await ask(engine, PROMPT, "second", max_tokens=1)
        assert (await ask(engine, PROMPT, "third", max_tokens=20)).tokens == wanted["third"]
        assert set(engine.info().adapters) == {"second", "third"}
        assert (await ask(engine, PROMPT, max_tokens=20)).tokens == wanted[None]
        assert (await ask(engine, PROMPT, "first", max_tokens=20)).tokens == wanted["first"]

    asyncio.run(run())


def test_one_that_is_in_use_stays(engine: EmbeddedEngine) -> None:
    async def run() -> None:
        long = [
            asyncio.create_task(ask(engine, PROMPT, name, max_tokens=200, ignore_eos=True))
            for name in ("first", "second")
        ]
        await until(lambda: engine.load()[0] == 2, "both answers to run")
        with pytest.raises(Overloaded, match="all 2 places for adapters"):
            await ask(engine, PROMPT, "third")
        await asyncio.gather(*long)

    asyncio.run(run())


@pytest.mark.parametrize("name", ["none", "../first", "/etc", ".", "first/.."])
def test_there_is_no_way_out_of_the_folder(engine: EmbeddedEngine, name: str) -> None:
    with pytest.raises(UnknownModel):
        asyncio.run(ask(engine, PROMPT, name))
    assert not engine.has_adapter(name)


def test_adapters_over_http(engine: EmbeddedEngine, model_folder: Path, adapters: Path) -> None:
    served = Served(build_app(LocalModels([ModelService(engine, "base", adapters=True)])))
    try:
        body = {"model": "base:second", "prompt": PROMPT, "max_tokens": 20, "temperature": 0}
        found = httpx.post(f"{served.url}/v1/completions", json=body).json()
        assert found["model"] == "base:second"
        assert found["choices"][0]["text"] == engine.text.decode(
            [token for token in alone(model_folder, adapters / "second") if token != 256]
        )
        card = httpx.get(f"{served.url}/v1/models/base:second").json()
        assert card["metadata"] == {"base_model_id": "base"}
        for path in ("base:none", "base:../x"):
            answer = httpx.post(f"{served.url}/v1/completions", json={**body, "model": path})
            assert answer.status_code == 404 and answer.json()["error"]["code"] == "model_not_found"
        assert httpx.get(f"{served.url}/v1/models/base:none").status_code == 404
    finally:
        served.close()


def test_adapters_are_fetched_from_buckets(
    model_folder: Path, adapters: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fsspec = pytest.importorskip("fsspec", reason="buckets are read by fsspec")
    files = fsspec.filesystem("memory")
    files.put(str(adapters), "/lora/of-mine", recursive=True)
    tries: list[str] = []
    whole = type(files).get

    def fails_once(self: Any, path: str, *args: Any, **more: Any) -> Any:
        tries.append(path)
        if len(tries) == 1:
            raise OSError("the line is cut")
        return whole(self, path, *args, **more)

    monkeypatch.setattr(type(files), "get", fails_once)

    async def run() -> None:
        args = EngineArgs(
            str(model_folder), lora_folder="memory://lora/of-mine/", lora_tries=2, lora_timeout_s=60
        )
        engine = EmbeddedEngine(args)
        await engine.start()
        for _ in range(2):
            assert (await ask(engine, PROMPT, "first", max_tokens=20)).tokens == alone(
                model_folder, adapters / "first"
            )
        assert len(tries) == 2, "it is fetched once, behind a try that failed"
        assert engine.has_adapter("second") and not engine.has_adapter("none")
        for name in ("none", "../of-mine/first", "", "/first", "."):
            with pytest.raises(UnknownModel):
                await ask(engine, PROMPT, name)
        tries.clear()
        monkeypatch.setattr(type(files), "get", lambda *_, **__: (_ for _ in ()).throw(OSError("cut")))
        with pytest.raises(Overloaded, match="cannot download the adapter second"):
            await ask(engine, PROMPT, "second")
        await engine.stop()

    asyncio.run(run())
    files.rm("/lora", recursive=True)
