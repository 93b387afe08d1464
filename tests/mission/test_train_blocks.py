"""Every code block of the mission's documents that concerns Train, run as written, also those that Ray 2.60 refuses.

`train_stage.py` makes tiny models and data in the place of downloads, and two workers on CPUs of four or eight on GPUs. Those
that want DeepSpeed run with `make test-deepspeed`; here each of them runs with `twins/`, the same names over plain torch.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("torch", reason="the extra skate[train] is not installed")
pytest.importorskip("transformers", reason="the extra skate[transformers] is not installed")
pytest.importorskip("pyarrow", reason="Train reads its data with Data")

HERE = Path(__file__).parent
ROOT = HERE.parents[1]


WITH_BERT = "torch,transformers.models.bert.modeling_bert,transformers.models.llama.modeling_llama"
MODELS = "meta-llama/Llama-3.1-8B,meta-llama/Llama-3.1-70B,gpt2-large,bert-base-cased"


def group(name: str, *paths: str, **more: object) -> dict[str, object]:
    return {"name": name, "paths": [str(HERE / each) for each in paths], **more}


IMAGES = [
    group("001", "blocks/001_train.py", "then/001_train_check.py"),
    group("quick", "blocks/003_quick_version.py"),
    group("fashion", "blocks/003_fashion_mnist.py", "then/003_fashion_mnist_check.py"),
    group("cifar", "blocks/004_cifar.py", "then/004_cifar_check.py"),
]
LANGUAGE = [
    group("llama", "blocks/000_train_llama.py", "then/000_train_check.py"),
    group("deepspeed", "blocks/000_train_deepspeed.py", "then/000_deepspeed_check.py", fill="deepspeed"),
    group("zero3", "blocks/004_zero3.py", "then/004_zero3_check.py", fill="zero3 on CPUs"),
    group(
        "streaming",
        *("blocks/003_streaming_train_func.py", "blocks/003_streaming_training.py"),
        "then/003_streaming_training_check.py",
    ),
    group("002", "blocks/002_fine_tuning.py", "then/002_fine_tuning_check.py", starts_itself=True),
    group("pipeline", "blocks/004_pipeline.py", fill="pipeline", starts_itself=True),
    group(
        "pipeline on CPUs",
        *("blocks/004_pipeline.py", "then/004_pipeline_check.py"),
        fill="pipeline on CPUs",
        starts_itself=True,
    ),
]
WITH_DEEPSPEED = [
    group(
        "deepspeed",
        *("blocks/000_train_deepspeed.py", "then/000_deepspeed_check.py"),
        fill="deepspeed, passed directly",
    ),
    group("zero3", "blocks/004_zero3.py", "then/004_zero3_check.py", fill="zero3 on CPUs, Adam of torch"),
    group("zero3 in fp16", "blocks/004_zero3.py"),
    group(
        "pipeline on CPUs",
        *("blocks/004_pipeline.py", "then/004_pipeline_check.py"),
        fill="pipeline on CPUs",
        starts_itself=True,
    ),
]


def perform(groups: list[dict[str, object]], folder: Path, *more_paths: str, **more: str) -> dict[str, str]:
    """Run groups of blocks under ``skate run``; what each printed, by its name."""
    environment = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join(map(str, [ROOT / "src", HERE, *(HERE / each for each in more_paths)])),
        "HOME": str(folder),  # a block locks a file there
        "HF_HOME": str(folder / "hf"),
        "HF_HUB_OFFLINE": "1",
        "OMP_NUM_THREADS": "1",
        "TOKENIZERS_PARALLELISM": "false",
        "STAGE_RESULTS": str(folder / "results"),
        "STAGE_MODELS": "",
        "STAGE_PRELOAD": "torch",
        **more,
    }
    environment.pop("CUDA_VISIBLE_DEVICES", None)
    words = [sys.executable, "-m", "skate", "run", str(HERE / "train_stage.py"), json.dumps(groups)]
    done = subprocess.run(words, capture_output=True, text=True, timeout=540, env=environment, check=False)
    assert done.returncode == 0, (
        f"the stage ended with status {done.returncode}:\n{done.stdout}\n{done.stderr}"
    )
    print(done.stdout)
    parts = re.split(r"^== (?!FAILED)(.*)$", done.stdout, flags=re.MULTILINE)
    return dict(zip(parts[1::2], parts[2::2], strict=True))


@pytest.fixture(scope="module")
def images(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    pytest.importorskip("sklearn", reason="its digits are the images")
    return perform(IMAGES, tmp_path_factory.mktemp("images"), "train_stand_ins", STAGE_IMAGES="1")


@pytest.fixture(scope="module")
def language(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    pytest.importorskip("torchmetrics", reason="a block counts with it; the extra skate[lightning] brings it")
    more = {"STAGE_MODELS": MODELS, "STAGE_PRELOAD": WITH_BERT, "STAGE_DEEPSPEED": "1"}
    return perform(LANGUAGE, tmp_path_factory.mktemp("language"), "twins", **more)


@pytest.fixture(scope="module")
def with_deepspeed(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    pytest.importorskip(
        "deepspeed", reason="the extra skate[deepspeed] is not installed; make test-deepspeed does it"
    )
    more = {"STAGE_MODELS": MODELS, "STAGE_PRELOAD": WITH_BERT, "STAGE_DEEPSPEED": "1"}
    return perform(WITH_DEEPSPEED, tmp_path_factory.mktemp("deepspeed"), **more)


def shown(output: str, *wanted: str) -> None:
    """The group did not fail, and printed this."""
    assert "== FAILED" not in output, output
    for each in wanted:
        assert each in output, output


def test_t_5_2_train_llama(language: dict[str, str]) -> None:
    """000: `result.metrics['loss']` after reports without a checkpoint."""
    shown(language["llama"], "Final loss: ", "trained for 3 epochs")


def test_train_with_a_function_of_the_readers(images: dict[str, str]) -> None:
    """001: scaling_config=ray.train.ScalingConfig(...) with nothing else imported."""
    shown(images["001"], "trained to a loss of")


def test_fine_tuning(language: dict[str, str]) -> None:
    """002: `from ray.train import Trainer`, and `TorchTrainer(config=...)`."""
    shown(language["002"], "the block ran to its end")


def test_quick_version(images: dict[str, str]) -> None:
    """003: twenty lines, and the last loss."""
    shown(images["quick"], "Final loss: 1.0")


def test_fashion_mnist(images: dict[str, str]) -> None:
    """003: a realistic script, with checkpoints."""
    shown(images["fashion"], "ten epochs")


def test_streaming_into_training(language: dict[str, str]) -> None:
    """003: `batch["text"]` of `iter_torch_batches` in the workers, a column of strings."""
    shown(language["streaming"], "two workers went over the rows ten times")


def test_multi_node_storage(capsys: pytest.CaptureFixture[str]) -> None:
    """003: a bucket as the place for results."""
    paths = (HERE / "blocks" / "003_multi_node_storage.py", HERE / "then" / "003_multi_node_check.py")
    exec("from skate.train import RunConfig\n" + "".join(each.read_text() for each in paths), {})
    assert "results go to s3://my-bucket/ray-results" in capsys.readouterr().out


def test_cifar(images: dict[str, str]) -> None:
    """004: data-parallel training, and the result printed."""
    shown(images["cifar"], "Training result: Result(metrics={'loss': ", "one epoch with an accuracy of")


def test_t_5_3_deepspeed_as_it_stands(language: dict[str, str]) -> None:
    """000: nothing passes the config on, so the model is one of DDP."""
    shown(language["deepspeed"], "trained a DistributedDataParallel")


def test_zero3_twin(language: dict[str, str]) -> None:
    """004: the loop over pairs of sentences, without DeepSpeed."""
    shown(language["zero3"], "three epochs")


def test_pipeline_without_gpus(language: dict[str, str]) -> None:
    """004: as it stands, `torch.cuda.set_device` on a CPU: the error says what to change."""
    shown(
        language["pipeline"],
        "Training failed with error: ",
        "what to change: this worker has no GPU",
        "if torch.cuda.is_available():",
    )


def test_pipeline_twin(language: dict[str, str]) -> None:
    """004: two stages with `torch.distributed.pipelining` under the names of DeepSpeed."""
    shown(language["pipeline on CPUs"], "Pipeline-parallel training completed successfully!", "two stages")


@pytest.mark.deepspeed
@pytest.mark.timeout(600)
class TestWithDeepSpeed:
    """The same blocks with the library itself."""

    def test_t_5_3_passed_directly(self, with_deepspeed: dict[str, str]) -> None:
        """000: ZeRO 3 with all offloaded, driven by the loop of T.5.2."""
        shown(with_deepspeed["deepspeed"], "trained a DeepSpeedEngine")

    def test_zero3(self, with_deepspeed: dict[str, str]) -> None:
        """004: only half precision is changed, and the Adam that would be compiled."""
        shown(with_deepspeed["zero3"], "three epochs")

    def test_zero3_in_half_precision_without_gpus(self, with_deepspeed: dict[str, str]) -> None:
        """004: as it stands, on CPUs: the error says what to change."""
        output = with_deepspeed["zero3 in fp16"]
        assert "== FAILED" in output
        assert (
            "what to change: these workers have no GPU" in output and '"fp16": {"enabled": False}' in output
        )

    def test_pipeline(self, with_deepspeed: dict[str, str]) -> None:
        """004: only `set_device` is guarded, and the Adam that would be compiled."""
        shown(
            with_deepspeed["pipeline on CPUs"],
            "Pipeline-parallel training completed successfully!",
            "two stages",
        )
