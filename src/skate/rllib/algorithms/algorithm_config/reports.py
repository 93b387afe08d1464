"""Fields of a configuration: evaluation, reports, callbacks, checkpoints, debugging."""

from __future__ import annotations

from skate.rllib.algorithms.algorithm_config.field import Field, Fields

EVALUATION: Fields = {
    "evaluation_interval": Field(None, "iterations between two evaluations; None for none"),
    "evaluation_duration": Field(
        10, "episodes or steps of an evaluation; auto to last as long as the training step"
    ),
    "evaluation_duration_unit": Field("episodes", "episodes or timesteps"),
    "evaluation_auto_duration_min_env_steps_per_sample": Field(100, "fewest steps of a sample with auto"),
    "evaluation_auto_duration_max_env_steps_per_sample": Field(2000, "most steps of a sample with auto"),
    "evaluation_sample_timeout_s": Field(120.0, "seconds until an evaluation without an answer is given up"),
    "evaluation_parallel_to_training": Field(
        False, "evaluate while training continues; needs remote runners"
    ),
    "evaluation_unhealthy_workers_timeout_s": Field(0.0, "seconds to wait for runners that are restarted"),
    "evaluation_error_after_n_consecutive_skips": Field(
        None, "evaluations without a result until train() raises"
    ),
    "evaluation_force_reset_envs_before_iteration": Field(True, "begin every evaluation with new episodes"),
    "evaluation_config": Field(None, "settings that differ in evaluation, such as {'explore': False}"),
    "off_policy_estimation_methods": Field({}, "must be empty: off-policy estimation is not available"),
    "ope_split_batch_by_episode": Field(True, "accepted for compatibility"),
    "evaluation_num_env_runners": Field(
        0, "remote runners for evaluation; 0 to evaluate in the algorithm's process"
    ),
    "custom_evaluation_function": Field(
        None, "a function of (algorithm, runners) that returns (results, steps, agent steps)"
    ),
    "offline_evaluation_interval": Field(None, "must be None: offline evaluation is not available"),
    "offline_evaluation_duration": Field(1, "offline evaluation: rounds"),
    "offline_evaluation_parallel_to_training": Field(False, "offline evaluation: beside training"),
    "num_offline_eval_runners": Field(0, "offline evaluation: remote runners"),
    "offline_evaluation_type": Field("eval_loss", "offline evaluation: the figure"),
    "offline_eval_runner_class": Field(None, "offline evaluation: the class of runners"),
    "offline_loss_for_module_fn": Field(None, "offline evaluation: the loss"),
    "offline_eval_batch_size_per_runner": Field(256, "offline evaluation: rows of a batch"),
    "dataset_num_iters_per_offline_eval_runner": Field(
        1, "offline evaluation: batches of a runner", "dataset_num_iters_per_eval_runner"
    ),
    "offline_eval_rl_module_inference_only": Field(False, "offline evaluation: build modules for inference"),
    "num_cpus_per_offline_eval_runner": Field(1, "offline evaluation: CPUs of a runner"),
    "num_gpus_per_offline_eval_runner": Field(0, "offline evaluation: GPUs of a runner"),
    "custom_resources_per_offline_eval_runner": Field({}, "offline evaluation: other resources of a runner"),
    "offline_evaluation_timeout_s": Field(120.0, "offline evaluation: seconds until it is given up"),
    "max_requests_in_flight_per_offline_eval_runner": Field(
        1, "offline evaluation: calls of a runner outstanding"
    ),
    "broadcast_offline_eval_runner_states": Field(False, "offline evaluation: send states to runners"),
    "validate_offline_eval_runners_after_construction": Field(True, "offline evaluation: check runners"),
    "restart_failed_offline_eval_runners": Field(True, "offline evaluation: restart runners"),
    "ignore_offline_eval_runner_failures": Field(False, "offline evaluation: continue without runners"),
    "max_num_offline_eval_runner_restarts": Field(1000, "offline evaluation: restarts until it raises"),
    "offline_eval_runner_health_probe_timeout_s": Field(30.0, "offline evaluation: seconds of a probe"),
    "offline_eval_runner_restore_timeout_s": Field(1800.0, "offline evaluation: seconds of a restore"),
}

REPORTING: Fields = {
    "keep_per_episode_custom_metrics": Field(False, "accepted for compatibility"),
    "metrics_episode_collection_timeout_s": Field(60.0, "accepted for compatibility, in seconds"),
    "metrics_num_episodes_for_smoothing": Field(
        100, "episodes that means of returns and lengths are taken over"
    ),
    "min_time_s_per_iteration": Field(None, "fewest seconds of an iteration"),
    "min_train_timesteps_per_iteration": Field(0, "fewest trained steps of an iteration"),
    "min_sample_timesteps_per_iteration": Field(0, "fewest sampled steps of an iteration"),
    "log_gradients": Field(False, "report the norm of gradients per module"),
    "custom_stats_cls_lookup": Field(
        {}, "own classes of statistics, by the name of a reduction", "stats_cls_lookup"
    ),
}

EVENTS = (
    "on_algorithm_init", "on_env_runners_recreated", "on_offline_eval_runners_recreated", "on_checkpoint_loaded",
    "on_environment_created", "on_episode_created", "on_episode_start", "on_episode_step", "on_episode_end",
    "on_evaluate_start", "on_evaluate_end", "on_evaluate_offline_start", "on_evaluate_offline_end", "on_sample_end",
    "on_train_result",
)  # fmt: skip

CALLBACKS: Fields = {
    "callbacks_class": Field(None, "a subclass of RLlibCallback, or a list of them"),
    **{
        event: Field(None, "one or more functions called at this event", f"callbacks_{event}")
        for event in EVENTS
    },
}

CHECKPOINTING: Fields = {
    "export_native_model_files": Field(False, "accepted for compatibility"),
    "checkpoint_trainable_policies_only": Field(False, "leave out modules that are not trained"),
}

DEBUGGING: Fields = {
    "log_level": Field("WARN", "DEBUG, INFO, WARN or ERROR"),
    "log_sys_usage": Field(True, "report the use of CPUs and memory"),
    "fake_sampler": Field(False, "accepted for compatibility"),
    "seed": Field(None, "the seed of every random stream; the same seed gives the same weights"),
}

PYTHON_ENVIRONMENT: Fields = {
    "extra_python_environs_for_driver": Field({}, "environment variables of the algorithm's process"),
    "extra_python_environs_for_worker": Field({}, "environment variables of remote runners"),
}
