"""Import paths of Ray that have no file here: one table, and the loader that makes modules of it.

An entry of the table is one of two things. A text names the module that another path leads to. A dict lists the public names
of a module by the modules that define them, as in `lazy_loader.attach`; an empty one is a package with nothing but modules.
`import ray.X` (see `compat`) and `import skate.X` both find an entry. Private names are those that known packages import.
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Mapping
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import TYPE_CHECKING, Any

from skate import lazy_loader
from skate.rllib_import_paths import RLLIB

if TYPE_CHECKING:
    from importlib.abc import Loader
else:
    Loader = object  # importlib.abc imports tempfile and random

_PRIVATE = "skate.private_names"
_IDS = (
    "ActorClassID", "ActorID", "ClusterID", "FunctionID", "JobID", "NodeID", "ObjectID", "PlacementGroupID", "TaskID", "UniqueID",
    "WorkerID",
)  # fmt: skip
_CALLS = (
    "cancel", "get", "get_actor", "get_gpu_ids", "init", "is_initialized", "kill", "put", "remote", "shutdown", "wait",
    "LOCAL_MODE", "RESTORE_WORKER_MODE", "SCRIPT_MODE", "SPILL_WORKER_MODE", "WORKER_MODE",
)  # fmt: skip
_TEST_KIT = (
    "Semaphore", "SignalActor", "async_wait_for_condition", "run_string_as_driver", "run_string_as_driver_nonblocking",
    "wait_for_condition",
)  # fmt: skip
_CLUSTER_TEST_KIT = (
    "chdir", "check_call_ray", "check_call_subprocess", "client_test_enabled", "convert_actor_state",
    "external_redis_test_enabled", "generate_system_config_map", "get_actor_node_id", "get_current_unused_port",
    "get_gpu_visible_devices_env_var", "get_non_head_nodes", "get_other_nodes", "is_placement_group_removed",
    "kill_actor_and_wait_for_failure", "no_resource_leaks_excluding_node_resources", "placement_group_assert_no_leak",
    "put_object", "recursive_fnmatch", "run_string_as_driver_stdout_stderr", "same_elements", "wait_for_assertion",
    "wait_for_children_of_pid", "wait_for_children_of_pid_to_exit", "wait_for_num_actors", "wait_for_pid_to_exit",
    "wait_until_succeeded_without_exception",
)  # fmt: skip
_COMMON = (
    "binary_to_hex", "decode", "env_bool", "env_float", "env_integer", "get_function_args", "get_or_create_event_loop",
    "get_random_alphanumeric_string", "get_system_memory", "hex_to_binary", "import_attr", "import_module_and_attr",
    "load_class", "run_background_task", "try_to_create_directory",
)  # fmt: skip
_UTILS = (
    "ensure_str", "get_directory_size_bytes", "get_num_cpus", "get_ray_doc_version", "get_used_memory", "get_user",
    "is_main_thread", "parse_pg_formatted_resources_to_original", "try_import_each_module", "update_envs",
    "validate_namespace",
)  # fmt: skip
_SERVE_CONSTANTS = (
    "DEFAULT_GRPC_PORT", "DEFAULT_HTTP_HOST", "DEFAULT_HTTP_PORT", "DEFAULT_MAX_ONGOING_REQUESTS",
    "DEFAULT_TARGET_ONGOING_REQUESTS", "HEALTH_CHECK_METHOD", "RAY_SERVE_ENABLE_DIRECT_INGRESS", "RAY_SERVE_ENABLE_HA_PROXY",
    "RECONFIGURE_METHOD", "SERVE_CONTROLLER_NAME", "SERVE_DEFAULT_APP_NAME", "SERVE_HTTP_REQUEST_ID_HEADER",
    "SERVE_HTTP_REQUEST_TIMEOUT_S_HEADER", "SERVE_LOGGER_NAME", "SERVE_MULTIPLEXED_MODEL_ID", "SERVE_NAMESPACE",
)  # fmt: skip
_SERVE_TEST_KIT = (
    "Accumulator", "Barrier", "Counter", "GetPID", "SharedCounter", "SharedFlag", "check_apps_running",
    "check_deployment_status", "check_num_alive_nodes", "check_num_replicas_eq", "check_num_replicas_gte",
    "check_num_replicas_lte", "check_running", "get_application_url", "get_application_urls", "get_deployment_details",
    "get_node_id", "get_num_alive_replicas", "get_pid_entrypoint", "request_with_retries", "send_signal_on_cancellation", "tlog",
)  # fmt: skip
_REQUESTS = (
    "ChatCompletionRequest", "CompletionRequest", "DetokenizeRequest", "EmbeddingChatRequest", "EmbeddingCompletionRequest",
    "EmbeddingRequest", "ScoreRequest", "TokenizeChatRequest", "TokenizeCompletionRequest",
)  # fmt: skip
_RESPONSES = (
    "ChatCompletionResponse", "ChatCompletionStreamResponse", "CompletionResponse", "CompletionStreamResponse",
    "DetokenizeResponse", "EmbeddingResponse", "ErrorInfo", "ErrorResponse", "ModelCard", "ModelList", "ScoreResponse",
    "TokenizeResponse",
)  # fmt: skip

#: Each import path, without `ray.` or `skate.`, and where it leads.
TABLE: Mapping[str, str | Mapping[str, tuple[str, ...]]] = {
    # Private names. The comments name the packages that import them.
    "_common": {},
    "_common.constants": {f"{_PRIVATE}.constants": ("HEAD_NODE_RESOURCE_NAME", "NODE_ID_PREFIX")},
    "_common.deprecation": f"{_PRIVATE}.deprecation",
    "_common.network_utils": {f"{_PRIVATE}.functions": ("build_address", "find_free_port")},
    "_common.test_utils": {f"{_PRIVATE}.test_kit": _TEST_KIT},
    "_common.utils": {f"{_PRIVATE}.functions": _COMMON},
    "_private": {},
    # programs of Ray's documentation
    "_private.internal_api": {"skate.util.state.memory": ("memory_summary",)},
    # unidist, modin, verl
    "_private.ray_constants": f"{_PRIVATE}.constants",
    # modin, OpenRLHF, molt-rl, SkyRL, slime, NeMo-RL
    "_private.services": {"skate.util": ("get_node_instance_id", "get_node_ip_address")},
    # vLLM, verl, deltacat, daft, NeMo-RL
    "_private.state": {
        "skate": ("available_resources", "cluster_resources", "nodes", "timeline"),
        f"{_PRIVATE}.state": (
            "actors", "available_resources_per_node", "jobs", "node_ids", "state", "total_resources_per_node", "workers",
        ),
    },
    # tests of programs
    "_private.test_utils": {f"{_PRIVATE}.test_kit": _TEST_KIT, f"{_PRIVATE}.cluster_test_kit": _CLUSTER_TEST_KIT},
    "_private.utils": {f"{_PRIVATE}.functions": (*_COMMON, *_UTILS)},
    # OpenRLHF, molt-rl, RLinf, daft, raydp, dagster-ray
    "_private.worker": {
        "skate": _CALLS,
        f"{_PRIVATE}.worker": (
            "BaseContext", "RayContext", "Worker", "_global_node", "blocking_get_inside_async_warned", "global_worker",
        ),
    },
    # Ray_observability, xgboost_ray, mars
    "_raylet": {
        "skate": (*_IDS, "DynamicObjectRefGenerator", "Language", "ObjectRef", "ObjectRefGenerator"),
        f"{_PRIVATE}.worker": ("StreamingObjectRefGenerator",),
    },
    "data._internal": {},
    # programs of Ray's documentation
    "data._internal.datasource": {},
    "data._internal.datasource.range_datasource": {f"{_PRIVATE}.block_sources": ("RangeDatasource",)},
    "data._internal.delegating_block_builder": {f"{_PRIVATE}.block_sources": ("DelegatingBlockBuilder",)},
    "data._internal.datasource.webdataset_datasource": "skate.data.source.formats.webdataset",
    "data._internal.execution": {},
    "data._internal.execution.interfaces": {
        "skate.data.context": ("ExecutionOptions", "ExecutionResources", "NodeIdStr"),
        "skate.data.execution.bundle": ("RefBundle",),
        "skate.data.source.datasink": ("TaskContext",),
    },
    "data._internal.execution.interfaces.task_context": {"skate.data.source.datasink": ("TaskContext",)},
    # lance-ray
    "data._internal.util": {
        f"{_PRIVATE}.block_sources": ("is_null",),
        f"{_PRIVATE}.library_names": ("_check_import", "call_with_retry"),
    },
    # tests of programs for Serve
    "serve._private": {},
    "serve._private.client": {f"{_PRIVATE}.serve_client": ("ServeControllerClient",)},
    "serve._private.common": {
        "skate.serve.controller.states": ("DeploymentStatus", "DeploymentStatusTrigger", "ReplicaState"),
        "skate.serve.config.autoscaling": ("TimeStampedValue",),
        "skate.serve.identity": ("DeploymentID", "ReplicaID"),
        "skate.serve.request_router": ("RequestMetadata",),
        "skate.serve.schema.details": ("RequestProtocol",),
    },
    "serve._private.constants": {f"{_PRIVATE}.serve_constants": _SERVE_CONSTANTS},
    "serve._private.test_utils": {f"{_PRIVATE}.serve_test_kit": _SERVE_TEST_KIT},
    "train._internal": {},
    # xgboost_ray, lightgbm_ray
    "train._internal.session": "skate.train.session",
    # autogluon, cosmos-xenna, NeMo-Curator, xgboost_ray: older names of the modules above.
    "ray_constants": "skate._private.ray_constants",
    "state": "skate._private.state",
    "worker": "skate._private.worker",
    # Core
    "client_builder": {
        "skate.client.session.client_builder": ("ClientBuilder", "ClientContext", "client"),
        f"{_PRIVATE}.constants": ("CLIENT_DOCS_URL",),
    },
    "cloudpickle.cloudpickle": "cloudpickle.cloudpickle",
    "cloudpickle.cloudpickle_fast": "cloudpickle.cloudpickle",
    "cloudpickle.compat": {"cloudpickle.cloudpickle": ("pickle",), "pickle": ("Pickler",)},
    "cross_language": {
        "skate.client.cross_language": ("cpp_actor_class", "cpp_function", "java_actor_class", "java_function"),
    },
    "dag.compiled_dag_node": "skate.dag.compiled",
    "dag.dag_node": "skate.dag.node",
    # torchx, codeflare-sdk, dagster-ray
    "dashboard.modules": {},
    "dashboard.modules.job": {},
    "dashboard.modules.job.common": {
        "skate.job_submission": ("JobErrorType", "JobInfo", "JobStatus"),
        "skate.job_submission.request": ("JobSubmitRequest",),
    },
    "dashboard.modules.job.pydantic_models": {"skate.job_submission": ("DriverInfo", "JobDetails", "JobType")},
    "dashboard.modules.job.sdk": {"skate.job_submission": ("JobDetails", "JobStatus", "JobSubmissionClient")},
    "remote_function": {"skate.client.task.remote_function": ("RemoteFunction",)},
    "runtime_context": {"skate.client.runtime_context": ("RuntimeContext", "get_runtime_context")},
    "runtime_env.runtime_env": {"skate.runtime_env": ("RuntimeEnv", "RuntimeEnvConfig")},
    "types": {"skate.client.object.object_ref": ("ObjectRef",)},
    "util.accelerators.accelerators": "skate.util.accelerators.names",
    "util.client.common": {
        f"{_PRIVATE}.client_types": (
            "ClientActorClass", "ClientActorHandle", "ClientActorRef", "ClientObjectRef", "ClientRemoteFunc",
            "ClientRemoteMethod",
        ),
    },
    "util.common": {f"{_PRIVATE}.constants": ("INT32_MAX",)},
    "util.debugpy": {
        "skate.util.rpdb": ("set_trace",),
        f"{_PRIVATE}.constants": ("POST_MORTEM_ERROR_UUID",),
    },
    "util.helpers": {
        "skate.util.iterators.iteration": ("as_completed", "map_unordered"),
        f"{_PRIVATE}.constants": ("DEFAULT_BACKPRESSURE_SIZE", "DEFAULT_CHUNK_SIZE"),
    },
    "util.joblib.ray_backend": {"skate.util.joblib.backend": ("RayBackend",)},
    "util.pdb": "skate.util.rpdb",
    "util.ray_debugpy": "skate.util.debugpy",
    "util.state.exceptions": "skate.util.state.exception",
    "util.state.util": "skate.util.state.conversion",
    "widgets.render": {"skate.widgets": ("Template",)},
    # experimental
    "experimental.channel.cached_channel": "skate.experimental.channel.interface",
    "experimental.channel.common": "skate.experimental.channel",
    "experimental.channel.cpu_communicator": "skate.experimental.channel.group_communicator",
    "experimental.channel.intra_process_channel": "skate.experimental.channel.interface",
    "experimental.channel.shared_memory_channel": "skate.experimental.channel",
    "experimental.channel.torch_tensor_type": "skate.experimental.channel.types",
    "experimental.compiled_dag_ref": "skate.dag.references",
    "experimental.dynamic_resources": {"skate.experimental": ("set_resource",)},
    "experimental.multiprocessing.pool": {"skate.util.multiprocessing": ("Pool",)},
    "experimental.queue": {"skate.util.queue": ("Empty", "Full", "Queue")},
    "experimental.state.api": "skate.util.state.api",
    "experimental.state.common": "skate.util.state.common",
    "experimental.state.exception": "skate.util.state.exception",
    # air
    "air._internal": {},
    # programs of Ray's documentation
    "air._internal.torch_utils": {f"{_PRIVATE}.library_names": ("get_devices",)},
    "air.integrations.keras": {"skate.train.tensorflow.keras": ("ReportCheckpointCallback",)},
    "air.result": "skate.train.result",
    "air.util": {},
    "air.util.data_batch_conversion": {"skate.data.block": ("BatchFormat",)},
    "air.util.tensor_extensions": {},
    "air.util.tensor_extensions.arrow": "skate.data.extensions.arrow_types",
    # data
    "data.constants": {"skate.air.constants": ("MAX_REPR_LENGTH", "TENSOR_COLUMN_NAME")},
    "data.datasource.datasink": {
        "skate.data.source.datasink": ("Datasink", "DummyOutputDatasink", "WriteResult", "WriteReturnType"),
    },
    "data.datasource.datasource": {
        "skate.data.source.datasource": ("BlockMetadata", "Datasource", "ReadTask", "Reader"),
        "skate.data.source.random_rows": ("RandomIntRowDatasource",),
    },
    "data.datasource.file_based_datasource": {"skate.data.source.files.source": ("FileBasedDatasource", "FileShuffleConfig")},
    "data.datasource.file_datasink": {"skate.data.source.files.sink": ("BlockBasedFileDatasink", "RowBasedFileDatasink")},
    "data.datasource.file_meta_provider": {
        "skate.data.source.files.file_list": (
            "BaseFileMetadataProvider", "DefaultFileMetadataProvider", "FileMetadataProvider",
        ),
    },
    "data.datasource.filename_provider": {"skate.data.source.files.filename_provider": ("FilenameProvider",)},
    "data.datasource.partitioning": {
        "skate.data.source.files.path_partitions": (
            "PartitionStyle", "PathPartitionFilter", "PathPartitionParser", "Partitioning",
        ),
    },
    "data.extensions.tensor_extension": "skate.data.extensions",
    "data.iterator": {
        "skate.data.collate_fn": (
            "ArrowBatchCollateFn", "CollateFn", "NumpyBatchCollateFn", "PandasBatchCollateFn",
        ),
        "skate.data.iteration.iterator": ("DataIterator", "DatasetIterator"),
    },
    "data.preprocessors.utils": "skate.data.preprocessors.hasher",
    "data.util": {},
    "data.util.data_batch_conversion": {"skate.data.block": ("BatchFormat",)},
    "data.util.torch_inference": {"skate.data.steps.torch_inference": ("TorchInference",)},
    "data.stats": {"skate.data.dataset.summary": ("DatasetSummary",)},
    # train
    "train.collective.collectives": "skate.train.collective",
    "train.context": "skate.train.worker.train_context",
    "train.data_parallel_trainer": {"skate.train.trainer": ("DataParallelTrainer",)},
    "train.error": "skate.train.errors",
    "train.lightgbm.lightgbm_checkpoint": "skate.train.lightgbm.checkpoint",
    "train.lightgbm.lightgbm_trainer": "skate.train.lightgbm.trainer",
    "train.lightgbm.v2": "skate.train.lightgbm.trainer",
    "train.tensorflow.tensorflow_checkpoint": "skate.train.tensorflow.checkpoint",
    "train.tensorflow.tensorflow_trainer": "skate.train.tensorflow.trainer",
    "train.torch.torch_checkpoint": "skate.train.torch.checkpoint",
    "train.torch.torch_trainer": "skate.train.torch.trainer",
    "train.torch.train_loop_utils": "skate.train.torch",
    "train.v2.api": {},
    "train.v2.api.callback": "skate.train.callback",
    "train.v2.api.config": "skate.train.configs",
    "train.v2.api.context": "skate.train.worker.train_context",
    "train.v2.api.data_parallel_trainer": "skate.train.trainer",
    "train.v2.api.exceptions": "skate.train.errors",
    "train.v2.api.preemption": "skate.train.errors",
    "train.v2.api.report_config": "skate.train.modes",
    "train.v2.api.reported_checkpoint": "skate.train.modes",
    "train.v2.api.result": "skate.train.result",
    "train.v2.api.train_fn_utils": "skate.train",
    "train.v2.api.validation_config": "skate.train.modes",
    "train.v2.jax": {"skate.train.jax.config": ("JaxConfig",), "skate.train.jax.trainer": ("JaxTrainer",)},
    "train.v2.jax.config": "skate.train.jax.config",
    "train.v2.jax.jax_trainer": "skate.train.jax.trainer",
    "train.v2.lightgbm": {},
    "train.v2.lightgbm.lightgbm_trainer": "skate.train.lightgbm.trainer",
    "train.v2.tensorflow": {},
    "train.v2.tensorflow.tensorflow_trainer": "skate.train.tensorflow.trainer",
    "train.v2.torch": {},
    "train.v2.torch.torch_trainer": "skate.train.torch.trainer",
    "train.v2.torch.train_loop_utils": "skate.train.torch",
    "train.v2.xgboost": {},
    "train.v2.xgboost.config": "skate.train.xgboost.config",
    "train.v2.xgboost.xgboost_trainer": "skate.train.xgboost.trainer",
    "train.xgboost.v2": "skate.train.xgboost.trainer",
    "train.xgboost.xgboost_checkpoint": "skate.train.xgboost.checkpoint",
    "train.xgboost.xgboost_trainer": "skate.train.xgboost.trainer",
    # tune
    "tune.analysis.experiment_analysis": "skate.tune.analysis",
    "tune.cli": {},
    "tune.cli.commands": "skate.tune.list_trials",
    "tune.cli.scripts": "skate.tune.command",
    "tune.context": {"skate.tune.trainable.session": ("TuneContext", "get_context")},
    "tune.examples.utils": "skate.tune.examples.iris",
    "tune.execution.placement_groups": {
        "skate.tune.placement": ("PlacementGroupFactory", "resource_dict_to_pg_factory"),
    },
    "tune.experiment.config_parser": "skate.tune.experiment.experiment",
    "tune.logger.aim": "skate.air.integrations.aim",
    "tune.logger.comet": "skate.air.integrations.comet",
    "tune.logger.csv": "skate.air.loggers.table",
    "tune.logger.json": "skate.air.loggers.lines",
    "tune.logger.logger": "skate.air.logger_callback",
    "tune.logger.mlflow": "skate.air.integrations.mlflow",
    "tune.logger.tensorboardx": "skate.air.loggers.tensorboard",
    "tune.logger.wandb": "skate.air.integrations.wandb",
    "tune.search.ax.ax_search": "skate.tune.search.ax",
    "tune.search.bayesopt.bayesopt_search": "skate.tune.search.bayesopt",
    "tune.search.bohb.bohb_search": "skate.tune.search.bohb",
    "tune.search.hebo.hebo_search": "skate.tune.search.hebo",
    "tune.search.hyperopt.hyperopt_search": "skate.tune.search.hyperopt",
    "tune.search.nevergrad.nevergrad_search": "skate.tune.search.nevergrad",
    "tune.search.optuna.optuna_search": "skate.tune.search.optuna",
    "tune.search.zoopt.zoopt_search": "skate.tune.search.zoopt",
    "tune.stopper.noop": "skate.tune.stopper.stopper",
    "tune.syncer": {"skate.tune.configs": ("SyncConfig",)},
    "tune.trainable.function_trainable": "skate.tune.trainable.function",
    "tune.trainable.trainable_fn_utils": "skate.tune",
    "tune.trainable.util": "skate.tune.trainable.bound_parameters",
    "tune.tune_config": {"skate.tune.configs": ("ResumeConfig", "TuneConfig")},
    "tune.utils.util": "skate.tune.utils",
    # serve
    "serve.async_inference_autoscaling_policy": {"skate.serve.tasks.autoscaling": ("AsyncInferenceAutoscalingPolicy",)},
    "serve.gang": {"skate.serve.context": ("GangContext",)},
    "serve.task_consumer": {
        "skate.serve.tasks.consumer": ("instantiate_adapter_from_config", "task_consumer", "task_handler"),
    },
    "serve.task_processor": {"skate.serve.tasks.celery_adapter": ("CeleryTaskProcessorAdapter",)},
    "serve.dag": {"skate.dag": ("InputNode",)},
    "serve.llm.deployment": {
        "skate.serve.llm.data_parallel": ("DPServer",),
        "skate.serve.llm.disaggregation": ("PDDecodeServer", "PDPrefillServer"),
        "skate.serve.llm.server": ("LLMServer",),
    },
    "serve.llm.openai_api_models": {
        "skate.llm.openai.requests": _REQUESTS,
        "skate.llm.openai.responses": _RESPONSES,
    },
    "llm._internal": {},
    "llm._internal.serve": {},
    "llm._internal.serve.core": {},
    "llm._internal.serve.core.ingress": {},
    "llm._internal.serve.core.ingress.dev_ingress": "skate.serve.llm.dev_ingress",
    **RLLIB,
}  # fmt: skip


def modules_below(name: str) -> list[str]:
    """Return the names of the modules directly below a package that the table has."""
    return [child for parent, _, child in (each.rpartition(".") for each in TABLE) if parent == name]


def private() -> list[str]:
    """Return the modules with private names of Ray that have names."""
    return [
        name for name, entry in TABLE.items() if entry and any(part[0] == "_" for part in name.split("."))
    ]


def load(name: str) -> ModuleType:
    """Return the module of an entry of the table."""
    entry = TABLE[name]
    if isinstance(entry, str):
        return importlib.import_module(entry)
    full = f"skate.{name}"
    module = sys.modules.get(full)
    if module is None:
        module = sys.modules[full] = _module(full, entry)
    return module


def _module(full: str, homes: Mapping[str, tuple[str, ...]]) -> ModuleType:
    name = full.removeprefix("skate.")
    below = modules_below(name)
    module = ModuleType(
        full, f"Names of `ray.{name}`; skate.import_paths lists the modules that define them."
    )
    module.__spec__ = spec(full)
    module.__package__ = full if below else full.rpartition(".")[0]
    if below:
        module.__path__ = []
    space: dict[str, Any] = vars(module)
    find, space["__dir__"], names = lazy_loader.attach(space, homes, below)
    known = {*names, *below}

    def get(attribute: str) -> Any:
        if attribute in known:
            return find(attribute)
        raise AttributeError(
            f"module 'ray.{name}' has no attribute {attribute!r}: Skate has only these names of it: "
            f"{', '.join(sorted(known)) or 'none'}"
        )

    space["__getattr__"], space["__all__"] = get, names
    return module


def spec(full: str) -> ModuleSpec | None:
    """Return the spec of a module under `skate.`, or None if the table does not have it."""
    name = full.removeprefix("skate.")
    return ModuleSpec(full, _Loader(), is_package=bool(modules_below(name))) if name in TABLE else None


class _Loader(Loader):
    """Puts the module of an entry in the place of the empty one that the import system made."""

    def create_module(self, spec: ModuleSpec) -> ModuleType | None:
        """Return None: the import system would overwrite the `__spec__` of a module that is returned here."""
        return None

    def exec_module(self, module: ModuleType) -> None:
        """Replace the module."""
        full = module.__name__
        del sys.modules[full]
        sys.modules[full] = load(full.removeprefix("skate."))
