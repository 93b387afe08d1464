"""RLlibCallback: a method for each moment in the life of an algorithm, its environments and its episodes."""

from __future__ import annotations

from typing import Any


class RLlibCallback:
    """Base class of callbacks; override the moments of interest and take ``**kwargs`` in each.

    An instance is made in each process: one with the algorithm, one with each env runner.
    """

    def on_algorithm_init(self, *, algorithm: Any, metrics_logger: Any = None, **kwargs: Any) -> None:
        """Run when the algorithm is made.

        Args:
            algorithm: The algorithm.
            metrics_logger: Its logger.
            kwargs: For later additions.
        """

    def on_train_result(
        self, *, algorithm: Any, metrics_logger: Any = None, result: dict[str, Any], **kwargs: Any
    ) -> None:
        """Run after each ``Algorithm.train()``; changes of ``result`` are returned to the caller.

        Args:
            algorithm: The algorithm.
            metrics_logger: Its logger.
            result: The results of the iteration.
            kwargs: For later additions.
        """

    def on_evaluate_start(self, *, algorithm: Any, metrics_logger: Any = None, **kwargs: Any) -> None:
        """Run before an evaluation."""

    def on_evaluate_end(
        self, *, algorithm: Any, metrics_logger: Any = None, evaluation_metrics: dict[str, Any], **kwargs: Any
    ) -> None:
        """Run after an evaluation.

        Args:
            algorithm: The algorithm.
            metrics_logger: Its logger.
            evaluation_metrics: The results of the evaluation; may be changed.
            kwargs: For later additions.
        """

    def on_evaluate_offline_start(self, *, algorithm: Any, metrics_logger: Any = None, **kwargs: Any) -> None:
        """Run before an evaluation on recorded data."""

    def on_evaluate_offline_end(
        self, *, algorithm: Any, metrics_logger: Any = None, evaluation_metrics: dict[str, Any], **kwargs: Any
    ) -> None:
        """Run after an evaluation on recorded data."""

    def on_env_runners_recreated(
        self,
        *,
        algorithm: Any,
        env_runner_group: Any,
        env_runner_indices: list[int],
        is_evaluation: bool,
        **kwargs: Any,
    ) -> None:
        """Run after env runners died and were made anew.

        Args:
            algorithm: The algorithm.
            env_runner_group: The group that the runners belong to.
            env_runner_indices: Indices of the new runners, from 1.
            is_evaluation: True for runners of evaluations.
            kwargs: For later additions.
        """

    def on_offline_eval_runners_recreated(
        self,
        *,
        algorithm: Any,
        offline_eval_runner_group: Any,
        offline_eval_runner_indices: list[int],
        **kwargs: Any,
    ) -> None:
        """Run after runners of evaluations on recorded data were made anew."""

    def on_checkpoint_loaded(self, *, algorithm: Any, **kwargs: Any) -> None:
        """Run after the algorithm took its state from a checkpoint."""

    def on_environment_created(
        self, *, env_runner: Any, metrics_logger: Any = None, env: Any, env_context: Any, **kwargs: Any
    ) -> None:
        """Run after an env runner made its environments.

        Args:
            env_runner: The env runner.
            metrics_logger: Its logger.
            env: The vector of environments; ``env.envs[i].unwrapped`` is one of them.
            env_context: The settings they were made with.
            kwargs: For later additions.
        """

    def on_episode_created(
        self,
        *,
        episode: Any,
        env_runner: Any = None,
        metrics_logger: Any = None,
        env: Any = None,
        env_index: int,
        rl_module: Any = None,
        **kwargs: Any,
    ) -> None:
        """Run when an episode is made, before its environment is reset.

        Args:
            episode: The empty episode.
            env_runner: The env runner.
            metrics_logger: Its logger.
            env: The vector of environments.
            env_index: Index of the episode's environment in it.
            rl_module: The module that acts.
            kwargs: For later additions.
        """  # fmt: skip

    def on_episode_start(
        self,
        *,
        episode: Any,
        env_runner: Any = None,
        metrics_logger: Any = None,
        env: Any = None,
        env_index: int,
        rl_module: Any = None,
        **kwargs: Any,
    ) -> None:
        """Run after the episode's environment was reset; arguments as in `on_episode_created`."""  # fmt: skip

    def on_episode_step(
        self,
        *,
        episode: Any,
        env_runner: Any = None,
        metrics_logger: Any = None,
        env: Any = None,
        env_index: int,
        rl_module: Any = None,
        **kwargs: Any,
    ) -> None:
        """Run after each step of the episode, the last one too; arguments as in `on_episode_created`."""  # fmt: skip

    def on_episode_end(
        self,
        *,
        episode: Any,
        prev_episode_chunks: list[Any] | None = None,
        env_runner: Any = None,
        metrics_logger: Any = None,
        env: Any = None,
        env_index: int,
        rl_module: Any = None,
        **kwargs: Any,
    ) -> None:
        """Run when the episode has ended.

        Args:
            episode: The ended episode, or its last chunk.
            prev_episode_chunks: Its earlier chunks, which earlier samples returned.
            env_runner: The env runner.
            metrics_logger: Its logger.
            env: The vector of environments.
            env_index: Index of the episode's environment in it.
            rl_module: The module that acts.
            kwargs: For later additions.
        """  # fmt: skip

    def on_sample_end(
        self, *, env_runner: Any = None, metrics_logger: Any = None, samples: list[Any], **kwargs: Any
    ) -> None:
        """Run after each ``EnvRunner.sample()``.

        Args:
            env_runner: The env runner.
            metrics_logger: Its logger.
            samples: The episodes that will be returned; may be changed in place.
            kwargs: For later additions.
        """


#: An earlier name of Ray's.
DefaultCallbacks = RLlibCallback
