"""Evaluation of an algorithm: episodes with the present weights, on runners of their own."""

from __future__ import annotations

import concurrent.futures
import logging
import math
import time
from collections.abc import Callable
from typing import Any

from skate.rllib.utils.metrics import (
    ENV_RUNNER_RESULTS,
    EVALUATION_ITERATION_TIMER,
    EVALUATION_RESULTS,
    TIMERS,
)

logger = logging.getLogger(__name__)


class Evaluation:
    """The runners of evaluation, and when they run.

    Args:
        algorithm: the algorithm whose weights are evaluated.
    """

    def __init__(self, algorithm: Any) -> None:
        # Imported here because runners need gymnasium.
        from skate.rllib.env.env_runner_group import EnvRunnerGroup

        self._algorithm = algorithm
        self._training = False
        #: Evaluations in a row that found no runner.
        self._skips = 0
        self.config = algorithm.config.get_evaluation_config_object()
        self.group: Any = None
        if self.config is not None:
            self.group = EnvRunnerGroup(self.config)

    def stop(self) -> None:
        """Stop the runners."""
        if self.group is not None:
            self.group.stop()

    def around(self, train: Callable[[], int]) -> int:
        """Train, and evaluate after it or beside it if an evaluation is due; return what training returned."""
        interval = self._algorithm.config.evaluation_interval
        due = bool(interval) and (self._algorithm.iteration + 1) % interval == 0
        if not due:
            return train()
        if not self._algorithm.config.evaluation_parallel_to_training:
            calls = train()
            self.run()
            return calls
        weights = self._weights()
        with concurrent.futures.ThreadPoolExecutor(1, thread_name_prefix="evaluation") as threads:
            self._training = True
            beside = threads.submit(self._sample, weights)
            try:
                calls = train()
            finally:
                self._training = False
            self._log(beside.result())
        return calls

    def run(self) -> None:
        """Evaluate now; without runners for it on the local runner of training, which begins new episodes after it.

        Raises:
            ValueError: there are no runners for evaluation, and the local runner has no environment.
        """
        algorithm = self._algorithm
        local = algorithm.env_runner_group.local_env_runner
        if self.group is None and getattr(local, "env", None) is None:
            raise ValueError(
                "there are no runners for evaluation, and the local runner has no environment; set "
                ".evaluation(evaluation_interval=1), or .evaluation(evaluation_config={'explore': False}) to evaluate by "
                "calls of evaluate() alone, or .env_runners(create_env_on_local_worker=True)"
            )
        algorithm.callbacks.run("on_evaluate_start", algorithm=algorithm, metrics_logger=algorithm.metrics)
        with algorithm.metrics.log_time((TIMERS, EVALUATION_ITERATION_TIMER)):
            weights = self._weights()
            custom = (self.config or algorithm.config).custom_evaluation_function
            if custom is not None:
                (self.group or algorithm.env_runner_group).sync_weights(*weights)
                results = custom(algorithm, self.group)
                figures = results[0] if isinstance(results, tuple) else results
                algorithm.metrics.log_dict(figures, key=(EVALUATION_RESULTS,), reduce="mean", window=1)
            else:
                self._log(self._sample(weights))
        algorithm.callbacks.run(
            "on_evaluate_end",
            algorithm=algorithm,
            metrics_logger=algorithm.metrics,
            evaluation_metrics=algorithm.metrics.peek(EVALUATION_RESULTS, default={}),
        )

    def _weights(self) -> tuple[Any, int]:
        return self._algorithm.acting_weights(), self._algorithm._weights_seq_no

    def _log(self, metrics: list[Any]) -> None:
        key = (EVALUATION_RESULTS, ENV_RUNNER_RESULTS)
        if metrics:
            # The figures are those of the weights that are evaluated, not smoothed over earlier evaluations.
            self._algorithm.metrics.begin_windows(key)
        self._algorithm.metrics.aggregate(metrics, key=key)

    def _sample(self, weights: tuple[Any, int]) -> list[Any]:
        """Return the metrics of runners that have sampled the configured number of episodes or steps."""
        if self.group is None:
            return self._sample_on_local_runner(weights)
        if not self._has_runners():
            return []
        self.group.sync_weights(*weights)
        training_state = self._algorithm.env_runner_group.get_connector_states()
        self.group.set_connector_states(training_state)
        config = self.config
        reset = bool(config.evaluation_force_reset_envs_before_iteration)
        if config.evaluation_duration == "auto":
            found = []
            while True:
                steps = config.evaluation_auto_duration_min_env_steps_per_sample
                found += self._round({"num_timesteps": steps}, reset)
                reset = False
                if not self._training:
                    return found
        unit = "num_episodes" if config.evaluation_duration_unit == "episodes" else "num_timesteps"
        return self._round({unit: config.evaluation_duration}, reset)

    def _has_runners(self) -> bool:
        """True if a runner of evaluation can sample; waits for those that are being made anew as long as is configured.

        Raises:
            RuntimeError: so many evaluations in a row as are configured found no runner.
        """
        config = self._algorithm.config
        if not self.group.num_env_runners:
            return True
        end = time.monotonic() + float(config.evaluation_unhealthy_workers_timeout_s or 0.0)
        while not self.group.healthy_env_runner_ids():
            left = end - time.monotonic()
            if left <= 0:
                break
            self.group.probe_unhealthy_env_runners()
            time.sleep(min(left, 0.1))
        if self.group.healthy_env_runner_ids():
            self._skips = 0
            return True
        self._skips += 1
        most = config.evaluation_error_after_n_consecutive_skips
        if most is not None and self._skips >= most:
            raise RuntimeError(
                f"no runner of evaluation was there in {self._skips} evaluations in a row, and "
                f"evaluation_error_after_n_consecutive_skips={most}; see the log for their errors, or wait longer with "
                "evaluation_unhealthy_workers_timeout_s"
            )
        logger.warning("No runner of evaluation is there; the evaluation is left out")
        return False

    def _sample_on_local_runner(self, weights: tuple[Any, int]) -> list[Any]:
        group, config = self._algorithm.env_runner_group, self._algorithm.config
        group.sync_weights(*weights)
        by_episodes = config.evaluation_duration_unit == "episodes"
        group.local_env_runner.sample(
            num_episodes=config.evaluation_duration if by_episodes else None,
            num_timesteps=None if by_episodes else config.evaluation_duration,
        )
        return [group.local_env_runner.get_metrics()]

    def _round(self, amount: dict[str, int], reset: bool) -> list[Any]:
        (unit, total), runners = next(iter(amount.items())), max(self.config.num_env_runners, 1)
        explore = self.config.explore

        def sample(runner: Any) -> Any:
            place = max(runner.worker_index - 1, 0)
            share = math.ceil((total - place) / runners)
            if share > 0:
                runner.sample(**{unit: share}, explore=explore, force_reset=reset)
            return runner.get_metrics()

        found: list[Any] = self.group.sample_on_each(sample)
        return found
