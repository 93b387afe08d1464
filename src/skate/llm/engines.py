"""The registry of engines, and the choice of a substitute if vLLM is not installed."""

from __future__ import annotations

import logging
import os
from dataclasses import dataclass

from skate.installed import is_installed
from skate.llm.engine import Engine, EngineArgs, EngineFactory

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
    """The engine of a config, with the facts that decide whether to substitute it."""

    engine: str
    requests_gpus: bool
    gpus: float
    vllm_installed: bool
    embedded_installed: bool = True
    setting: str | None = None


def decided(place: Place) -> tuple[str, str | None]:
    """Return the name of the engine to use, and a message about the choice.

    The embedded engine replaces vLLM only if vLLM is not installed, there is no GPU, and the config requests
    none. Nothing is lost then: weights, parameters and API are the same, and unsupported engine arguments are
    rejected by name. If a GPU exists or was requested, the model would run a hundred times slower than expected,
    perhaps unnoticed, so a missing vLLM is an error.

    Raises ImportError.
    """
    if place.setting:
        return place.setting.lower(), None
    name = place.engine.lower()
    if name != "vllm" or place.vllm_installed:
        return name, None
    if place.requests_gpus or place.gpus or not place.embedded_installed:
        why = "the embedded engine's torch and transformers are not, either"
        if place.requests_gpus:
            why = "the config requests GPUs"
        elif place.gpus:
            why = f"there are {place.gpus:g} GPUs"
        raise ImportError(
            f"vLLM is not installed, and {why}: install it with `pip install vllm`; to run the model on CPUs "
            f"with the embedded engine, set llm_engine='embedded' and request no GPUs, or set {SETTING}=embedded",
            name="vllm",
        )
    return "embedded", (
        "vLLM is not installed and there is no GPU: the embedded engine runs the model on the CPU, with the "
        "same answers, but much slower; set llm_engine='embedded' to silence this message"
    )


def choose(engine: str, *, requests_gpus: bool, gpus: float) -> str:
    """Return the engine to use here, and log a warning if it replaces vLLM. Raises ImportError, ValueError."""
    embedded = all(map(is_installed, _engines["embedded"].packages))
    place = Place(engine, requests_gpus, gpus, is_installed("vllm"), embedded, os.environ.get(SETTING))
    name, message = decided(place)
    if message is not None:
        _log.warning(message)
    find(name)
    return name
