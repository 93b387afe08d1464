"""State of runners in checkpoints: connectors, counters, and environments with their random streams."""

from __future__ import annotations

import contextlib
import logging
import pathlib
from collections.abc import Callable
from typing import Any

from skate import cloudpickle
from skate.rllib import checkpoint_folder
from skate.rllib.core import COMPONENT_RL_MODULE
from skate.rllib.env.sampling import lane_state
from skate.rllib.utils.checkpoints import Checkpointable, Components
from skate.rllib.utils.metrics import NUM_ENV_STEPS_SAMPLED_LIFETIME

logger = logging.getLogger(__name__)

LANES = "lanes"
CONNECTORS = ("env_to_module_connector", "module_to_env_connector")


class RunnerStates(Checkpointable):
    """The runners of an algorithm or of its evaluation, as a part of a checkpoint.

    Args:
        group: the runners.
    """

    def __init__(self, group: Any) -> None:
        self._group = group

    def get_state(
        self, components: Components = None, *, not_components: Components = None, **kwargs: Any
    ) -> dict[str, Any]:
        """Return the state of connectors and counters, and each runner's environments if they can be pickled."""
        state: dict[str, Any] = self._group.get_state(not_components=COMPONENT_RL_MODULE)
        if self._check_component(LANES, components, not_components):
            state[LANES] = self._group.foreach_env_runner(_packed_lanes, local_env_runner=self._is_local)
        return state

    def set_state(self, state: dict[str, Any]) -> None:
        """Restore a state; runners whose environments are not in it begin new episodes."""
        lanes = state.get(LANES) or []
        rest = {name: value for name, value in state.items() if name != LANES}
        if set(rest) - {NUM_ENV_STEPS_SAMPLED_LIFETIME} or rest.get(NUM_ENV_STEPS_SAMPLED_LIFETIME):
            self._group.set_state(rest)
        if self._is_local:
            if lanes:
                _unpack_lanes(self._group.local_env_runner, lanes[0])
        elif len(lanes) == self._group.num_env_runners:
            self._group.foreach_env_runner([_unpacker(each) for each in lanes], local_env_runner=False)

    @property
    def _is_local(self) -> bool:
        return not self._group.num_env_runners

    @property
    def _saved_class(self) -> Any:
        """The class of a runner, as the folder is that of one."""
        return self._group.runner_class

    def get_ctor_args_and_kwargs(self) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """Return the arguments of a runner."""
        return (), {"config": self._group.config}

    def write_to(self, folder: pathlib.Path, state: dict[str, Any]) -> None:
        """Write a state to a folder, each pipeline of connectors to a folder inside."""
        rest = {name: value for name, value in state.items() if name not in CONNECTORS}
        super().write_to(folder, rest)
        for name in CONNECTORS:
            if name in state:
                self._write_pipeline(name, folder / name, state[name])

    def _write_pipeline(self, name: str, folder: pathlib.Path, state: dict[str, Any]) -> None:
        """Write a pipeline, so that it can be made from its folder alone if its connectors can be pickled."""
        runner = self._group.local_env_runner
        pipeline = getattr(
            runner, {"env_to_module_connector": "_env_to_module"}.get(name, "_module_to_env"), None
        )
        if pipeline is not None:
            try:
                pipeline.write_to(folder, state)
                return
            except Exception:  # arguments of a user's connectors may refuse to be pickled in any way
                logger.warning("the %s cannot be made from this checkpoint: it cannot be pickled", name)
        for connector, held in state.items():
            (folder / connector).mkdir(parents=True, exist_ok=True)
            checkpoint_folder.write(folder / connector, "state.pkl", held)
            checkpoint_folder.write_metadata(folder / connector, "metadata.json", "state")
        folder.mkdir(exist_ok=True)
        checkpoint_folder.write(folder, "state.pkl", {})
        checkpoint_folder.write_metadata(folder, "metadata.json", "state")

    def read_from(self, folder: pathlib.Path) -> None:
        """Restore from a folder."""
        state = checkpoint_folder.read(folder, "state.pkl")
        for name in CONNECTORS:
            if (folder / name / "state.pkl").exists():
                state[name] = dict(checkpoint_folder.read(folder / name, "state.pkl"))
                for each in sorted((folder / name).glob("*/state.pkl")):
                    state[name][each.parent.name] = checkpoint_folder.read(each.parent, "state.pkl")
        self.set_state(state)


def _packed_lanes(runner: Any) -> bytes | None:
    """Return the environments of a runner as bytes, None if they cannot be pickled."""
    if runner.env is None:
        return None
    with contextlib.suppress(Exception):  # an environment may refuse to be pickled in any way
        return lane_state.packed(runner.get_lane_state())
    logger.warning(
        "the environments of %s cannot be pickled: after a restore from this checkpoint they begin new episodes",
        runner,
    )
    return None


def _unpack_lanes(runner: Any, packed: bytes | None) -> None:
    if packed is not None and runner.env is not None:
        runner.set_lane_state(cloudpickle.loads(packed))


def _unpacker(packed: bytes | None) -> Callable[[Any], None]:
    return lambda runner: _unpack_lanes(runner, packed)
