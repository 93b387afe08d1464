"""`Algorithm`: sampling, learning and evaluation in iterations; a trainable of Tune."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Any

from skate.rllib.algorithms import restoration, trial_resources
from skate.rllib.algorithms.actions import Acting
from skate.rllib.algorithms.algorithm_config import AlgorithmConfig
from skate.rllib.algorithms.evaluation import Evaluation
from skate.rllib.algorithms.machine_usage import usage
from skate.rllib.algorithms.module_changes import ModuleChanges
from skate.rllib.algorithms.runner_states import RunnerStates
from skate.rllib.algorithms.torch_threads import torch_threads
from skate.rllib.core import (
    COMPONENT_ENV_RUNNER,
    COMPONENT_EVAL_ENV_RUNNER,
    COMPONENT_LEARNER_GROUP,
    COMPONENT_METRICS_LOGGER,
    DEFAULT_MODULE_ID,
)
from skate.rllib.utils.checkpoints import Checkpointable, Components
from skate.rllib.utils.metrics import (
    ENV_RUNNER_RESULTS,
    EVALUATION_RESULTS,
    FAULT_TOLERANCE_STATS,
    LEARNER_RESULTS,
    NUM_ENV_STEPS_SAMPLED_LIFETIME,
    NUM_ENV_STEPS_TRAINED_LIFETIME,
    NUM_TRAINING_STEP_CALLS_PER_ITERATION,
    SYNCH_ENV_CONNECTOR_STATES_TIMER,
    SYNCH_WORKER_WEIGHTS_TIMER,
    TIMERS,
    TRAINING_ITERATION_TIMER,
    TRAINING_STEP_TIMER,
)
from skate.rllib.utils.metrics.metrics_logger import MetricsLogger
from skate.tune.trainable.trainable import Trainable


class Algorithm(Checkpointable, Acting, ModuleChanges, Trainable):
    """Base class of algorithms: define `training_step` and `get_default_config`.

    Args:
        config: an `AlgorithmConfig`, or a dict of some of its fields.
        env: the environment, instead of the configuration's.
        logger_creator: accepted for compatibility.
    """

    STATE_FILE_NAME = "algorithm_state"
    METADATA_FILE_NAME = "rllib_checkpoint.json"

    config: Any
    _is_stopped = False

    def __init__(
        self,
        config: AlgorithmConfig | Mapping[str, Any] | None = None,
        env: Any = None,
        logger_creator: Callable[..., Any] | None = None,
        **kwargs: Any,
    ) -> None:
        self.config = self._configured(config, env)
        self._begin()
        self.setup(self.config)

    @classmethod
    def _configured(cls, config: AlgorithmConfig | Mapping[str, Any] | None, env: Any) -> AlgorithmConfig:
        default = cls.get_default_config()
        if isinstance(config, type(default)):
            found = config.copy(copy_frozen=False)
        else:
            # A general AlgorithmConfig may be of any algorithm; all that it says replaces the algorithm's defaults.
            found = default.copy(copy_frozen=False)
            found.update_from_dict(config.to_dict() if isinstance(config, AlgorithmConfig) else config or {})
        if env is not None:
            found.env = env
        if found.algo_class is None:
            found.algo_class = cls
        found.validate()
        found.freeze()
        return found

    # -- for subclasses to define

    @classmethod
    def get_default_config(cls) -> AlgorithmConfig:
        """Return the configuration with the algorithm's defaults."""
        return AlgorithmConfig(algo_class=cls)

    def training_step(self) -> Any:
        """Sample, update the learners and send the new weights to the runners; log to `self.metrics`."""
        raise NotImplementedError(f"{type(self).__name__} must define training_step()")

    # -- life

    def setup(self, config: Any) -> None:
        """Create the runners, the learners and the logger."""
        # Imported here because a trial that never gets to run must not need torch or gymnasium.
        from skate.rllib.callbacks.make import Callbacks
        from skate.rllib.core.learner.learner_group import LearnerGroup
        from skate.rllib.env.env_runner_group import EnvRunnerGroup

        self.metrics = MetricsLogger(root=True, stats_cls_lookup=config.stats_cls_lookup)
        self.callbacks = Callbacks(config)
        self.env_runner_group: Any = EnvRunnerGroup(config)
        self.spaces = self.env_runner_group.get_spaces()
        spec = config.get_multi_rl_module_spec(spaces=self.spaces)
        self.learner_group: Any = LearnerGroup(config=config, module_spec=spec)
        folders = {name: each.load_state_path for name, each in spec.specs.items() if each.load_state_path}
        if spec.load_state_path or folders:
            self.learner_group.load_module_state(
                multi_rl_module_ckpt_dir=spec.load_state_path,
                modules_to_load=spec.modules_to_load,
                rl_module_ckpt_dirs=folders,
            )
        self._weights_seq_no = 0
        self.evaluation = Evaluation(self)
        self._send_weights()
        self.callbacks.run("on_algorithm_init", algorithm=self, metrics_logger=self.metrics)

    def cleanup(self) -> None:
        """Stop the runners and the learners."""
        self._is_stopped = True
        for part in (self.env_runner_group, self.evaluation, self.learner_group):
            end = getattr(part, "shutdown", None) or part.stop
            end()

    @property
    def env_runner(self) -> Any:
        """The runner in this process."""
        return self.env_runner_group.local_env_runner

    @property
    def eval_env_runner_group(self) -> Any:
        """The runners of evaluation, None if there is none."""
        return self.evaluation.group

    @property
    def eval_env_runner(self) -> Any:
        """The runner of evaluation in this process."""
        return self.evaluation.group.local_env_runner if self.evaluation.group else None

    @property
    def needs_episodes(self) -> bool:
        """True if learners have to be given episodes; fragments of columns, which spare making them, are not enough.

        Connectors of the user's look at episodes, and observations or actions of several arrays fit no column.
        """
        seen = [space for name, pair in self.spaces.items() if not name.startswith("__") for space in pair]
        return self.learner_group.has_own_connectors or any(hasattr(space, "spaces") for space in seen)

    @property
    def shows_samples(self) -> bool:
        """True if sampled episodes are seen by a user's code: a callback, or a runner with a `sample` of its own."""
        home = self.env_runner_group.runner_class.sample.__module__
        return not home.startswith("skate.rllib.") or self.callbacks.has("on_sample_end")

    # -- an iteration

    def step(self) -> dict[str, Any]:
        """Run one iteration: training steps until it is long enough, and an evaluation if one is due.

        Raises:
            RuntimeError: the algorithm was stopped.
        """
        if self._is_stopped:
            raise RuntimeError(
                f"this {type(self).__name__} was stopped; build another one, or restore one with from_checkpoint()"
            )
        with torch_threads(self.config):
            with self.metrics.log_time((TIMERS, TRAINING_ITERATION_TIMER)):
                calls = self.evaluation.around(self._train_long_enough)
                self._sync_runner_states()
            # Some figures are computed only here, of whole batches. A single operation on more threads starts a pool whose
            # threads spin for milliseconds after it, on the cores that the runners need.
            return self._compiled(calls)

    def _sync_runner_states(self) -> None:
        """Give all runners the merged states of their connectors, such as the statistics of filters."""
        if not self.config._dont_auto_sync_env_runner_states:
            with self.metrics.log_time((TIMERS, SYNCH_ENV_CONNECTOR_STATES_TIMER)):
                self.env_runner_group.sync_env_runner_states(config=self.config)

    def log_result(self, result: dict[str, Any]) -> None:
        """Let callbacks look at a result, which has all that Tune adds, and change it."""
        self.callbacks.run("on_train_result", algorithm=self, metrics_logger=self.metrics, result=result)
        super().log_result(result)

    def _train_long_enough(self) -> int:
        """Call `training_step` until the configured bounds are reached; return the number of calls."""
        started, calls = time.monotonic(), 0
        sampled, trained = self._steps_sampled(), self._steps_trained()
        config = self.config
        while True:
            with self.metrics.log_time((TIMERS, TRAINING_STEP_TIMER)):
                self.training_step()
            calls += 1
            if (
                time.monotonic() - started >= (config.min_time_s_per_iteration or 0)
                and self._steps_sampled() - sampled >= (config.min_sample_timesteps_per_iteration or 0)
                and self._steps_trained() - trained >= (config.min_train_timesteps_per_iteration or 0)
            ):
                return calls

    def _steps_sampled(self) -> int:
        return int(self.metrics.peek((ENV_RUNNER_RESULTS, NUM_ENV_STEPS_SAMPLED_LIFETIME), default=0) or 0)

    def _steps_trained(self) -> int:
        key = (LEARNER_RESULTS, "__all_modules__", NUM_ENV_STEPS_TRAINED_LIFETIME)
        return int(self.metrics.peek(key, default=0) or 0)

    def _compiled(self, calls: int) -> dict[str, Any]:
        result = self.metrics.reduce(compile=True)
        result.setdefault(ENV_RUNNER_RESULTS, {})
        result.setdefault(LEARNER_RESULTS, {})
        result[NUM_TRAINING_STEP_CALLS_PER_ITERATION] = calls
        result[NUM_ENV_STEPS_SAMPLED_LIFETIME] = self._steps_sampled()
        result[FAULT_TOLERANCE_STATS] = _health(self.env_runner_group)
        result["env_runner_group"] = {"actor_manager_num_outstanding_async_reqs": 0}
        if EVALUATION_RESULTS in result and self.evaluation.group is not None:
            result[EVALUATION_RESULTS].update(_health(self.evaluation.group))
        if self.config.log_sys_usage:
            result["perf"] = usage()
        return result

    def evaluate(self, parallel_train_future: Any = None) -> dict[str, Any]:
        """Evaluate the present weights.

        Returns:
            The figures of the episodes, under `env_runners`.

        Raises:
            ValueError: there are no runners for evaluation, and the local runner has no environment.
        """
        with torch_threads(self.config):
            self.evaluation.run()
            return dict(self.metrics.peek(EVALUATION_RESULTS, default={}))

    def restore_env_runners(self, env_runner_group: Any) -> list[int]:
        """Wait for runners that are being made anew, and give them the present state.

        Args:
            env_runner_group: the runners of training, or those of evaluation.

        Returns:
            Indices of the runners that can sample again.
        """
        restored: list[int] = env_runner_group.probe_unhealthy_env_runners()
        return restored

    def get_auto_filled_metrics(
        self,
        now: datetime | None = None,
        time_this_iter: float | None = None,
        timestamp: int | None = None,
        debug_metrics_only: bool = False,
    ) -> dict[str, Any]:
        """Return the metrics added to each result, with the configuration as a dict."""
        found = super().get_auto_filled_metrics(now, time_this_iter, timestamp, debug_metrics_only)
        found["config"] = self.config.to_dict()
        return found

    # -- weights and modules

    def _send_weights(self) -> None:
        """Send the learners' weights to the runners."""
        with self.metrics.log_time((TIMERS, SYNCH_WORKER_WEIGHTS_TIMER)):
            modules, version = self.learner_group._learner.module, self._weights_seq_no
            if self.env_runner_group.copy_weights(modules, version):
                return
            self.env_runner_group.sync_weights(self.acting_weights(), self._weights_seq_no)

    def acting_weights(self) -> dict[str, Any]:
        """Return the weights of each module, without the parts that only learning needs."""
        state = self.learner_group.get_state("learner/rl_module", inference_only=True)
        weights: dict[str, Any] = state["learner"]["rl_module"]
        return weights

    def _next_weights(self) -> None:
        self._weights_seq_no += 1
        self._send_weights()

    def get_module(self, module_id: str = DEFAULT_MODULE_ID) -> Any:
        """Return a module: the one that acts, or the learner's if there is no runner in this process.

        Args:
            module_id: the id of the module.

        Returns:
            The module; None if there is none of that id among several.

        Raises:
            KeyError: there is one module, and it is not of that id.
        """
        runner = self.env_runner
        modules = getattr(runner, "module", None)
        if modules is None:
            modules = self.learner_group._learner.module
        if _has(modules, module_id):
            return modules[module_id]
        if self.config.is_multi_agent:
            return None
        if module_id != DEFAULT_MODULE_ID:
            raise KeyError(f"there is no module {module_id!r}; the modules are: {DEFAULT_MODULE_ID}")
        return modules

    def get_weights(self, policies: list[str] | None = None) -> dict[str, Any]:
        """Return the weights of each module, or of the named ones."""
        found = self.learner_group.get_weights()
        return {name: state for name, state in found.items() if policies is None or name in policies}

    def set_weights(self, weights: Mapping[str, Any]) -> None:
        """Set the weights of modules, in the learners and the runners."""
        self.learner_group.set_weights(dict(weights))
        self._next_weights()

    # -- state

    def get_state(
        self, components: Components = None, *, not_components: Components = None, **kwargs: Any
    ) -> dict[str, Any]:
        """Return all that training depends on: weights, optimizers, random streams, environments, counters."""
        found: dict[str, Any] = {}
        for name, part in self.get_checkpointable_components():
            if self._check_component(name, components, not_components):
                found[name] = part.get_state(self._get_subcomponents(name, components))
        if self._check_component(COMPONENT_METRICS_LOGGER, components, not_components):
            found[COMPONENT_METRICS_LOGGER] = self.metrics.get_state()
        found["training_iteration"] = self.training_iteration
        found["weights_seq_no"] = self._weights_seq_no
        found["trainable"] = Trainable.get_state(self)
        return found

    def set_state(self, state: dict[str, Any]) -> None:
        """Restore a state, or the part of one that the dict has."""
        for name, part in self.get_checkpointable_components():
            if name in state:
                part.set_state(state[name])
        if COMPONENT_METRICS_LOGGER in state:
            self.metrics.set_state(state[COMPONENT_METRICS_LOGGER])
        # Runners refuse weights of an older version than theirs, so the version never goes back.
        self._weights_seq_no = max(self._weights_seq_no + 1, state.get("weights_seq_no", 0))
        self._iteration = state.get("training_iteration", self._iteration)
        trainable = state.get("trainable", {})
        self._time_total = trainable.get("time_total", self._time_total)
        if COMPONENT_LEARNER_GROUP in state:
            self._send_weights()

    def get_checkpointable_components(self) -> list[tuple[str, Any]]:
        """Return the runners and the learners, with their folders' names."""
        found = [
            (COMPONENT_ENV_RUNNER, RunnerStates(self.env_runner_group)),
            (COMPONENT_LEARNER_GROUP, self.learner_group),
        ]
        if self.evaluation.group is not None:
            found.append((COMPONENT_EVAL_ENV_RUNNER, RunnerStates(self.evaluation.group)))
        return found

    def get_ctor_args_and_kwargs(self) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """Return the configuration as a dict."""
        return (restoration.saved_fields(self.config),), {}

    def read_from(self, folder: Any) -> None:
        """Restore from a folder, one of Ray's as well."""
        restoration.read_algorithm(self, folder)
        self._send_weights()
        self.callbacks.run("on_checkpoint_loaded", algorithm=self, metrics_logger=self.metrics)

    def component_restored(self, component: str) -> None:
        """Give restored modules to the other learners and to the runners."""
        if component.strip("/").split("/")[0] == COMPONENT_LEARNER_GROUP:
            self.learner_group.component_restored(component)
            self._next_weights()

    @classmethod
    def from_checkpoint(cls, path: Any, filesystem: Any = None, **kwargs: Any) -> Any:
        """Return the algorithm that a checkpoint was saved from, with its state.

        Args:
            path: the folder, a URL, a `Checkpoint` or what `save` returned; also one that Ray wrote.
            filesystem: the pyarrow filesystem that the path is in.
            kwargs: `config`: a configuration, or a dict of fields, to use instead of the saved one.

        Raises:
            FileNotFoundError: there is no checkpoint at the path.
            ValueError: it is not one of such an algorithm.
        """
        return restoration.algorithm_from(cls, path, filesystem, kwargs.get("config"))

    # -- as a trial of Tune

    def save_checkpoint(self, checkpoint_dir: str) -> None:
        """Save to the folder of a trial's checkpoint."""
        self.save_to_path(checkpoint_dir)

    def load_checkpoint(self, checkpoint_dir: Any) -> None:
        """Restore from the folder of a trial's checkpoint."""
        self.restore_from_path(checkpoint_dir)

    @classmethod
    def default_resource_request(cls, config: Any) -> Any:
        """Return the resources of a trial: the algorithm's own, and those of runners and learners."""
        return trial_resources.request_of(cls._configured_loosely(config))

    @classmethod
    def _configured_loosely(cls, config: Any) -> AlgorithmConfig:
        if isinstance(config, AlgorithmConfig):
            return config
        return cls.get_default_config().copy(copy_frozen=False).update_from_dict(config or {})


def _has(modules: Any, module_id: str) -> bool:
    return hasattr(modules, "keys") and module_id in modules


def _health(group: Any) -> dict[str, int]:
    return {
        "num_healthy_workers": len(group.healthy_env_runner_ids()),
        "num_remote_worker_restarts": int(getattr(group, "num_restarts", 0)),
        "num_env_runners_dropped_lifetime": int(getattr(group, "num_dropped", 0)),
    }
