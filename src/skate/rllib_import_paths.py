"""The import paths of Ray's RLlib."""

from __future__ import annotations

from collections.abc import Mapping

_COMMON_CONNECTORS = (
    "AddObservationsFromEpisodesToBatch", "AddStatesFromEpisodesToBatch", "AddTimeDimToBatchAndZeroPad",
    "AgentToModuleMapping", "BatchIndividualItems", "NumpyToTensor",
)  # fmt: skip

_EXPERIMENTS = {
    "skate.rllib.scripts.experiments": ("run_rllib_example_script_experiment", "should_stop"),
    "skate.rllib.scripts.options": ("add_rllib_example_script_args",),
}

RLLIB: Mapping[str, str | Mapping[str, tuple[str, ...]]] = {
    "rllib.algorithms.appo": "skate.rllib.algorithms.not_available",
    "rllib.algorithms.appo.appo": "skate.rllib.algorithms.not_available",
    "rllib.algorithms.bc": "skate.rllib.algorithms.not_available",
    "rllib.algorithms.bc.bc": "skate.rllib.algorithms.not_available",
    "rllib.algorithms.bc.bc_catalog": "skate.rllib.algorithms.not_available",
    "rllib.algorithms.bc.torch": {},
    "rllib.algorithms.bc.torch.default_bc_torch_rl_module": "skate.rllib.algorithms.not_available",
    "rllib.algorithms.cql": "skate.rllib.algorithms.not_available",
    "rllib.algorithms.cql.cql": "skate.rllib.algorithms.not_available",
    "rllib.algorithms.dqn.dqn_torch_model": "skate.rllib.algorithms.not_available",
    "rllib.algorithms.dreamerv3": "skate.rllib.algorithms.not_available",
    "rllib.algorithms.dreamerv3.dreamerv3": "skate.rllib.algorithms.not_available",
    "rllib.algorithms.impala": "skate.rllib.algorithms.not_available",
    "rllib.algorithms.impala.impala": "skate.rllib.algorithms.not_available",
    "rllib.algorithms.iql": "skate.rllib.algorithms.not_available",
    "rllib.algorithms.iql.iql": "skate.rllib.algorithms.not_available",
    "rllib.algorithms.marwil": "skate.rllib.algorithms.not_available",
    "rllib.algorithms.marwil.marwil": "skate.rllib.algorithms.not_available",
    "rllib.algorithms.tqc": "skate.rllib.algorithms.not_available",
    "rllib.algorithms.tqc.tqc": "skate.rllib.algorithms.not_available",
    "rllib.algorithms.callbacks": "skate.rllib.callbacks.callbacks",
    "rllib.connectors.common": {"skate.rllib.connectors.learner": _COMMON_CONNECTORS},
    "rllib.connectors.common.add_observations_from_episodes_to_batch": {
        "skate.rllib.connectors.learner": ("AddObservationsFromEpisodesToBatch",),
    },
    "rllib.connectors.common.add_states_from_episodes_to_batch": {
        "skate.rllib.connectors.learner": ("AddStatesFromEpisodesToBatch",),
    },
    "rllib.connectors.common.add_time_dim_to_batch_and_zero_pad": {
        "skate.rllib.connectors.learner": ("AddTimeDimToBatchAndZeroPad",),
    },
    "rllib.connectors.common.agent_to_module_mapping": {
        "skate.rllib.connectors.learner": ("AgentToModuleMapping",),
    },
    "rllib.connectors.common.batch_individual_items": {
        "skate.rllib.connectors.learner": ("BatchIndividualItems",),
    },
    "rllib.connectors.common.frame_stacking": {
        "skate.rllib.connectors.env_to_module.frame_stacking": ("FrameStacking",),
    },
    "rllib.connectors.common.module_to_agent_unmapping": {
        "skate.rllib.connectors.module_to_env": ("ModuleToAgentUnmapping",),
    },
    "rllib.connectors.common.numpy_to_tensor": {"skate.rllib.connectors.learner": ("NumpyToTensor",)},
    "rllib.connectors.common.tensor_to_numpy": {"skate.rllib.connectors.module_to_env": ("TensorToNumpy",)},
    "rllib.connectors.env_to_module.env_to_module_pipeline": {
        "skate.rllib.connectors.env_to_module": ("EnvToModulePipeline",),
    },
    "rllib.connectors.module_to_env.get_actions": {"skate.rllib.connectors.module_to_env": ("GetActions",)},
    "rllib.connectors.module_to_env.listify_data_for_vector_env": {
        "skate.rllib.connectors.module_to_env": ("ListifyDataForVectorEnv",),
    },
    "rllib.connectors.module_to_env.module_to_env_pipeline": {
        "skate.rllib.connectors.module_to_env": ("ModuleToEnvPipeline",),
    },
    "rllib.connectors.module_to_env.normalize_and_clip_actions": {
        "skate.rllib.connectors.module_to_env": ("NormalizeAndClipActions",),
    },
    "rllib.connectors.module_to_env.unbatch_to_individual_items": {
        "skate.rllib.connectors.module_to_env": ("UnBatchToIndividualItems",),
    },
    "rllib.core.learner.differentiable_learner_config": "skate.rllib.algorithms.not_available",
    "rllib.core.learner.torch.torch_differentiable_learner": "skate.rllib.algorithms.not_available",
    "rllib.core.learner.torch.torch_meta_learner": "skate.rllib.algorithms.not_available",
    "rllib.core.learner.training_data": "skate.rllib.algorithms.not_available",
    "rllib.core.learner.utils": "skate.rllib.core.learner.targets",
    "rllib.env.base_env": "skate.rllib.algorithms.not_available",
    "rllib.env.env_errors": {"skate.rllib.env.env_runner": ("StepFailedRecreateEnvError",)},
    "rllib.env.external": {},
    "rllib.env.external.env_runner_server_for_external_inference": "skate.rllib.algorithms.not_available",
    "rllib.env.external.rllink": "skate.rllib.algorithms.not_available",
    "rllib.env.policy_client": "skate.rllib.algorithms.not_available",
    "rllib.env.policy_server_input": "skate.rllib.algorithms.not_available",
    "rllib.env.utils": {"skate.rllib.env.wrappers.open_spiel": ("try_import_open_spiel", "try_import_pyspiel")},
    "rllib.env.vector.vector_multi_agent_env": {"skate.rllib.env.multi_agent_vector": ("VectorMultiAgentEnv",)},
    "rllib.env.utils.infinite_lookback_buffer": {"skate.rllib.env.episode_buffer": ("InfiniteLookbackBuffer",)},
    "rllib.evaluation": "skate.rllib.algorithms.not_available",
    "rllib.evaluation.postprocessing": {
        "skate.rllib.utils.postprocessing.value_predictions": ("Postprocessing",),
    },
    "rllib.evaluation.rollout_worker": "skate.rllib.algorithms.not_available",
    "rllib.evaluation.worker_set": "skate.rllib.algorithms.not_available",
    "rllib.examples": {},
    "rllib.examples.utils": _EXPERIMENTS,
    "rllib.execution": {},
    "rllib.execution.rollout_ops": {"skate.rllib.flow.parallel_sample": ("synchronous_parallel_sample",)},
    "rllib.models.modelv2": "skate.rllib.algorithms.not_available",
    "rllib.models.torch": {},
    "rllib.models.catalog": "skate.rllib.algorithms.not_available",
    "rllib.models.distributions": "skate.rllib.core.distribution.distribution",
    "rllib.models.torch.torch_distributions": "skate.rllib.core.distribution.torch.torch_distribution",
    "rllib.models.torch.fcnet": "skate.rllib.algorithms.not_available",
    "rllib.models.torch.recurrent_net": "skate.rllib.algorithms.not_available",
    "rllib.models.torch.misc": {
        "skate.rllib.core.models.torch.padding": ("same_padding", "valid_padding"),
        "skate.rllib.core.models.torch.primitives": ("normc_initializer",),
    },
    "rllib.models.torch.torch_action_dist": "skate.rllib.algorithms.not_available",
    "rllib.models.torch.torch_modelv2": "skate.rllib.algorithms.not_available",
    "rllib.models.utils": {
        "skate.rllib.core.models.catalog": ("get_filter_config",),
        "skate.rllib.core.models.torch.primitives": ("get_activation_fn", "get_initializer_fn"),
    },
    "rllib.offline": {},
    "rllib.offline.offline_data": "skate.rllib.algorithms.not_available",
    "rllib.offline.offline_prelearner": "skate.rllib.algorithms.not_available",
    "rllib.policy.policy_template": "skate.rllib.algorithms.not_available",
    "rllib.policy.torch_policy": "skate.rllib.algorithms.not_available",
    "rllib.policy.torch_policy_v2": "skate.rllib.algorithms.not_available",
    "rllib.policy.view_requirement": "skate.rllib.algorithms.not_available",
    "rllib.utils.actor_manager": "skate.rllib.flow.actor_manager",
    "rllib.utils.minibatch_utils": "skate.rllib.core.learner.shards",
    "rllib.utils.postprocessing.zero_padding": "skate.rllib.utils.postprocessing.padded_sequences",
    "rllib.utils.replay_buffers.multi_agent_mixin_replay_buffer": "skate.rllib.algorithms.not_available",
    "rllib.utils.replay_buffers.multi_agent_prioritized_replay_buffer": "skate.rllib.algorithms.not_available",
    "rllib.utils.replay_buffers.multi_agent_replay_buffer": "skate.rllib.algorithms.not_available",
    "rllib.utils.replay_buffers.utils": {
        "skate.rllib.utils.replay_buffers.prioritized_episode_buffer": (
            "update_priorities_in_episode_replay_buffer",
        ),
        "skate.rllib.utils.replay_buffers.replay_buffer": ("sample_min_n_steps_from_buffer",),
    },
    "rllib.utils.spaces": {},
    "rllib.utils.spaces.flexdict": {"skate.rllib.env.spaces": ("FlexDict",)},
    "rllib.utils.spaces.repeated": {"skate.rllib.env.spaces": ("Repeated",)},
    "rllib.utils.spaces.simplex": {"skate.rllib.env.spaces": ("Simplex",)},
    "rllib.utils.spaces.space_utils": {
        "skate.rllib.env.nested": ("BatchedNdArray", "batch", "unbatch"),
        "skate.rllib.env.spaces": (
            "clip_action", "convert_element_to_space_type", "flatten_space", "flatten_to_single_ndarray",
            "get_base_struct_from_space", "get_dummy_batch_for_space", "get_original_space", "is_composite_space",
            "normalize_action", "unsquash_action",
        ),
    },
    "rllib.utils.test_utils": {
        **_EXPERIMENTS,
        "skate.rllib.scripts.checks": (
            "check", "check_learning_achieved", "check_train_results_new_api_stack",
        ),
        "skate.rllib.scripts.model_checker": ("ModelChecker",),
    },
    "rllib.utils.torch_utils": "skate.rllib.core.models.torch.tensor_functions",
}  # fmt: skip
