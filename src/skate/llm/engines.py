"""Engines by name, and the choice of a substitute where vLLM is missing."""

from __future__ import annotations

import logging
import os
from dataclasses import dataclass

from skate.installed import there
from skate.llm.engine import Engine, EngineArgs, EngineFactory

#: Overrides the engine of all configs, to try programs on a machine without GPUs.
SETTING = "SKATE_LLM_ENGINE"
_log = logging.getLogger("skate.llm")


def _vllm(args: EngineArgs) -> Engine:
    from skate.llm.vllm import VllmEngine  # only those who use it need it

    return VllmEngine(args)


def _embedded(args: EngineArgs) -> Engine:
    # torch and transformers are wanted only where the engine runs
    from skate.llm.embedded.engine import EmbeddedEngine

    return EmbeddedEngine(args)


@dataclass(frozen=True)
class Known:
    """An engine: what makes it, what has to be installed, and whether it takes GPUs."""

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
    """Let configs ask for an engine by name; names are compared without case. One of the same name is replaced."""
    _engines[name.lower()] = Known(factory, packages, needs_gpu)


def names() -> tuple[str, ...]:
    """The names of all engines."""
    return tuple(sorted(_engines))


def find(name: str) -> Known:
    """An engine by name. Raises ValueError for an unknown one, ImportError if packages are missing."""
    known = _engines.get(name.lower())
    if known is None:
        raise ValueError(f"there is no engine {name!r}; the engines are {', '.join(names())}")
    missing = [package for package in known.packages if not there(package)]
    if missing:
        raise ImportError(
            f"the engine {name} needs {' and '.join(missing)}; install with `pip install {' '.join(missing)}`",
            name=missing[0],
        )
    return known


@dataclass(frozen=True)
class Place:
    """A config's engine and the facts that decide on a substitute."""

    engine: str
    asks_for_gpus: bool
    gpus: float
    vllm_installed: bool
    embedded_installed: bool = True
    setting: str | None = None


def decided(place: Place) -> tuple[str, str | None]:
    """Return the engine's name, and a message about the choice.

    The embedded engine replaces vLLM only if vLLM is not installed, there is no GPU, and the config asks for
    none. Then nothing is lost: the same weights, params and API, and unsupported engine arguments are rejected
    by name. If a GPU exists or was requested, the model would run a hundred times slower than expected, perhaps
    unnoticed, so a missing vLLM is an error.

    Raises ImportError.
    """
    if place.setting:
        return place.setting.lower(), None
    name = place.engine.lower()
    if name != "vllm" or place.vllm_installed:
        return name, None
    if place.asks_for_gpus or place.gpus or not place.embedded_installed:
        why = "the embedded engine's torch and transformers are not, either"
        if place.asks_for_gpus:
            why = "the config asks for GPUs"
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


def choose(engine: str, *, asks_for_gpus: bool, gpus: float) -> str:
    """The engine that runs a model here; logs when it is not the one that was named. Raises ImportError, ValueError."""
    embedded = all(map(there, _engines["embedded"].packages))
    place = Place(engine, asks_for_gpus, gpus, there("vllm"), embedded, os.environ.get(SETTING))
    name, said = decided(place)
    if said is not None:
        _log.warning(said)
    find(name)
    return name
