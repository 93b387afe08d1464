"""The fluent methods of a configuration: each sets the fields of one table and returns the configuration."""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING, Any, ClassVar

from skate.rllib.algorithms.algorithm_config.field import Fields, NotProvided, takes
from skate.rllib.algorithms.algorithm_config.offline import OFFLINE_DATA
from skate.rllib.algorithms.algorithm_config.reports import (
    CALLBACKS,
    CHECKPOINTING,
    DEBUGGING,
    EVALUATION,
    PYTHON_ENVIRONMENT,
    REPORTING,
)
from skate.rllib.algorithms.algorithm_config.sampling import (
    ENV_RUNNERS,
    ENVIRONMENT,
    FAULT_TOLERANCE,
    MULTI_AGENT,
)
from skate.rllib.algorithms.algorithm_config.settings import Settings
from skate.rllib.algorithms.algorithm_config.training import (
    API_STACK,
    EXPERIMENTAL,
    FRAMEWORK,
    LEARNERS,
    RESOURCES,
    RL_MODULE,
    TRAINING,
)
from skate.rllib.policy.policy import PolicySpec

if TYPE_CHECKING:
    from typing_extensions import Self

_BATCH_MODES = ("truncate_episodes", "complete_episodes")
_CLIPPED_BY = ("value", "norm", "global_norm")


