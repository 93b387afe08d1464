"""Fields of a configuration: learning, learners, modules and the framework."""

from __future__ import annotations

from skate.rllib.algorithms.algorithm_config.field import Field, Fields

LEARNER_PARTS: Fields = {
    "learner_class": Field(None, "a subclass of the algorithm's learner", "_learner_class"),
    "learner_connector": Field(
        None, "a function of the spaces that returns one or more connectors", "_learner_connector"
    ),
    "add_default_connectors_to_learner_pipeline": Field(True, "add the default connectors after own ones"),
    "learner_config_dict": Field({}, "settings of an own learner class"),
}

TRAINING: Fields = {
    "gamma": Field(0.99, "the factor by which a reward counts less each step later"),
    "lr": Field(0.001, "the learning rate: a number, or a schedule [[timestep, value], ...]"),
    "grad_clip": Field(None, "the bound of gradients; None for none"),
    "grad_clip_by": Field("global_norm", "the quantity that is bounded: value, norm or global_norm"),
    "train_batch_size": Field(32, "steps per update of all learners together"),
    "train_batch_size_per_learner": Field(
        None,
        "steps per update of each learner; None to use train_batch_size",
        "_train_batch_size_per_learner",
    ),
    "num_epochs": Field(1, "passes over a batch"),
    "minibatch_size": Field(None, "rows of a gradient step; None for the whole batch"),
    "shuffle_batch_per_epoch": Field(False, "shuffle the rows before each pass"),
    "model": Field({}, "settings of the default networks; the same as rl_module(model_config=...)"),
    "optimizer": Field({}, "settings of the optimizer"),
    **LEARNER_PARTS,
}

LEARNERS: Fields = {
    "num_learners": Field(0, "the number of remote learners; 0 to learn in the algorithm's own process"),
    "num_cpus_per_learner": Field("auto", "CPUs of each remote learner; auto for one, or none beside a GPU"),
    "num_gpus_per_learner": Field(0, "GPUs of each learner"),
    "custom_resources_per_learner": Field({}, "other resources of each remote learner"),
    "num_aggregator_actors_per_learner": Field(0, "processes that prepare batches for each learner"),
    "max_requests_in_flight_per_aggregator_actor": Field(
        3, "batches that may wait for each of those processes"
    ),
    "local_gpu_idx": Field(0, "the index of the GPU of a local learner"),
    "max_requests_in_flight_per_learner": Field(3, "batches that may wait for each learner"),
    **LEARNER_PARTS,
}

RL_MODULE: Fields = {
    "model_config": Field({}, "a DefaultModelConfig or a dict of its fields", "_model_config"),
    "rl_module_spec": Field(None, "an RLModuleSpec or MultiRLModuleSpec of own modules", "_rl_module_spec"),
    "algorithm_config_overrides_per_module": Field({}, "settings that differ, by the id of a module"),
}

FRAMEWORK: Fields = {
    "framework": Field("torch", "torch is the only one", "framework_str"),
    "eager_tracing": Field(True, "accepted for compatibility"),
    "eager_max_retraces": Field(20, "accepted for compatibility"),
    "tf_session_args": Field(
        {
            "intra_op_parallelism_threads": 2,
            "inter_op_parallelism_threads": 2,
            "gpu_options": {"allow_growth": True},
            "log_device_placement": False,
            "device_count": {"CPU": 1},
            "allow_soft_placement": True,
        },
        "accepted for compatibility",
    ),
    "local_tf_session_args": Field(
        {"intra_op_parallelism_threads": 8, "inter_op_parallelism_threads": 8}, "accepted for compatibility"
    ),
    "torch_compile_learner": Field(False, "compile the learner's module with torch.compile"),
    "torch_compile_learner_what_to_compile": Field("forward_train", "forward_train or complete_update"),
    "torch_compile_learner_dynamo_mode": Field(None, "the mode of torch.compile"),
    "torch_compile_learner_dynamo_backend": Field("inductor", "the backend of torch.compile"),
    "torch_compile_worker": Field(False, "compile the runners' modules with torch.compile"),
    "torch_compile_worker_dynamo_mode": Field(None, "the mode of torch.compile"),
    "torch_compile_worker_dynamo_backend": Field("onnxrt", "the backend of torch.compile"),
    "torch_ddp_kwargs": Field({}, "arguments of DistributedDataParallel"),
    "torch_skip_nan_gradients": Field(False, "skip a gradient step with values that are not finite"),
}

RESOURCES: Fields = {
    "num_cpus_for_main_process": Field(1, "CPUs of the algorithm's own process, in a trial"),
    "custom_resources_for_main_process": Field(
        {}, "other resources of the algorithm's own process, in a trial"
    ),
    "num_gpus": Field(0, "must be 0: learners(num_gpus_per_learner=...) gives learners GPUs"),
    "_fake_gpus": Field(False, "accepted for compatibility"),
    "placement_strategy": Field("PACK", "the strategy of the placement group of a trial"),
}

API_STACK: Fields = {
    "enable_rl_module_and_learner": Field(True, "there is one stack, with modules and learners"),
    "enable_env_runner_and_connector_v2": Field(True, "there is one stack, with runners and connectors"),
}

EXPERIMENTAL: Fields = {
    "_validate_config": Field(True, "check the configuration before an algorithm is built"),
    "_use_msgpack_checkpoints": Field(False, "must be False: checkpoints are pickled"),
    "_torch_grad_scaler_class": Field(None, "the class that scales losses and gradients in mixed precision"),
    "_torch_lr_scheduler_classes": Field(
        None, "classes of torch.optim.lr_scheduler, one list or one per module"
    ),
    "_tf_policy_handles_more_than_one_loss": Field(False, "accepted for compatibility"),
    "_disable_preprocessor_api": Field(False, "accepted for compatibility"),
    "_disable_action_flattening": Field(False, "accepted for compatibility"),
    "_disable_initialize_loss_from_dummy_batch": Field(False, "accepted for compatibility"),
}
