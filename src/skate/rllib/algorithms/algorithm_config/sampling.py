"""Fields of a configuration: environments, and the runners that sample them."""

from __future__ import annotations

from skate.rllib.algorithms.algorithm_config.field import Field, Fields

ENVIRONMENT: Fields = {
    "env": Field(
        None, "an id of gymnasium, `module:Id`, a registered name, a class, or a function of an EnvContext"
    ),
    "env_config": Field({}, "passed to the environment as its EnvContext"),
    "observation_space": Field(None, "the space of observations, if the environment does not have it"),
    "action_space": Field(None, "the space of actions, if the environment does not have it"),
    "render_env": Field(False, "draw the environment while it is sampled"),
    "clip_rewards": Field(
        None, "True for the sign of rewards, a number for a bound of their size, None for neither"
    ),
    "normalize_actions": Field(
        True, "the model acts in [-1, 1], and actions are scaled to the space's bounds"
    ),
    "clip_actions": Field(False, "clip actions to the space's bounds"),
    "disable_env_checking": Field(False, "do not check the environment when it is created"),
    "is_atari": Field(
        None, "True for an Atari environment; None to find out from its specification", "_is_atari"
    ),
    "action_mask_key": Field("action_mask", "the key of the mask of legal actions in a Dict observation"),
}

ENV_RUNNERS: Fields = {
    "env_runner_cls": Field(None, "the class of runners; None for the one of single or of multiple agents"),
    "num_env_runners": Field(0, "the number of remote runners; 0 to sample in the algorithm's own process"),
    "create_local_env_runner": Field(True, "create a runner in the algorithm's process too"),
    "create_env_on_local_worker": Field(
        False, "give the local runner environments even if there are remote ones"
    ),
    "num_envs_per_env_runner": Field(1, "the number of environments that a runner steps together"),
    "gym_env_vectorize_mode": Field("sync", "how a runner steps them: sync, async or vector_entry_point"),
    "num_cpus_per_env_runner": Field(1, "CPUs of each remote runner"),
    "num_gpus_per_env_runner": Field(0, "GPUs of each remote runner, may be a fraction"),
    "custom_resources_per_env_runner": Field({}, "other resources of each remote runner"),
    "validate_env_runners_after_construction": Field(True, "check that remote runners started"),
    "sample_timeout_s": Field(60.0, "seconds after which a remote runner that has not answered is replaced"),
    "max_requests_in_flight_per_env_runner": Field(1, "calls that a remote runner may have outstanding"),
    "env_to_module_connector": Field(
        None,
        "a function of (env, spaces, device) that returns one or more connectors",
        "_env_to_module_connector",
    ),
    "module_to_env_connector": Field(
        None,
        "a function of (env, spaces, device) that returns one or more connectors",
        "_module_to_env_connector",
    ),
    "add_default_connectors_to_env_to_module_pipeline": Field(
        True, "add the default connectors after own ones"
    ),
    "add_default_connectors_to_module_to_env_pipeline": Field(
        True, "add the default connectors before own ones"
    ),
    "episode_lookback_horizon": Field(1, "steps before its start that a cut episode keeps"),
    "merge_env_runner_states": Field(
        "training_only", "merge the connectors' states: True, False or training_only"
    ),
    "broadcast_env_runner_states": Field(True, "send merged states to all runners"),
    "use_env_runner_state_server": Field(
        False, "accepted for compatibility; states are read from shared memory"
    ),
    "env_runner_state_server_max_concurrency": Field(16, "accepted for compatibility"),
    "compress_observations": Field(
        False, "accepted for compatibility; samples are not copied between processes"
    ),
    "rollout_fragment_length": Field(200, "steps of each environment per fragment, or auto"),
    "batch_mode": Field(
        "truncate_episodes", "truncate_episodes, or complete_episodes to sample whole episodes"
    ),
    "explore": Field(True, "sample actions from the distribution, instead of taking the best"),
    "episodes_to_numpy": Field(True, "convert the lists of finished episodes to arrays"),
    "use_worker_filter_stats": Field(True, "accepted for compatibility"),
    "update_worker_filter_stats": Field(True, "accepted for compatibility"),
    "exploration_config": Field({}, "must be empty: a module decides how to explore in forward_exploration"),
    "sample_collector": Field(None, "must be None: fragments are collected as columns"),
    "remote_worker_envs": Field(
        False, "must be False: gym_env_vectorize_mode='async' steps environments in processes"
    ),
    "remote_env_batch_wait_ms": Field(0, "accepted for compatibility, in milliseconds"),
    "preprocessor_pref": Field("deepmind", "accepted for compatibility; see wrap_atari_for_new_api_stack"),
    "observation_filter": Field(
        "NoFilter", "must be NoFilter: the connector MeanStdFilter normalizes observations"
    ),
    "enable_tf1_exec_eagerly": Field(False, "accepted for compatibility"),
    "sampler_perf_stats_ema_coef": Field(None, "accepted for compatibility"),
}

FAULT_TOLERANCE: Fields = {
    "restart_failed_env_runners": Field(True, "start a runner again if it has died"),
    "ignore_env_runner_failures": Field(False, "continue without runners that have died"),
    "max_num_env_runner_restarts": Field(1000, "restarts of runners until train() raises"),
    "delay_between_env_runner_restarts_s": Field(60.0, "seconds between two restarts of the same runner"),
    "restart_failed_sub_environments": Field(False, "create an environment again if it has raised an error"),
    "num_consecutive_env_runner_failures_tolerance": Field(100, "failures in a row until train() raises"),
    "env_runner_health_probe_timeout_s": Field(
        30.0, "seconds that a runner may take to show that it is alive"
    ),
    "env_runner_restore_timeout_s": Field(
        1800.0, "seconds that the restored state may take to reach a runner"
    ),
}

MULTI_AGENT: Fields = {
    "policies": Field({}, "the ids of modules: a set, a list, or a dict with a PolicySpec for each"),
    "policy_map_capacity": Field(100, "accepted for compatibility; all modules stay in memory"),
    "policy_mapping_fn": Field(
        None, "a function of (agent_id, episode, **kwargs) that returns the id of a module"
    ),
    "policies_to_train": Field(None, "the ids of modules to train, or a function of the id; None for all"),
    "policy_states_are_swappable": Field(False, "accepted for compatibility"),
    "observation_fn": Field(None, "must be None: a connector changes observations"),
    "count_steps_by": Field("env_steps", "env_steps, or agent_steps to count the steps of every agent"),
}
