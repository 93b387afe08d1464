"""Names of settings in older releases, and their names today."""

from __future__ import annotations

_RUNNERS = {
    "num_rollout_workers": "num_env_runners",
    "num_envs_per_worker": "num_envs_per_env_runner",
    "validate_workers_after_construction": "validate_env_runners_after_construction",
}
_FAILURES = {
    "ignore_worker_failures": "ignore_env_runner_failures",
    "recreate_failed_workers": "restart_failed_env_runners",
    "recreate_failed_env_runners": "restart_failed_env_runners",
    "max_num_worker_restarts": "max_num_env_runner_restarts",
    "delay_between_worker_restarts_s": "delay_between_env_runner_restarts_s",
    "num_consecutive_worker_failures_tolerance": "num_consecutive_env_runner_failures_tolerance",
    "worker_health_probe_timeout_s": "env_runner_health_probe_timeout_s",
    "worker_restore_timeout_s": "env_runner_restore_timeout_s",
}
_RESOURCES = {
    "num_cpus_per_worker": "num_cpus_per_env_runner",
    "num_gpus_per_worker": "num_gpus_per_env_runner",
    "custom_resources_per_worker": "custom_resources_per_env_runner",
}
_LEARNERS = {
    "num_learner_workers": "num_learners",
    "num_cpus_per_learner_worker": "num_cpus_per_learner",
    "num_gpus_per_learner_worker": "num_gpus_per_learner",
}
#: Fields that have another name today.
NEW_NAMES = {
    **_RUNNERS,
    **_FAILURES,
    **_RESOURCES,
    **_LEARNERS,
    "num_workers": "num_env_runners",
    "evaluation_num_workers": "evaluation_num_env_runners",
    "num_cpus_for_local_worker": "num_cpus_for_main_process",
    "num_cpus_for_driver": "num_cpus_for_main_process",
    "num_sgd_iter": "num_epochs",
    "sgd_minibatch_size": "minibatch_size",
}
#: Arguments of each method that are refused, and the call to write instead.
RENAMED: dict[str, dict[str, str]] = {
    "env_runners": {
        **{old: f"AlgorithmConfig.env_runners({new})" for old, new in _RUNNERS.items()},
        **{old: f"AlgorithmConfig.fault_tolerance({new})" for old, new in _FAILURES.items()},
    },
    "fault_tolerance": {old: f"AlgorithmConfig.fault_tolerance({new})" for old, new in _FAILURES.items()},
    "resources": {
        **{old: f"AlgorithmConfig.env_runners({new})" for old, new in _RESOURCES.items()},
        **{old: f"AlgorithmConfig.learners({new})" for old, new in _LEARNERS.items()},
        "local_gpu_idx": "AlgorithmConfig.learners(local_gpu_idx)",
        "num_cpus_for_local_worker": "AlgorithmConfig.resources(num_cpus_for_main_process)",
    },
    "evaluation": {"evaluation_num_workers": "AlgorithmConfig.evaluation(evaluation_num_env_runners)"},
    "training": {
        "sgd_minibatch_size": "AlgorithmConfig.training(minibatch_size)",
        "vf_share_layers": "AlgorithmConfig.rl_module(model_config={'vf_share_layers': ...})",
        "lr_schedule": "AlgorithmConfig.training(lr=[[timestep, value], ...])",
        "entropy_coeff_schedule": "AlgorithmConfig.training(entropy_coeff=[[timestep, value], ...])",
        "num_aggregator_actors_per_learner": "AlgorithmConfig.learners(num_aggregator_actors_per_learner)",
        "max_requests_in_flight_per_aggregator_actor": (
            "AlgorithmConfig.learners(max_requests_in_flight_per_aggregator_actor)"
        ),
        "max_requests_in_flight_per_sampler_worker": (
            "AlgorithmConfig.env_runners(max_requests_in_flight_per_env_runner)"
        ),
    },
    "rl_module": {"model_config_dict": "AlgorithmConfig.rl_module(model_config)"},
    "multi_agent": {
        "replay_mode": "AlgorithmConfig.training(replay_buffer_config={'replay_mode': ...})",
        "policy_map_cache": "AlgorithmConfig.multi_agent(policy_map_capacity)",
    },
}
#: Arguments of the old API stack that have no counterpart, and the way today.
REMOVED = {
    "env_task_fn": "a callback on_train_result changes the task of environments",
    "enable_connectors": "connectors are always used",
    "synchronize_filter": "use env_runners(merge_env_runner_states=...)",
    "always_attach_evaluation_results": "every result has the figures of the last evaluation",
    "_enable_rl_module_api": "modules are always used",
    "custom_async_evaluation_function": "use evaluation(custom_evaluation_function=...)",
}
