"""Imports of frameworks that may be absent."""

from __future__ import annotations

from typing import Any


def try_import_torch(error: bool = False) -> tuple[Any, Any]:
    """Return the modules `torch` and `torch.nn`, or None for both if torch is not installed.

    Args:
        error: True to raise instead.

    Raises:
        ImportError: torch is not installed, and `error` is set.
    """
    try:
        import torch  # optional
    except ImportError:
        if error:
            raise ImportError("torch is not installed; install skate[rllib]") from None
        return None, None
    return torch, torch.nn


def try_import_tf(error: bool = False) -> tuple[None, None, None]:
    """Return None for TensorFlow 1, TensorFlow 2 and the version: modules and learners are torch's.

    Args:
        error: True to raise instead.

    Raises:
        ImportError: `error` is set.
    """
    if error:
        raise ImportError("TensorFlow is not available for RLlib: modules and learners are torch's")
    return None, None, None


def try_import_tfp(error: bool = False) -> None:
    """Return None for TensorFlow Probability: distributions are torch's.

    Args:
        error: True to raise instead.

    Raises:
        ImportError: `error` is set.
    """
    if error:
        raise ImportError("TensorFlow Probability is not available for RLlib: distributions are torch's")


def convert_to_tensor(data: Any, framework: str, device: Any = None) -> Any:
    """Return nested arrays as tensors.

    Args:
        data: Arrays in dicts, tuples and lists.
        framework: Only ``"torch"``.
        device: Where to put them; the CPU if None.

    Raises:
        NotImplementedError: The framework is another one.
    """
    if framework != "torch":
        raise NotImplementedError(f'framework="{framework}" was asked for; only "torch" is available')
    # Imported here because this module is imported without torch.
    from skate.rllib.core.models.torch.tensor_functions import convert_to_torch_tensor

    return convert_to_torch_tensor(data, device=device)


def get_device(config: Any, num_gpus_requested: float = 1) -> Any:
    """Return the device of torch that a learner or a runner computes on.

    Args:
        config: The algorithm's config; its ``local_gpu_idx`` chooses among the GPUs of this process.
        num_gpus_requested: GPUs of the learner or the runner; 0 for the CPU.

    Raises:
        ValueError: There is no such GPU.
    """
    torch, _ = try_import_torch(error=True)
    if not num_gpus_requested:
        return torch.device("cpu")
    index = int(getattr(config, "local_gpu_idx", 0))
    if index >= torch.cuda.device_count():
        raise ValueError(
            f"local_gpu_idx={index} was asked for; torch finds {torch.cuda.device_count()} GPUs in this process"
        )
    return torch.device(index)
