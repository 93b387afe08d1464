"""The engines that processors can use, by name."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from skate.data.llm import row_engines, transformers_text
from skate.data.llm.engine import EngineFactory, TextModelFactory
from skate.llm import engines as llm_engines


@dataclass(frozen=True)
class Registered:
    """A registered engine: its factory and the requirements of its workers."""

    factory: EngineFactory
    text_model: TextModelFactory
    needs_gpu: bool
    #: Raises ImportError if a requirement of the engine is not installed.
    check: Callable[[], None] | None


_engines: dict[str, Registered] = {}


def register_engine(
    name: str,
    factory: EngineFactory,
    *,
    text_model: TextModelFactory | None = None,
    needs_gpu: bool = True,
    check: Callable[[], None] | None = None,
) -> None:
    """Register an engine under a name, replacing one of the same name. Configs ask for "vllm" and "sglang".

    Args:
        factory: creates the engine, in a worker; it is pickled.
        text_model: creates the text model for the stages around the engine; None for transformers' tokenizers.
        needs_gpu: True if a worker requests GPUs.
        check: called when a processor is built; raises ImportError if something is not installed.
    """
    _engines[name] = Registered(factory, text_model or transformers_text.load, needs_gpu, check)


def engine(name: str, *, device: str | None = None, parallel: bool = False, gpus: float = 0) -> Registered:
    """Return an engine by name.

    Args:
        device: "gpu" or "cpu" if the config requests it.
        parallel: True if the config divides the model over several workers.
        gpus: the number of GPUs in the cluster; see skate.llm.engines.decided for the choice without any.

    Raises ImportError if it is not installed or not registered, RuntimeError if it needs a GPU and there is none.
    """
    if name == "vllm" and name not in _engines:
        chosen = llm_engines.choose(name, device=device, parallel=parallel, gpus=gpus)
        if chosen.engine == "vllm":
            return Registered(row_engines.VllmRows, transformers_text.load, chosen.on_gpus, None)
        return Registered(row_engines.EmbeddedRows, transformers_text.load, False, None)
    if name not in _engines:
        known = ", ".join(sorted({*_engines, "vllm"}))
        raise ImportError(
            f"there is no engine {name}: Skate does not include it; register one with "
            f"skate.data.llm.engines.register_engine({name!r}, factory), or use one of: {known}"
        )
    found = _engines[name]
    if found.check is not None:
        found.check()
    return found