class FluentMethods(Settings):
    """The methods that set fields by group."""

    #: Fields of one algorithm, which `training` sets as well.
    _own_fields: ClassVar[Fields] = {}
    #: False if learners need no log-probabilities of the actions that were sampled, so that runners leave them out.
    _learns_from_logp: ClassVar[bool] = True

    @takes(ENVIRONMENT, first="env")
    def environment(self, env: Any = NotProvided, **settings: Any) -> Self:
        """Set the environment and how it is used; `env_config` is merged into the one there is."""
        if isinstance(settings.get("env_config"), dict):
            settings["env_config"] = {**self.env_config, **settings["env_config"]}
        return self._set("environment", {"env": env, **settings}, ENVIRONMENT)

    @takes(ENV_RUNNERS)
    def env_runners(self, **settings: Any) -> Self:
        """Set the number of runners and environments, and how they sample.

        Raises:
            ValueError: `batch_mode` is unknown.
        """
        mode = settings.get("batch_mode", _BATCH_MODES[0])
        if isinstance(mode, str) and mode not in _BATCH_MODES:
            raise ValueError(f"`batch_mode` ({mode}) must be one of [{'|'.join(_BATCH_MODES)}]!")
        return self._set("env_runners", settings, ENV_RUNNERS)

    @takes(LEARNERS)
    def learners(self, **settings: Any) -> Self:
        """Set the number of learners and their resources."""
        return self._set("learners", settings, LEARNERS)

    @takes(TRAINING)
    def training(self, **settings: Any) -> Self:
        """Set batches, learning rate, and what the algorithm adds to them.

        Raises:
            ValueError: `grad_clip_by` is unknown, or a schedule is not one.
        """
        if "num_sgd_iter" in settings:
            warnings.warn("num_sgd_iter is now called num_epochs", DeprecationWarning, stacklevel=2)
            settings["num_epochs"] = settings.pop("num_sgd_iter")
        by = settings.get("grad_clip_by", NotProvided)
        if isinstance(by, str) and by not in _CLIPPED_BY:
            raise ValueError(f"`grad_clip_by` ({by}) must be one of: 'value', 'norm', or 'global_norm'!")
        if isinstance(settings.get("model"), dict):
            settings["model"] = {**self.model, **settings["model"]}
        return self._set("training", settings, {**self._own_fields, **TRAINING})

    @takes(CALLBACKS, first="callbacks_class")
    def callbacks(self, callbacks_class: Any = NotProvided, **settings: Any) -> Self:
        """Set what is called at events: classes, or functions by the name of an event.

        Raises:
            ValueError: Something that cannot be called is given for a class.
        """
        given_classes = callbacks_class if isinstance(callbacks_class, list | tuple) else [callbacks_class]
        wrong = [each for each in given_classes if each not in (None, NotProvided) and not callable(each)]
        if wrong:
            raise ValueError(
                f"callbacks_class={wrong[0]!r}; give a subclass of RLlibCallback, or a list of them"
            )
        given = {"callbacks_class": callbacks_class, **settings}
        return self._set("callbacks", given, CALLBACKS)

    @takes(MULTI_AGENT)
    def multi_agent(self, **settings: Any) -> Self:
        """Set the modules of several agents, and which agent uses which.

        Raises:
            ValueError: the id of a module is not a string, or is empty, or has a separator in it; or `count_steps_by` is
                unknown.
        """
        count = settings.get("count_steps_by", "env_steps")
        if count not in ("env_steps", "agent_steps", NotProvided):
            raise ValueError(
                f"config.multi_agent(count_steps_by=..) must be one of 'env_steps' and 'agent_steps', got {count!r}"
            )
        policies = settings.get("policies", NotProvided)
        if isinstance(policies, set | frozenset | list | tuple | dict):
            settings["policies"] = _policies(policies)
        # An older place of this setting, which programs still use.
        overrides = "algorithm_config_overrides_per_module"
        if overrides in settings:
            self.rl_module(**{overrides: settings.pop(overrides)})
        return self._set("multi_agent", settings, MULTI_AGENT)

    @takes(OFFLINE_DATA)
    def offline_data(self, **settings: Any) -> Self:
        """Set the files to learn from or to record to."""
        return self._set("offline_data", settings, OFFLINE_DATA)

    @takes(EVALUATION)
    def evaluation(self, **settings: Any) -> Self:
        """Set how often, how long and with which settings to evaluate."""
        config = settings.get("evaluation_config")
        if isinstance(config, Settings):
            settings["evaluation_config"] = config.to_dict()
        return self._set("evaluation", settings, EVALUATION)

    @takes(REPORTING)
    def reporting(self, **settings: Any) -> Self:
        """Set the length of an iteration, and what its result has."""
        return self._set("reporting", settings, REPORTING)

    @takes(CHECKPOINTING)
    def checkpointing(self, **settings: Any) -> Self:
        """Set what checkpoints have."""
        return self._set("checkpointing", settings, CHECKPOINTING)

    @takes(DEBUGGING)
    def debugging(self, **settings: Any) -> Self:
        """Set the seed and the logs."""
        return self._set("debugging", settings, DEBUGGING)

    @takes(FAULT_TOLERANCE)
    def fault_tolerance(self, **settings: Any) -> Self:
        """Set what happens when runners or environments fail."""
        return self._set("fault_tolerance", settings, FAULT_TOLERANCE)

    @takes(RL_MODULE)
    def rl_module(self, **settings: Any) -> Self:
        """Set the networks."""
        return self._set("rl_module", settings, RL_MODULE)

    @takes(RESOURCES)
    def resources(self, **settings: Any) -> Self:
        """Set the resources of the algorithm's own process."""
        return self._set("resources", settings, RESOURCES)

    @takes(FRAMEWORK, first="framework")
    def framework(self, framework: Any = NotProvided, **settings: Any) -> Self:
        """Set the framework, and how torch compiles.

        Raises:
            ValueError: the framework is not torch.
        """
        if isinstance(framework, str) and framework != "torch":
            raise ValueError(f"framework={framework!r} is not available: modules and learners are torch's")
        return self._set("framework", {"framework": framework, **settings}, FRAMEWORK)

    @takes(API_STACK)
    def api_stack(self, *stack: bool, **settings: Any) -> Self:
        """Accept the choice of a stack: there is one, so that programs for either run on it.

        A program that uses what only the old one has (a `TorchModelV2`, a `Policy`) gets an error there.
        """
        given = dict(zip(API_STACK, stack, strict=False)) | settings
        if any(value is False for value in given.values()):
            warnings.warn(
                "the old API stack is not available; the configuration runs on the new one: write custom models as "
                "RLModules, and set them with .rl_module(rl_module_spec=RLModuleSpec(module_class=...))",
                stacklevel=2,
            )
            given = dict.fromkeys(given, True)
        return self._set("api_stack", given, API_STACK)

    @takes(EXPERIMENTAL)
    def experimental(self, **settings: Any) -> Self:
        """Set what may still change."""
        return self._set("experimental", settings, EXPERIMENTAL)

    @takes(PYTHON_ENVIRONMENT)
    def python_environment(self, **settings: Any) -> Self:
        """Set environment variables of processes."""
        return self._set("python_environment", settings, PYTHON_ENVIRONMENT)

    def rollouts(self, *args: Any, **kwargs: Any) -> Self:
        """Refused: the method is called `env_runners`.

        Raises:
            ValueError: always.
        """
        raise ValueError(
            "`AlgorithmConfig.rollouts(..)` has been deprecated. Use `AlgorithmConfig.env_runners(..)` instead."
        )

    def exploration(self, *args: Any, **kwargs: Any) -> Self:
        """Refused: `env_runners(explore=...)` sets it.

        Raises:
            ValueError: always.
        """
        raise ValueError(
            "`AlgorithmConfig.exploration(..)` has been deprecated. Use `AlgorithmConfig.env_runners(explore=..)` "
            "instead, and forward_exploration of an own RLModule to explore in another way."
        )


def _policies(given: Any) -> dict[str, PolicySpec]:
    """Return the spec of each module, an empty one for those that are only named."""
    found = {}
    for name in given:
        if not isinstance(name, str) or not name or "/" in name:
            raise ValueError(
                f"the id of a module must be a string of one or more characters without '/', got {name!r}"
            )
        spec = given[name] if isinstance(given, dict) else None
        if isinstance(spec, tuple | list) and len(spec) == len(PolicySpec.__dataclass_fields__):
            spec = PolicySpec(*spec)
        if spec is not None and not isinstance(spec, PolicySpec):
            raise ValueError(
                f"policies[{name!r}] must be a PolicySpec or None, not {type(spec).__name__}: {spec!r:.80}"
            )
        found[name] = spec or PolicySpec()
    return found
