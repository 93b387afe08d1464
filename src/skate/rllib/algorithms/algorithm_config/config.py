"""`AlgorithmConfig`: what an algorithm is made from."""

from __future__ import annotations

import copy
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from skate.rllib.algorithms.algorithm_config import validation
from skate.rllib.algorithms.algorithm_config.modules import DEFAULT_MODULE, ModuleSpecs
from skate.rllib.algorithms.algorithm_config.settings import Settings
from skate.rllib.policy.policy import PolicySpec

if TYPE_CHECKING:
    from typing_extensions import Self


class AlgorithmConfig(ModuleSpecs):
    """All settings of an algorithm: attributes, set one by one or by fluent methods that return the configuration.

    Args:
        algo_class: the class of algorithms that `build_algo` makes.
    """

    def __init__(self, algo_class: Any = None) -> None:
        super().__init__(algo_class)
        self.policies = {DEFAULT_MODULE: PolicySpec()}
        self.policy_mapping_fn = self.DEFAULT_POLICY_MAPPING_FN

    @staticmethod
    def DEFAULT_POLICY_MAPPING_FN(agent_id: Any, episode: Any, worker: Any = None, **kwargs: Any) -> str:
        """Map every agent to the default module."""
        return DEFAULT_MODULE

    @staticmethod
    def DEFAULT_AGENT_TO_MODULE_MAPPING_FN(agent_id: Any, episode: Any) -> str:
        """Map every agent to the default module."""
        return DEFAULT_MODULE

    # -- derived

    @property
    def is_atari(self) -> bool:
        """True if the environment is an Atari game."""
        if self._is_atari is not None:
            return bool(self._is_atari)
        return isinstance(self.env, str) and self.env.startswith(("ALE/", "ale_py:"))

    @property
    def is_online(self) -> bool:
        """True: samples come from environments."""
        return bool(self._is_online)

    @property
    def is_offline(self) -> bool:
        """True if samples come from files."""
        return not self.is_online

    @property
    def uses_new_env_runners(self) -> bool:
        """True: there is one API stack."""
        return True

    def get_evaluation_config_object(self) -> AlgorithmConfig | None:
        """Return the configuration of evaluation, or None if there is no evaluation."""
        if (
            not self.evaluation_interval
            and not self.evaluation_num_env_runners
            and not self.evaluation_config
        ):
            return None
        given = self.evaluation_config
        config = (
            given.copy(copy_frozen=False)
            if isinstance(given, AlgorithmConfig)
            else self.copy(copy_frozen=False)
        )
        if isinstance(given, Mapping):
            config.update_from_dict(given)
        config.in_evaluation = True
        config.num_env_runners = self.evaluation_num_env_runners
        config.sample_timeout_s = self.evaluation_sample_timeout_s
        if self.evaluation_duration_unit == "episodes":
            config.batch_mode = "complete_episodes"
        config.rollout_fragment_length = 1
        config.evaluation_config = None
        config.evaluation_interval = None
        return config

    def validate(self) -> None:
        """Check that the fields fit together.

        Raises:
            ValueError: they do not, or ask for something that is not available; the error lists all.
        """
        if self._validate_config:
            validation.check(list(self._checks()))

    def _checks(self) -> Iterator[str]:
        """Yield what is wrong with the fields; subclasses add to it."""
        yield from validation.complaints(self)

    # -- building

    def build_algo(self, env: Any = None, use_copy: bool = True) -> Any:
        """Build the algorithm.

        Args:
            env: the environment, instead of `environment(env)`.
            use_copy: False to use this configuration itself, which then cannot be changed any more.

        Returns:
            An `Algorithm`.

        Raises:
            ValueError: the configuration is invalid, or has no environment or no class of algorithms.
        """
        if self.algo_class is None:
            raise ValueError(
                f"{type(self).__name__} has no algorithm; use the configuration of one, such as PPOConfig()"
            )
        config = self.copy(copy_frozen=False) if use_copy else self
        if env is not None:
            config.env = env
        return config.algo_class(config=config)

    def build(self, *args: Any, **kwargs: Any) -> Any:
        """Build the algorithm; an older name of `build_algo`."""
        return self.build_algo(*args, **kwargs)

    def build_learner_group(
        self,
        *,
        env: Any = None,
        spaces: Mapping[str, Any] | None = None,
        rl_module_spec: Any = None,
        placement_group: Any = None,
    ) -> Any:
        """Return a new group of learners, for an environment or for spaces."""
        # Imported here so that a configuration can be written without loading torch.
        from skate.rllib.core.learner.learner_group import LearnerGroup

        spec = rl_module_spec or self.get_multi_rl_module_spec(env=env, spaces=spaces)
        return LearnerGroup(config=self, module_spec=spec)

    def build_env_to_module_connector(self, env: Any = None, spaces: Any = None, device: Any = None) -> Any:
        """Return the connectors from episodes to the batch of a module: those of the user, and the default ones.

        Args:
            env: the vector of environments.
            spaces: pairs of spaces by id, if there is no environment.
            device: where tensors go.
        """
        # Imported here so that a configuration can be written without loading torch.
        from skate.rllib.connectors.default_pipelines import build_env_to_module

        return build_env_to_module(self, env, spaces, device)

    def build_module_to_env_connector(self, env: Any = None, spaces: Any = None) -> Any:
        """Return the connectors from a module's outputs to actions: default ones, and those of the user between them.

        Args:
            env: the vector of environments.
            spaces: pairs of spaces by id, if there is no environment.
        """
        # Imported here so that a configuration can be written without loading torch.
        from skate.rllib.connectors.default_pipelines import build_module_to_env

        return build_module_to_env(self, env, spaces)

    def build_learner_connector(
        self, input_observation_space: Any = None, input_action_space: Any = None, device: Any = None
    ) -> Any:
        """Return the connectors of a learner: those of `learner_connector`, and the default ones after them."""
        # Imported here so that a configuration can be written without loading torch.
        from skate.rllib.connectors.learner.learner_connector_pipeline import build_learner_pipeline

        return build_learner_pipeline(self, input_observation_space, input_action_space, device)

    def build_learner(self, *, env: Any = None, spaces: Mapping[str, Any] | None = None) -> Any:
        """Return a new learner, for an environment or for spaces."""
        spec = self.get_multi_rl_module_spec(env=env, spaces=spaces)
        learner = self.learner_class(config=self, module_spec=spec)
        learner.build()
        return learner

    # -- conversion

    def get_state(self) -> dict[str, Any]:
        """Return the fields as a dict, with the class."""
        return {"class": type(self), "config": self.to_dict()}

    @classmethod
    def from_state(cls, state: Mapping[str, Any]) -> AlgorithmConfig:
        """Return the configuration of `get_state`."""
        found = state["class"]().update_from_dict(state["config"])
        assert isinstance(found, AlgorithmConfig)
        return found

    def serialize(self) -> dict[str, Any]:
        """Return the fields as a dict of plain values; functions and classes become their names."""
        return {name: _plain(value) for name, value in self.to_dict().items()}

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        found = self.copy()
        memo[id(self)] = found
        return found

    def __repr__(self) -> str:
        default = type(self)()
        changed = {
            name: value
            for name, value in vars(self).items()
            if name[:1] != "_" and value != default.get(name)
        }
        changed.pop("policy_mapping_fn", None)
        inner = ", ".join(f"{name}={copy.copy(value)!r:.60}" for name, value in changed.items())
        return f"{type(self).__name__}({inner})"


def _plain(value: Any) -> Any:
    if isinstance(value, Settings):
        return {name: _plain(each) for name, each in value.items()}
    if isinstance(value, dict):
        return {str(name): _plain(each) for name, each in value.items()}
    if isinstance(value, list | tuple | set):
        return [_plain(each) for each in value]
    if value is None or isinstance(value, str | int | float | bool):
        return value
    return getattr(value, "__qualname__", None) or repr(value)
