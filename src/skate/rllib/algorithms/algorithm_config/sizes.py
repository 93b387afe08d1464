"""Sizes of batches and fragments that follow from a configuration's fields."""

from __future__ import annotations

import math

from skate.rllib.algorithms.algorithm_config.settings import Settings


class BatchSizes(Settings):
    """The part of a configuration that computes sizes."""

    @property
    def train_batch_size_per_learner(self) -> int:
        """Steps per update of each learner."""
        if self._train_batch_size_per_learner:
            return int(self._train_batch_size_per_learner)
        return int(self.train_batch_size / (self.num_learners or 1))

    @train_batch_size_per_learner.setter
    def train_batch_size_per_learner(self, value: int) -> None:
        self._train_batch_size_per_learner = value

    @property
    def total_train_batch_size(self) -> int:
        """Steps per update of all learners together."""
        return self.train_batch_size_per_learner * (self.num_learners or 1)

    def get_rollout_fragment_length(self, worker_index: int = 0) -> int:
        """Return the steps of each environment per fragment of a runner.

        With `rollout_fragment_length="auto"`, one fragment of every runner makes a batch; if it does not divide evenly,
        the first runners take one step more.

        Args:
            worker_index: the number of the runner, from 1; 0 for the local one.
        """
        if self.rollout_fragment_length != "auto":
            return int(self.rollout_fragment_length)
        runners, lanes, total = (
            self.num_env_runners or 1,
            self.num_envs_per_env_runner,
            self.total_train_batch_size,
        )
        length = total // (lanes * runners)
        rest = total - length * lanes * runners
        return length + 1 if rest and math.ceil(rest / lanes) >= worker_index else max(length, 1)

    def validate_train_batch_size_vs_rollout_fragment_length(self) -> None:
        """Check that fragments make up a batch, within a tenth.

        Raises:
            ValueError: they do not.
        """
        if self.rollout_fragment_length == "auto" or self.batch_mode == "complete_episodes":
            return
        step = (self.num_env_runners or 1) * self.num_envs_per_env_runner * self.rollout_fragment_length
        total = self.total_train_batch_size
        sampled = math.ceil(total / step) * step
        if step > total or sampled > 1.1 * total:
            raise ValueError(
                f"train_batch_size={total} is not made up by fragments: {self.num_env_runners or 1} runners x "
                f"{self.num_envs_per_env_runner} environments x rollout_fragment_length="
                f"{self.rollout_fragment_length} steps are {step}; set rollout_fragment_length='auto'"
            )
